"""tests.mutate distinguishes detected mutants, undetected ones, and changes without effect."""

from __future__ import annotations

import ast
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests import mutate, mutate_copy
from tests.mutants import breaks_of, is_another_program
from tests.mutants_drawn import Mutant, draw, explanations
from tests.mutate import EXPLAINED, ROOMS, ROOT, Room, mutants_of
from tests.mutate_log import Lines, Log, TestFile, Verdict

TEXT = '''"""A module."""

from __future__ import annotations

LIMIT: int = 3


def first(values: list[int], *, add: int = 0) -> int | None:
    """Return one."""
    assert values is not None
    while not values or values[0] < LIMIT:
        if add == 1 and values:
            continue
        values.pop(
            0
        )
    if len(values) > 1: raise ValueError(f"{len(values) + 1} of them")
    return values[0] + add
'''


def changes(text: str) -> set[tuple[str, str]]:
    source = text.encode()
    return {one.lines(source) for one in breaks_of(source)}


def replaced(text: str) -> set[str]:
    """Return the changed texts that the mutants of a single line give."""
    return {new for _, new in changes(text)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = a < b", {"x = (a <= b)", "x = (a >= b)"}),
        ("x = a == b", {"x = (a != b)"}),
        ("x = a is None", {"x = (a is not None)"}),
        ("x = a not in b", {"x = (a in b)"}),
        ("x = a and b", {"x = (a or b)"}),
        ("x = not a", {"x = (a)"}),
        ("x = 3", {"x = 4", "x = (2)"}),
        ("x = True", {"x = False"}),
        ("x = a - b", {"x = (a + b)"}),
        ("x = f(a, b)", {"x = (a)"}),
        ("x = f()", {"x = None"}),
        ("f(a)", {"pass"}),
        ("x.y = a", {"pass"}),
        ("x += a", {"pass"}),
        ("raise f(3)", {"pass"}),
        ("if a: b", {"if (not (a)): b"}),
        ("x = [y for y in a if b]", {"x = [y for y in a if (not (b))]"}),
        ("with self._lock: b", {"if True: b"}),
        ("with open(a): b", {"with (a): b"}),
        ("x = a", set()),
        ("x: int | None = a", set()),
        ("assert a == 1", set()),
        ("import a", set()),
        ("F = TypeVar('F', bound=3)", set()),
        ("x = f'{a + 1}'", set()),
        ("x = zip(strict=True)", {"x = None"}),
    ],
)
def test_each_kind_of_break(text: str, expected: set[str]) -> None:
    assert replaced(text) == expected


def test_breaks_of_a_function_say_where_they_are_and_leave_the_rest_alone() -> None:
    source = TEXT.encode()
    found = breaks_of(source)
    for one in found:
        broken = one.of(source)
        assert ast.parse(broken) and broken != source
        assert (broken.startswith if one.within else broken.endswith)(
            source[: source.index(b"def")] if one.within else source[source.index(b"def") :]
        )
    where = {(one.within, one.first, one.last) for one in found}
    # The text has a default and a head on separate lines, a call over three lines, and two
    # statements on one line.
    assert where == {
        *(("", 5, 5), ("first", 8, 8), ("first", 11, 11), ("first", 12, 12), ("first", 13, 13)),
        *(("first", 14, 16), ("first", 17, 17), ("first", 18, 18)),
    }
    assert ("values.pop( 0 )", "pass") in changes(TEXT)


def test_a_program_in_other_words_is_no_break() -> None:
    assert not is_another_program(b"x = 1\n", b"x = (1)\n")
    assert not is_another_program(b"x = 1\n", b"x = (1\n")
    assert is_another_program(b"x = 1\n", b"x = 2\n")
    # Compiling this code gives a warning.
    assert is_another_program(b"x = f()()\n", b"x = None()\n")


def test_the_same_seed_draws_the_same_breaks(tmp_path: Path) -> None:
    make_tree(tmp_path)
    mutants = mutants_of(tmp_path, SMALL)
    drawn = [draw(tmp_path, mutants, 5, seed) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2] and len(drawn[0]) == 5
    assert len(draw(tmp_path, mutants, 1000, 1)) == len(mutants)


def test_a_change_elsewhere_draws_no_other_breaks(tmp_path: Path) -> None:
    make_tree(tmp_path)
    before = draw(tmp_path, mutants_of(tmp_path, SMALL), 5, 1)
    path = tmp_path / "fastdist" / "small" / "sums.py"
    path.write_text(PRODUCT.replace("START = 0\n", "START = 0\nLIMIT = None\n"))
    after = draw(tmp_path, mutants_of(tmp_path, SMALL), 5, 1)
    assert [one.key for one in before] == [one.key for one in after]


