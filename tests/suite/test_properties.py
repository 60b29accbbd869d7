"""If a property fails, it is named, later properties are still checked, and the test fails."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.launch import forked_programs
from tests.properties import Properties, in_one_test

SAMPLE = """
import pytest
from tests.properties import Properties, in_one_test, in_one_test_each

@pytest.fixture
def properties(subtests):
    return Properties(subtests, lambda: print("prepared"))

def test_it(properties):
    with properties("first"):
        assert 1 == 1
    with properties("second"):
        assert 1 == 2
    with properties("third"), pytest.raises(ValueError):
        pass
    with properties("fourth"):
        print("reached")

@in_one_test("x, y", [(1, 1), (1, 2)])
@in_one_test("z", [0, 1])
def test_grid(x, y, z):
    assert x == y or z == 0

CASES = {"add": {"add-0": (1, 1), "add-1": (1, 2)}, "mul": {"mul-0": (2, 2)}}

@in_one_test_each("op", "x, y", CASES)
def test_case(x, y, properties):
    with properties("equal"):
        assert x == y
    with properties("small"):
        assert x < 2

def test_interrupted(properties):
    with properties("fifth"):
        pytest.exit("enough")
"""


def run(folder: Path, *options: str) -> str:
    (folder / "test_sample.py").write_text(SAMPLE)
    (folder / "pytest.ini").write_text("[pytest]\npythonpath = " + str(ROOT))
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", *options, "test_sample.py"]
    return forked_programs.run(words, folder).stdout


@pytest.mark.one_in(3)
def test_each_failure_is_named_and_the_rest_is_checked(tmp_path: Path) -> None:
    told = run(tmp_path, "-rA")
    assert "test_it [second]" in told and "assert 1 == 2" in told
    assert "test_it [third]" in told and "DID NOT RAISE" in told
    assert "[first]" not in told and "[fourth]" not in told
    assert "reached" in told and "contains 2 failed subtests" in told
    assert "test_grid [x 1, y 2, z 1]" in told and "test_grid [x 1, y 2, z 0]" not in told
    assert "test_case[add] [add-1, equal]" in told and "test_case[mul] [mul-0, small]" in told
    assert "[add-0" not in told and "[add-1, small]" not in told and "[mul-0, equal]" not in told
    assert "enough" in told


@pytest.mark.one_in(3)
def test_the_first_failure_ends_a_run_that_is_to_end_there(tmp_path: Path) -> None:
    told = run(tmp_path, "-x")
    assert "test_it [second]" in told and "[third]" not in told


def test_an_argument_that_is_not_in_the_grid_is_a_fixture_still() -> None:
    @in_one_test("size", [1, 2, 3])
    def test(tmp_path: str, size: int) -> None:
        seen.append((tmp_path, size))

    seen: list[tuple[str, int]] = []
    assert [*inspect.signature(test).parameters] == ["tmp_path", "properties"]
    test(tmp_path="here", properties=Properties(None, lambda: None))  # type: ignore[arg-type]
    assert seen == [("here", 1), ("here", 2), ("here", 3)]


def test_each_property_is_prepared(subtests: pytest.Subtests) -> None:
    prepared: list[int] = []
    properties = Properties(subtests, lambda: prepared.append(1))
    for name in ("one", "other"):
        with properties(name):
            pass
    assert prepared == [1, 1]
