"""One process of a shared run collects all tests; the others collect only files that they run."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.launch import forked_programs
from tests.suite.shared_collection import SharedCollection

CONFTEST = """
import os
from tests.lanes import Lanes
from tests.suite.shared_collection import SharedCollection

def pytest_configure(config):
    config.pluginmanager.register(SharedCollection("FOLDER"))

def pytest_xdist_make_scheduler(config, log):
    return Lanes(config, log)

def note(name):
    with open("FOLDER/imports", "a") as file:
        file.write(f"{os.environ['PYTEST_XDIST_WORKER']} {name} {os.environ.get('SET_BY', '')}\\n")
"""
# A test file whose fixture changes the environment; the next file must be imported without it.
FILE = """
import os, time, warnings, pytest
from conftest import note
note(__name__)
ENDS_IN_COLLECTION

@pytest.fixture(scope="module", autouse=True)
def sets():
    os.environ["SET_BY"] = __name__
    yield
    del os.environ["SET_BY"]

@pytest.mark.parametrize("number", range(3))
def test_it(number):
    time.sleep(0.01)
    if number == 2:
        assert __name__ != "test_3"

@pytest.mark.parametrize("number", range(2))
def test_other(number):
    pass
"""
# Code that ends the first process that collects test_5, and no later process.
ENDS = """
import pathlib
if __name__ == "test_5" and not pathlib.Path("FOLDER/ended").exists():
    pathlib.Path("FOLDER/ended").touch()
    os._exit(1)
"""
FILES = 8


def run(folder: Path, *words: str, ends: str = "") -> tuple[str, list[list[str]]]:
    """Run a folder of tests in two processes. Return the output, and the imports of test files."""
    (folder / "pytest.ini").write_text(f"[pytest]\npythonpath = {ROOT} .\nfilterwarnings = error\n")
    (folder / "conftest.py").write_text(CONFTEST.replace("FOLDER", str(folder)))
    text = FILE.replace("ENDS_IN_COLLECTION", ends.replace("FOLDER", str(folder)))
    for number in range(FILES):
        (folder / f"test_{number}.py").write_text(text)
    given = ["-m", "pytest", "-p", "no:cacheprovider", "-rfE", "-n", "2", *words]
    done = forked_programs.run(given, folder)
    imports = (folder / "imports").read_text().splitlines()
    return done.stdout + done.stderr, [line.split(" ") for line in imports]


@pytest.mark.one_in(4)
def test_one_process_imports_all_files_and_the_other_those_that_it_runs(tmp_path: Path) -> None:
    said, imports = run(tmp_path)
    assert "FAILED test_3.py::test_it[2]" in said and "1 failed, 39 passed" in said
    by_process = Counter(process for process, _, _ in imports)
    assert sorted(by_process) == ["gw0", "gw1"]
    least, most = sorted(by_process.values())
    assert most == FILES > least
    assert {set_by for _, _, set_by in imports} == {""}


@pytest.mark.one_in(4)
def test_what_is_deselected_is_so_in_each_process(tmp_path: Path) -> None:
    said, _ = run(tmp_path, "-k", "other", "--deselect", "test_2.py::test_other[0]")
    assert "15 passed" in said and "failed" not in said


def test_tests_that_are_named_are_collected_by_each_process() -> None:
    for words, is_shared in ((["tests"], True), (["tests/test_1.py::test_it", "tests"], False)):
        config = SimpleNamespace(workerinput={"collection": "a file"}, args=words)
        session: Any = SimpleNamespace(config=config, perform_collect="whole")
        SharedCollection("a folder").pytest_sessionstart(session)
        assert (session.perform_collect != "whole") == is_shared


@pytest.mark.one_in(4)
def test_where_the_one_that_collects_ends_another_one_does(tmp_path: Path) -> None:
    said, _ = run(tmp_path, ends=ENDS)
    assert (tmp_path / "ended").exists()
    assert "1 failed, 39 passed" in said, said


@pytest.mark.one_in(4)
def test_a_file_that_cannot_be_collected_is_an_error_once(tmp_path: Path) -> None:
    said, _ = run(tmp_path, ends='if __name__ == "test_4":\n    import no_such_module')
    assert said.count("ERROR test_4.py") == 1 and "35" in said, said