def test_breaks_are_found_in_subfolders(tmp_path: Path) -> None:
    make_tree(tmp_path)
    inner = tmp_path / "fastdist" / "small" / "inner"
    inner.mkdir()
    (inner / "more.py").write_text("LIMIT = 3\n")
    assert {one.key[3] for one in mutants_of(tmp_path, SMALL) if "inner" in one.file} == {
        "LIMIT = 4",
        "LIMIT = (2)",
    }


# ---- a small tree in another folder --------------------------------------------------------------

SMALL = Room("fastdist/small", ("tests/small",))
PRODUCT = '''"""A room."""

import threading

_lock = threading.Lock()
START = 0
total = START


def add(number: int) -> int:
    global total
    with _lock:
        total = total + number
    if total < 0:
        raise ValueError(total)
    return total


def nobody_asks() -> int:
    return 7
'''
TESTS = '''"""What is held of it."""

import os
import subprocess
import sys
import threading

import pytest

from fastdist.small import sums


@pytest.fixture(autouse=True, scope="module")
def no_thread_is_left():
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


def test_it_adds() -> None:
    before = sums.total
    assert sums.add(2) == before + 2 > 1


def test_what_a_child_does_counts() -> None:
    program = "from fastdist.small import sums; sums.add(-1)"
    told = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=dict(os.environ)
    )
    assert "ValueError: -1" in told.stderr
'''


INTERRUPTED = """
import signal
import pytest

def test_it_is_interrupted():
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
"""


def make_tree(root: Path) -> None:
    """Write a tree with one room and with the mutation tools."""
    for folder in ("fastdist/small", "tests/small"):
        (root / folder).mkdir(parents=True)
    (root / "fastdist" / "small" / "sums.py").write_text(PRODUCT)
    (root / "tests" / "small" / "test_sums.py").write_text(TESTS)
    for name in ("mutate_lines.py", "mutate_warm.py"):
        (root / "tests" / name).write_bytes((ROOT / "tests" / name).read_bytes())
    config = '[tool.pytest.ini_options]\naddopts = ["--import-mode=importlib"]\n'
    (root / "pyproject.toml").write_text(config)


@pytest.mark.one_in(4)
@pytest.mark.usefixtures("forked_pytest")
def test_survivors_are_told_with_who_looked(tmp_path: Path) -> None:
    make_tree(tmp_path)
    mutants = mutants_of(tmp_path, SMALL)
    kinds = {mutant.key[1:]: mutant for mutant in mutants}
    killed = kinds["add", "total = total + number", "total = (total - number)"]
    by_child = kinds["add", "raise ValueError(total)", "pass"]
    unlocked = kinds["add", "with _lock:", "if True:"]
    unseen = kinds["nobody_asks", "return 7", "return 8"]
    at_import = kinds["", "START = 0", "START = (-1)"]
    drawn = [killed, unlocked, by_child, unseen, at_import]
    found = list(mutate.look_at(tmp_path, SMALL, drawn, 2))
    assert [mutant for mutant, _ in found] == drawn
    words = ["", "2 tests run it", "", "no test runs it", ""]
    assert ["" if one.killed else one.word for _, one in found] == words
    child = "tests/small/test_sums.py::test_what_a_child_does_counts"
    assert found[2][1].word == child
    # The mutants were made in copies, so the original tree is unchanged.
    assert (tmp_path / "fastdist" / "small" / "sums.py").read_text() == PRODUCT


@pytest.mark.one_in(4)
@pytest.mark.usefixtures("forked_pytest")
def test_a_room_whose_tests_all_fail_is_no_room_to_break(tmp_path: Path) -> None:
    make_tree(tmp_path)
    (tmp_path / "tests" / "small" / "test_sums.py").write_text("def test_it():\n    assert 0\n")
    mutants = mutants_of(tmp_path, SMALL)
    with pytest.raises(SystemExit, match="no test of fastdist/small passes without a break"):
        list(mutate.look_at(tmp_path, SMALL, mutants[:1], 1))


