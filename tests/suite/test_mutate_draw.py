"""Random mutants of any package are tried with tests that are chosen by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import mutate, mutate_draw
from tests.mutants import breaks_of
from tests.mutants_in_texts import breaks_of_cuda
from tests.mutate_choice import Choice, Step
from tests.mutate_draw import Run, found_again, mutants_in, read_entries
from tests.mutate_pick import is_picked, thinned
from tests.suite.test_mutate import ROOT

pytestmark = pytest.mark.usefixtures("forked_pytest")

CUDA = b"""// a + b of a comment
#define WIDE 3 + 4
__device__ int total(int a, const char* b) {
    return a < 2 ? "1 + 1"[0] : a + 7;
}
extern "C" __global__ void kernel(int* out,
                                  int n) {
    __syncthreads();
}
"""
OPS = '''"""Ops."""

@pointwise("input * T(2)", ["T(2)"], dtype="number", piecewise=True)
def double(input):
    """Return twice input."""


@structured("moves.turn", linear=True)
def turned(input):
    """Return input turned round."""


@turned.plan
def _(input):
    return input.shape[::-1]


@composite(homes="nowhere")
def hidden(input):
    return turned(double(input))
'''
SUMS = """def add(a, b):
    return a + b


def rest():
    return 7
"""
TEST_SUMS = """from fastdist.small.sums import add


def test_it_adds():
    assert add(1, 2) == 3
"""
MOVES = """def turn(x, out):
    out[...] = walk(x)
