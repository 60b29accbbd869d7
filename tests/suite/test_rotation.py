"""Each commit runs a part of the cases that are marked `one_in`; over some commits all of them."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.launch import forked_programs
from tests.suite.rotation import ANYWHERE, commit_of, of_other_commits, seed_of_run

pytest_plugins = ["pytester"]

FILE = """
import pytest

@pytest.mark.one_in(4)
@pytest.mark.parametrize("case", range(10))
def test_many(case):
    pass

@pytest.mark.one_in(4)
@pytest.mark.parametrize("case", range(2))
def test_few(case):
    pass

@pytest.mark.seed("C1")
@pytest.mark.one_in(4)
@pytest.mark.parametrize("case", range(3))
def test_rows(case):
    pass

def test_always():
    pass
"""
SINGLE_TESTS = """
import pytest

@pytest.mark.one_in(3)
def test_a(): pass

@pytest.mark.one_in(3)
def test_b(): pass

@pytest.mark.one_in(3)
def test_c(): pass

@pytest.mark.one_in(3)
def test_d(): pass

@pytest.mark.one_in(3, each=True)
@pytest.mark.parametrize("case", range(2))
def test_cases(case): pass

def test_always(): pass
"""


@pytest.fixture
def items(pytester: pytest.Pytester) -> list[pytest.Item]:
    """Return the tests of two files."""
    pytester.makepyfile(test_functions=FILE, test_file=SINGLE_TESTS)
    found, _ = pytester.inline_genitems("-p", "no:cacheprovider")
    return found


def kept(items: list[pytest.Item], seed: str) -> list[str]:
    """Return the names of the tests that run with this seed."""
    left = of_other_commits(items, seed)
    return [item.name for item in items if item not in left]


@pytest.mark.parametrize("seed", ["5d54b718", "ba3118a4", ANYWHERE])
def test_a_commit_runs_its_part_of_the_cases_and_at_least_one(
    items: list[pytest.Item], seed: str
) -> None:
    names = kept(items, seed)
    prefixes = {"test_many": 3, "test_few": 1, "test_rows": 3, "test_always": 2}
    assert {one: sum(name.startswith(one) for name in names) for one in prefixes} == prefixes
    assert kept(items, seed) == names


def test_each_single_test_or_case_runs_in_one_of_n_commits(items: list[pytest.Item]) -> None:
    parts = [kept(items, f"{seed:08x}") for seed in range(300)]
    for name in ("test_a", "test_b", "test_c", "test_d"):
        assert 80 <= sum(name in part for part in parts) <= 120
    counts = [sum(name.startswith("test_cases") for name in part) for part in parts]
    assert all(20 <= counts.count(number) <= most for number, most in enumerate((170, 160, 50)))
    together = sum("test_a" in part and "test_b" in part for part in parts)
    assert 20 <= together <= 50, "the draws of two tests depend on each other"


def test_some_commits_run_all_cases(items: list[pytest.Item]) -> None:
    parts = [kept(items, f"{seed:08x}") for seed in range(40)]
    assert len(set(map(tuple, parts))) > 20
    assert {name for part in parts for name in part} == {item.name for item in items}


def test_a_file_that_is_collected_alone_has_the_same_part(items: list[pytest.Item]) -> None:
    """The processes of a shared run collect one file at a time."""
    alone = [item for item in items if "test_file" in item.nodeid]
    both = of_other_commits(items, "1")
    assert of_other_commits(alone, "1") == {item for item in both if "test_file" in item.nodeid}


def config(source: str, **options: Any) -> Any:
    given = {"rotate": None, "slow": False, "keyword": "", "markexpr": ""} | options
    return SimpleNamespace(
        args_source=pytest.Config.ArgsSource[source], option=SimpleNamespace(**given)
    )


def test_only_a_run_of_all_tests_takes_a_part_unless_told_to(tmp_path: Path) -> None:
    where = str(tmp_path)
    assert seed_of_run(config("TESTPATHS"), where) == ANYWHERE
    for options in ({"slow": True}, {"rotate": "off"}, {"keyword": "mul"}, {"markexpr": "gpu"}):
        assert seed_of_run(config("TESTPATHS", **options), where) is None
    assert seed_of_run(config("ARGS"), where) is None
    assert seed_of_run(config("ARGS", rotate="ab12"), where) == "ab12"
    assert seed_of_run(config("TESTPATHS", rotate="ab12", slow=True), where) is None


def test_the_seed_is_the_commit_of_the_checkout(tmp_path: Path) -> None:
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    assert commit_of(str(tmp_path)) == ANYWHERE
    subprocess.run([*git, "init", "-q"], check=True)
    assert commit_of(str(tmp_path)) == ANYWHERE  # without a commit
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "first"], check=True)
    command = [*git, "rev-parse", "HEAD"]
    head = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert commit_of(str(tmp_path)) == head[:8]


CONFTEST = """
from tests.suite.rotation import Rotation

def pytest_addoption(parser):
    parser.addoption("--rotate")
    parser.addoption("--slow", action="store_true")

def pytest_configure(config):
    config.pluginmanager.register(Rotation(config, "."), "rotation")

def pytest_collection_modifyitems(config, items):
    others = config.pluginmanager.get_plugin("rotation").others(items)
    items[:] = [item for item in items if item not in others]
"""


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("more", "count"), [((), 10), (("--rotate", "off"), 23)])
def test_the_processes_of_a_shared_run_take_the_same_part(
    tmp_path: Path, more: tuple[str, ...], count: int
) -> None:
    markers = "markers =\n    one_in(n): one\n    seed: rows"
    ini = f"[pytest]\npythonpath = {ROOT} .\ntestpaths = .\nfilterwarnings = error\n{markers}\n"
    (tmp_path / "pytest.ini").write_text(ini)
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_functions.py").write_text(FILE)
    (tmp_path / "test_file.py").write_text(SINGLE_TESTS)
    given = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "2", *more]
    done = forked_programs.run(given, tmp_path)
    assert f"{count} passed" in done.stdout, done.stdout + done.stderr