@pytest.mark.one_in(4)
@pytest.mark.usefixtures("forked_pytest")
def test_functions_are_broken_in_a_process_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir(), (tmp_path / "copy").mkdir()
    make_tree(tmp_path / "tree")
    copy = mutate.Copy(tmp_path / "tree", tmp_path / "copy")
    found, said = copy.look_at_lines(SMALL.folder, "tests/small/test_sums.py")
    assert not said and len(found.seconds) == 2
    lines, tests = Lines(), sorted(found.seconds)
    lines.add(found)
    adds = tests[0]
    by_change = {mutant.key[1:]: mutant for mutant in mutants_of(tmp_path / "tree", SMALL)}
    warm = mutate_copy.Warm(copy.folder, [found.file])

    def killer(*change: str) -> str | None:
        return warm.killer(by_change[change], PRODUCT.encode(), lines, tests)

    try:
        assert killer("add", "total = total + number", "total = (total - number)") == adds
        assert killer("add", "return total", "return None") == adds
        # Mutants that survive, that are outside of functions, and that are detected. Each mutant is
        # undone before the next one.
        assert killer("add", "with _lock:", "if True:") == ""
        assert killer("", "START = 0", "START = (-1)") is None
        assert killer("add", "if total < 0:", "if (total <= 0):") == ""
    finally:
        warm.close()