"""


def make_tree(root: Path) -> None:
    """Write a tree with ops, kernels and their tests."""
    texts = {
        "fastdist/ops/simple.py": OPS,
        "kernels/cpu/moves.py": "from .loops import walk\n" + MOVES,
        "kernels/cpu/loops.py": "def walk(x):\n    return x[::-1]\n",
        "kernels/cuda/moves.py": MOVES + 'TEXT = "moves.cu"\n',
        "kernels/cuda/moves.cu": '#include "rows.cuh"\n',
        "kernels/cuda/rows.cuh": "int f() { return 3; }\n",
        "fastdist/small/sums.py": SUMS,
        "tests/ops/test_pointwise.py": "",
        "tests/ops/test_table.py": "",
        "tests/ops/test_simple.py": "",
        "tests/ops/test_on_fibres.py": "",
        "tests/ops/simple_cases.py": 'COVERED_BY = {"hidden": "turned"}\n',
        "tests/kernels/cpu/test_loops.py": "",
        "tests/small/test_sums.py": TEST_SUMS,
        "tests/small/test_others.py": "def test_it_fails_always():\n    assert False\n",
    }
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    for name in ("mutate_lines.py", "mutate_pick.py"):
        (root / "tests" / name).write_bytes((ROOT / "tests" / name).read_bytes())
    (root / ".kernel-cache").mkdir()
    config = '[tool.pytest.ini_options]\naddopts = ["--import-mode=importlib"]\n'
    (root / "pyproject.toml").write_text(config)


def changed(source: bytes, cuda: bool = False) -> set[tuple[str, str]]:
    found = breaks_of_cuda(source) if cuda else breaks_of(source)
    return {(one.within, one.lines(source)[1]) for one in found}


def test_cuda_texts_are_broken_in_code_alone() -> None:
    lines = {
        *('return a <= 2 ? "1 + 1"[0] : a + 7;', 'return a >= 2 ? "1 + 1"[0] : a + 7;'),
        *('return a < 3 ? "1 + 1"[0] : a + 7;', 'return a < (1) ? "1 + 1"[0] : a + 7;'),
        *('return a < 2 ? "1 + 1"[1] : a + 7;', 'return a < 2 ? "1 + 1"[(-1)] : a + 7;'),
        *('return a < 2 ? "1 + 1"[0] : a - 7;', 'return a < 2 ? "1 + 1"[0] : a + 8;'),
        'return a < 2 ? "1 + 1"[0] : a + (6);',
    }
    expected = {("total", line) for line in lines} | {("kernel", ";")}
    assert changed(CUDA, cuda=True) == expected


def test_declarations_are_broken_in_their_bodies_and_switches() -> None:
    made = {new for within, new in changed(OPS.encode()) if within == "double"}
    head = '@pointwise({}, [{}], dtype="number", piecewise={})'
    assert made == {
        head.format('"(input + T(2))"', '"T(2)"', True),
        head.format('"input * T(3)"', '"T(2)"', True),
        head.format('"input * T((1))"', '"T(2)"', True),
        head.format('"input * T(2)"', '"T(3)"', True),
        head.format('"input * T(2)"', '"T((1))"', True),
        head.format('"input * T(2)"', '"T(2)"', False),
    }


def test_tests_of_an_op_are_those_of_its_file_its_row_and_its_name(tmp_path: Path) -> None:
    make_tree(tmp_path)
    steps = Choice(tmp_path).steps("fastdist/ops/simple.py", line=14)
    assert steps[0] == Step(("tests/ops/test_simple.py",))
    assert steps[1].files == ("tests/ops/test_pointwise.py", "tests/ops/test_table.py")
    # The op with the changed line comes first. The row of another op tests a private op.
    assert steps[1].words == ("turned", "double")
    assert steps[2] == Step(("tests/ops/test_on_fibres.py",), ("turned", "double"))


@pytest.mark.parametrize("file", ["kernels/cpu/moves.py", "kernels/cpu/loops.py"])
def test_a_kernel_is_tried_by_the_rows_of_the_ops_that_it_serves(file: str, tmp_path: Path) -> None:
    make_tree(tmp_path)
    steps = Choice(tmp_path).steps(file, line=1, within="walk")
    words = ("walk", Path(file).stem, "turned")
    assert Step(("tests/ops/test_pointwise.py", "tests/ops/test_table.py"), words) in steps
    assert (Step(("tests/kernels/cpu/test_loops.py",)) == steps[0]) == file.endswith("loops.py")


@pytest.mark.parametrize("name", ["moves.py", "moves.cu", "rows.cuh"])
def test_a_cuda_text_is_tried_on_fibres(name: str, tmp_path: Path) -> None:
    make_tree(tmp_path)
    steps = Choice(tmp_path).steps(f"kernels/cuda/{name}", line=1)
    words = (Path(name).stem, "turned")
    assert Step(("tests/ops/test_on_fibres.py",), words) in steps


def test_a_part_of_a_kernel_is_tried_by_the_names_of_those_that_call_it(tmp_path: Path) -> None:
    make_tree(tmp_path)
    path = tmp_path / "kernels/cpu/loops.py"
    path.write_text("def _step(x):\n    return x\n\n\ndef gamma(x):\n    return _step(x)\n")
    words = [step.words for step in Choice(tmp_path).steps("kernels/cpu/loops.py", 1, "_step")]
    assert ("step", "gamma", "loops", "turned") in words


def test_words_are_found_whole_and_tests_are_thinned_out_evenly() -> None:
    assert is_picked("tests/a.py::test_value[float32-sum-0]", ["sum"])
    assert is_picked("tests/a.py::test_sum_of_none", ["sum"])
    assert not is_picked("tests/sum.py::test_value[cumsum-0]", ["sum"])
    assert is_picked("tests/a.py::test_it", [])
    assert thinned([*range(10)], 4) == [0, 2, 5, 7] and thinned([1, 2], 4) == [1, 2]


def run_of(root: Path, **more: object) -> Run:
    given: dict[str, object] = {"folder": "fastdist/small", "number": 100, "seed": 0, "jobs": 1}
    given |= {"minutes": 9.0, "keep": root / "results.jsonl", "again": None, "survivors": False}
    return Run(**{**given, **more})  # type: ignore[arg-type]


@pytest.mark.one_in(3)
def test_verdicts_are_kept_and_no_break_is_tried_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_tree(tmp_path)
    number = len(mutants_in(tmp_path, "fastdist/small"))
    assert number == 5
    # A test that also fails without a mutant detects no mutant.
    assert mutate_draw.look(tmp_path, run_of(tmp_path), {}) == 3
    said = capsys.readouterr().out
    assert "   2 caught,   3 survived  fastdist/small/sums.py" in said
    assert "test_others.py::test_it_fails_always: it fails without the break, too" in said
    kept = read_entries(tmp_path / "results.jsonl")
    caught = {one["new"]: one["by"] for one in kept.values() if one["caught"]}
    own = "tests/small/test_sums.py::test_it_adds"
    assert caught == {"return (a - b)": own, "return None": own}
    monkeypatch.setattr(mutate_draw.Bench, "try_one", None)
    why = {("fastdist/small/of_old.py", "rest", "return 7", "return 8"): "it was moved since"}
    assert mutate_draw.look(tmp_path, run_of(tmp_path), why) == 2
    said = capsys.readouterr().out
    assert "1 that survive are explained\n" in said and "caught 2 of 4 (50.0%)" in said


@pytest.mark.one_in(3)
def test_a_test_that_is_slow_beside_others_catches_none(tmp_path: Path) -> None:
    make_tree(tmp_path)
    (tmp_path / "tests/small/test_others.py").unlink()
    bench = mutate_draw.Bench(tmp_path, tmp_path / "copy")
    (mutant, *_) = [
        one for one in mutants_in(tmp_path, "fastdist/small").values() if one.new == "return 8"
    ]
    test, said = "tests/small/test_sums.py::test_it_adds", "Failed: Timeout (>40.0s)"
    bench._run = lambda files, words: (1, test, said)  # type: ignore[method-assign]
    steps = [Step(("tests/small/test_sums.py",))]
    assert bench.try_one(mutant, steps) == (
        False,
        f"0 of 1 steps pass; {test}: it took too long, but not alone",
    )
    bench._run = lambda files, words: (None, test, "")  # type: ignore[method-assign]
    assert bench.try_one(mutant, steps)[1].endswith("it took too long, but not alone")
    bench._run = lambda files, words: (None, "", "")  # type: ignore[method-assign]
    assert not bench.try_one(mutant, steps)[0]


HANG = """from fastdist.small.sums import rest