@pytest.mark.one_in(4)
def test_tests_hear_ctrl_c_where_a_shell_has_put_the_run_in_the_background(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir(), (tmp_path / "copy").mkdir()
    make_tree(tmp_path / "tree")
    (tmp_path / "tree" / "tests" / "small" / "test_sums.py").write_text(INTERRUPTED)
    copy = mutate.Copy(tmp_path / "tree", tmp_path / "copy")
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        code, said = copy.run(["tests/small/test_sums.py"], 60.0)
    finally:
        signal.signal(signal.SIGINT, before)
    assert code == 0, said


def test_files_of_tests_can_be_left_out(tmp_path: Path) -> None:
    make_tree(tmp_path)
    (tmp_path / "tests" / "small" / "test_long_ones.py").write_text("")
    names = ["tests/small/test_long_ones.py", "tests/small/test_sums.py"]
    assert SMALL.test_files(tmp_path) == names
    assert replace(SMALL, without="long").test_files(tmp_path) == names[1:]


@pytest.mark.one_in(4)
@pytest.mark.usefixtures("forked_pytest")
def test_a_run_goes_on_where_one_before_it_was_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_tree(tmp_path)
    by_change = {mutant.key[1:]: mutant for mutant in mutants_of(tmp_path, SMALL)}
    killed = by_change["add", "total = total + number", "total = (total - number)"]
    unlocked = by_change["add", "with _lock:", "if True:"]
    first = list(mutate.look_at(tmp_path, SMALL, [killed, unlocked], 1))

    def fail(*_: object) -> str:
        raise AssertionError("asked again")

    for name in ("look_at_lines", "killer"):
        monkeypatch.setattr(mutate.Copy, name, fail)
    with (tmp_path / ".mutate" / "fastdist-small" / "verdicts.jsonl").open("a") as file:
        file.write('{"name": ["fastdist/sma')  # the run may have ended during a write
    assert list(mutate.look_at(tmp_path, SMALL, [killed, unlocked], 1)) == first
    # A new test may detect a survivor, so only the verdicts on caught mutants are kept.
    with (tmp_path / "tests" / "small" / "test_sums.py").open("a") as file:
        file.write("\n\ndef test_there_is_a_lock() -> None:\n    assert sums._lock is not None\n")
    known = Log(tmp_path, SMALL.folder, SMALL.test_files(tmp_path))
    assert [verdict for _, verdict in first if verdict.killed] == list(known.verdicts().values())
    assert known.lines()[1] == ["tests/small/test_sums.py"]


@pytest.mark.one_in(4)
@pytest.mark.usefixtures("forked_pytest")
def test_tests_that_ran_a_file_are_asked_after_it_has_changed(tmp_path: Path) -> None:
    make_tree(tmp_path)
    by_change = {mutant.key[1:]: mutant for mutant in mutants_of(tmp_path, SMALL)}
    unseen = by_change["nobody_asks", "return 7", "return 8"]
    first = list(mutate.look_at(tmp_path, SMALL, [unseen], 1))
    assert [verdict.word for _, verdict in first] == ["no test runs it"]
    with (tmp_path / unseen.file).open("a") as file:
        file.write("MORE = 1\n")
    lines, unknown = Log(tmp_path, SMALL.folder, SMALL.test_files(tmp_path)).lines()
    assert not unknown and sorted(lines.tests_of(unseen)) == [
        "tests/small/test_sums.py::test_it_adds",
        "tests/small/test_sums.py::test_what_a_child_does_counts",
    ]


@pytest.mark.one_in(4)
@pytest.mark.usefixtures("forked_pytest")
def test_a_test_that_fails_once_has_not_noticed_a_break(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_tree(tmp_path)
    monkeypatch.setattr(mutate.Copy, "warm_up", lambda *_: None)
    with (tmp_path / "tests" / "small" / "test_sums.py").open("a") as file:
        file.write(
            "\n\ndef test_once() -> None:\n"
            "    sums.add(0)\n"
            '    if "PYTEST_MUTATE_NOTES" not in os.environ and not os.path.exists("seen"):\n'
            '        open("seen", "w").close()\n'
            '        raise ValueError("once")\n'
        )
    by_change = {mutant.key[1:]: mutant for mutant in mutants_of(tmp_path, SMALL)}
    unlocked = by_change["add", "with _lock:", "if True:"]
    ((_, verdict),) = mutate.look_at(tmp_path, SMALL, [unlocked], 1)
    assert not verdict.killed
    said = capsys.readouterr().out
    assert "failed, but not again" in said and "test_sums.py::test_once" in said


def test_what_is_near_quick_or_noticed_another_break_comes_first(tmp_path: Path) -> None:
    make_tree(tmp_path)
    mutants = mutants_of(tmp_path, SMALL)
    mutant = next(one for one in mutants if one.key[2] == "total = total + number")
    line = {mutant.file: [mutant.change.first]}
    quick, slow, own = "tests/a.py::quick", "tests/a.py::slow", "tests/test_sums.py::own"
    lines = Lines()
    lines.add(TestFile("tests/a.py", {slow: 2.0, quick: 1.0}, {slow: line, quick: line}, False))
    lines.add(TestFile("tests/test_sums.py", {own: 3.0}, {own: line}, False))
    lines.add(TestFile("tests/b.py", {"tests/b.py::other": 0.1}, {"tests/b.py": line}, False))
    lines.add(TestFile("tests/c.py", {"tests/c.py::none": 0.1}, {}, False))
    assert lines.tests_of(mutant) == [own, "tests/b.py::other", quick, slow]
    assert lines.first_of([own, quick, slow], 4.0) == [own, quick]
    assert lines.first_of([own, quick, slow], 2.0) == [own]
    for _ in range(3):
        lines.add_kill(mutant, slow)
    assert lines.tests_of(mutant) == [slow, quick, own, "tests/b.py::other"]


# ---- explained survivors -------------------------------------------------------------------------


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", ROOMS)
def test_every_explanation_fits_a_break_and_says_something(name: str) -> None:
    keys = {mutant.key for mutant in mutants_of(ROOT, ROOMS[name])}
    told = explanations(EXPLAINED, name)
    assert told.keys() <= keys and all(len(why) > 15 for why in told.values())


def test_the_run_counts_what_survives_and_what_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_tree(tmp_path)
    explained = tmp_path / "explained.toml"
    explained.write_text(
        '[[small]]\nfile = "fastdist/small/sums.py"\nwithin = "nobody_asks"\n'
        'old = "return 7"\nnew = "return 8"\nwhy = "nobody asks"\n'
        '[[small]]\nfile = "fastdist/small/sums.py"\nwithin = "gone"\n'
        'old = "a"\nnew = "b"\nwhy = "it was there once"\n'
    )
    monkeypatch.setattr(mutate, "ROOT", tmp_path)
    monkeypatch.setattr(mutate, "EXPLAINED", explained)
    monkeypatch.setitem(ROOMS, "small", SMALL)

    def survive(
        root: Path, room: Room, drawn: list[Mutant], jobs: int
    ) -> list[tuple[Mutant, Verdict]]:
        survive = ("return 8", "return (6)")
        return [(one, Verdict(one.new not in survive, "of the test", 1.5)) for one in drawn]

    monkeypatch.setattr(mutate, "look_at", survive)
    assert mutate.main(["small", "--only", "nobody_asks"]) == 2
    said = capsys.readouterr().out
    assert "explained in vain, no such break: fastdist/small/sums.py in gone" in said
    assert "nobody_asks (constant)\n    - return 7\n    + return (6)\n    survives: of" in said
    assert said.endswith("killed 1 of 2 (50.0%); 1 explained; 1.5 s each\n")


def test_a_run_that_is_stopped_tells_what_it_has_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_tree(tmp_path)
    monkeypatch.setattr(mutate, "ROOT", tmp_path)
    monkeypatch.setitem(ROOMS, "small", SMALL)

    def stop(
        root: Path, room: Room, drawn: list[Mutant], jobs: int
    ) -> Iterator[tuple[Mutant, Verdict]]:
        yield drawn[0], Verdict(True, "of the test", 1.0)
        yield drawn[1], Verdict(False, "of the test", 2.0)
        raise KeyboardInterrupt

    monkeypatch.setattr(mutate, "look_at", stop)
    assert mutate.main(["small"]) == 1
    said = capsys.readouterr().out
    assert said.endswith(
        "stopped after 2 of them\nkilled 1 of 2 (50.0%); 0 explained; 1.5 s each\n"
    )