def test_it_waits_no_longer_than_it_says():
    while rest() != 7:
        pass
"""
LEAVES_A_THREAD = """import threading

from fastdist.small.sums import rest


def test_rest():
    threading.Thread(target=threading.Event().wait).start() if rest() != 7 else None
    assert rest() == 7
"""


@pytest.mark.one_in(2)
@pytest.mark.parametrize("text", [HANG, LEAVES_A_THREAD])
def test_a_break_that_hangs_a_test_or_its_process_is_caught_in_time(
    text: str, tmp_path: Path
) -> None:
    make_tree(tmp_path)
    (tmp_path / "tests/small/test_others.py").write_text(text)
    bench = mutate_draw.Bench(tmp_path, tmp_path / "copy", test_s=0.3)
    mutant = next(
        one for one in mutants_in(tmp_path, "fastdist/small").values() if one.new == "return 8"
    )
    caught, by = bench.try_one(mutant, [Step(("tests/small/test_others.py",))])
    assert caught and by.startswith("tests/small/test_others.py::")


def test_what_was_caught_before_and_is_not_now_is_listed_though_its_file_was_moved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_tree(tmp_path)
    key = {"within": "add", "old": "return a + b", "new": "return (a - b)", "nth": 1}
    before = {"file": "fastdist/small/of_old.py", **key, "caught": True, "by": "", "seconds": 1}
    gone = {**before, "within": "gone"}
    (tmp_path / "before.jsonl").write_text(f"{json.dumps(before)}\n{json.dumps(gone)}\n")
    (tmp_path / "tests/small/test_sums.py").write_text("def test_nothing():\n    pass\n")
    (tmp_path / "tests/small/test_others.py").unlink()
    again = run_of(tmp_path, again=tmp_path / "before.jsonl")
    assert mutate_draw.look(tmp_path, again, {}) == 1
    said = capsys.readouterr().out
    assert "1 of 2 breaks of" in said and "not there any more: fastdist/small/of_old.py" in said
    assert "caught in the file, not here: fastdist/small/sums.py in add" in said


@pytest.mark.one_in(3)
def test_breaks_that_survived_here_are_tried_in_another_tree(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_tree(tmp_path)
    key = {"file": "fastdist/small/sums.py", "within": "add", "old": "return a + b", "nth": 1}
    survived = {**key, "new": "return (a - b)", "caught": False, "by": "", "seconds": 1}
    caught = {**key, "new": "return None", "caught": True, "by": "", "seconds": 1}
    (tmp_path / "here.jsonl").write_text(f"{json.dumps(survived)}\n{json.dumps(caught)}\n")
    options = ["--again", str(tmp_path / "here.jsonl"), "--survived", "--tree", str(tmp_path)]
    keep = ["--keep", str(tmp_path / "there.jsonl"), "--jobs", "1"]
    assert mutate.main(["small", *options, *keep]) == 0
    said = capsys.readouterr().out
    assert "caught here, not in the file: fastdist/small/sums.py in add\n    - return a + b" in said
    assert "caught 1 of 1 (100.0%)" in said


def test_breaks_that_survived_are_asked_for_with_the_file_that_names_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        mutate.main(["dispatch", "--draw", "1", "--survived"])
    assert "--survived needs --again FILE" in capsys.readouterr().err


def test_of_two_files_with_the_same_text_the_one_of_the_same_name_is_meant(tmp_path: Path) -> None:
    make_tree(tmp_path)
    for name in ("inner/sums.py", "inner/other.py"):
        (tmp_path / "fastdist/small" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "fastdist/small/sums.py").rename(tmp_path / "fastdist/small" / name)
        text = (tmp_path / "fastdist/small" / name).read_text()
        (tmp_path / "fastdist/small/sums.py").write_text(text)
    (tmp_path / "fastdist/small/sums.py").unlink()
    entry = {"file": "fastdist/small/sums.py", "within": "add", "old": "return a + b"}
    entry |= {"new": "return (a - b)", "nth": 1}
    ((_, key),) = found_again([entry], mutants_in(tmp_path, "fastdist/small"))
    assert key is not None and key[0] == "fastdist/small/inner/sums.py"


def test_a_module_is_a_package_of_its_own(tmp_path: Path) -> None:
    make_tree(tmp_path)
    (tmp_path / "fastdist/small/others.py").write_text("SIX = 6\n")
    assert mutate_draw.folder_of(tmp_path, "small/sums.py") == "fastdist/small/sums.py"
    found = mutants_in(tmp_path, "fastdist/small/sums.py")
    assert {key[0] for key in found} == {"fastdist/small/sums.py"} and len(found) == 5


def test_a_module_is_not_tried_by_tests_of_the_packages_below_its_own(tmp_path: Path) -> None:
    make_tree(tmp_path)
    for name in ("below", "scenarios"):
        (tmp_path / "tests/small" / name).mkdir()
        (tmp_path / "tests/small" / name / f"test_{name}.py").write_text("")
    (tmp_path / "fastdist/small/below").mkdir()
    near, rest = Choice(tmp_path).steps("fastdist/small/sums.py", 1)
    assert near.files == ("tests/small/test_sums.py",)
    others = ("tests/small/scenarios/test_scenarios.py", "tests/small/test_others.py")
    assert rest.files == others


def test_a_module_that_no_test_is_named_by_is_tried_by_those_that_name_its_classes(
    tmp_path: Path,
) -> None:
    make_tree(tmp_path)
    (tmp_path / "fastdist/small/shelf.py").write_text("class Shelf:\n    pass\n")
    for name, number in (("once", 1), ("twice", 2), ("never", 0)):
        (tmp_path / f"tests/ops/test_{name}.py").write_text("Shelf\nShelfLife\n" * number)
    near = Choice(tmp_path).steps("fastdist/small/shelf.py", 1)[0]
    assert near.files == ("tests/ops/test_twice.py", "tests/ops/test_once.py")


def test_a_package_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no package 'opps': neither fastdist/opps nor opps is"):
        mutate_draw.folder_of(tmp_path, "opps")


def test_a_file_of_tests_that_is_written_during_a_run_is_not_chosen(tmp_path: Path) -> None:
    make_tree(tmp_path)
    choice = Choice(tmp_path)
    before = choice.steps("fastdist/small/sums.py", 1)
    (tmp_path / "tests/small/test_new.py").write_text("")
    assert choice.steps("fastdist/small/sums.py", 1) == before


@pytest.mark.one_in(3)
def test_a_file_of_tests_that_is_not_there_catches_nothing(tmp_path: Path) -> None:
    make_tree(tmp_path)
    bench = mutate_draw.Bench(tmp_path, tmp_path / "copy")
    (mutant, *_) = mutants_in(tmp_path, "fastdist/small").values()
    files = ("tests/small/test_others.py", "tests/small/test_new.py")
    caught, by = bench.try_one(mutant, [Step(files)])
    assert not caught and "fails without the break, too" in by


def test_files_that_start_processes_are_run_last(tmp_path: Path) -> None:
    make_tree(tmp_path)
    (tmp_path / "tests/small/test_a_job.py").write_text("import subprocess\n")
    steps = Choice(tmp_path).steps("fastdist/small/sums.py", 1)
    assert [step.files for step in steps] == [
        ("tests/small/test_sums.py",),
        ("tests/small/test_others.py",),
        ("tests/small/test_a_job.py",),
    ]
