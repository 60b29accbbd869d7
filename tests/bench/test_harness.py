"""Benchmarks alternate between fastdist and its peer, and report the measured figures."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

import pytest

from bench import harness
from bench.harness import (
    Case,
    Spread,
    Stopwatch,
    choose,
    compare,
    row,
    stopwatch,
    table,
    turns_per_sample,
)
from tests.kernels.cpu.processes import run_script

ROOT = Path(__file__).resolve().parents[2]


def fixed(seconds: float, log: list[float] | None = None) -> Stopwatch:
    """Return a stopwatch that returns `seconds` per turn, and logs each call."""

    def watch(number: int) -> float:
        if log is not None:
            log.append(seconds)
        return seconds * number

    return watch


def test_compare_takes_ours_and_the_peers_samples_in_turn() -> None:
    log: list[float] = []
    compare([Case("case", fixed(1, log), fixed(2, log), number=1)], rounds=4)
    assert log == [2, 1, 1, 2, 2, 1, 1, 2]


def test_a_ratio_is_of_samples_taken_side_by_side() -> None:
    drifting = row(Case("case", fixed(0)), ours_s=[1, 2, 4], peer_s=[2, 4, 8])
    assert drifting.ratio == Spread(0.5, 0.5, 0.5)


# Run in a separate process: mallinfo counts the free memory of all threads, and earlier tests have
# freed memory in this process.
_FREED = """
import ctypes
from bench.harness import Case, compare

class Memory(ctypes.Structure):
    # glibc's struct mallinfo; smblks are freed blocks that wait to be joined.
    _fields_ = [(name, ctypes.c_int) for name in ("arena", "ordblks", "smblks")] + [
        ("others", ctypes.c_int * 7)
    ]

libc, left, kept = ctypes.CDLL(None), [], []
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
libc.mallinfo.restype = Memory

def leaving(number):
    left.append(libc.mallinfo().smblks)
    # Each second one stays: what is freed at the end of the heap is joined to it at once.
    kept.append([libc.malloc(64) for _ in range(2000)])
    for block in kept[-1][::2]:
        libc.free(block)
    return 1.0

compare([Case("x", leaving, leaving, number=1)], 2)
print(len(left), max(left) - min(left))
"""


def test_no_sample_pays_for_small_memory_that_another_freed() -> None:
    count, spread = map(int, run_script(_FREED).split())
    assert count == 4
    assert spread < 100


def test_times_are_those_of_one_part_of_one_turn() -> None:
    (chain,) = compare([Case("chain", fixed(0.3), parts=100)], rounds=2)
    assert chain.ours_s.median == pytest.approx(0.003)


@pytest.mark.parametrize(("target", "missed"), [(None, False), (0.6, False), (0.4, True)])
def test_a_target_is_missed_from_above(target: float | None, missed: bool) -> None:
    case = Case("case", fixed(0), target=target)
    assert row(case, [1, 1], [2, 2]).missed is missed


def test_what_was_chosen_alone_is_timed_and_what_measures_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(harness, "_chosen", "")
    choose("mul, la")
    measure = Case("reading", fixed(1), number=1, measures=True)
    log: list[float] = []
    others = [Case(name, fixed(2, log), number=1) for name in ("mul, small", "mul, large")]
    assert [one.name for one in compare([measure, *others], 2)] == ["reading", "mul, large"]
    assert log == [2, 2]
    assert not compare(others[:1], 2)


def test_the_table_stands_without_a_peer() -> None:
    (rows,) = compare([Case("alone", fixed(2e-6))], rounds=2)
    assert table([rows]).splitlines()[1].split() == ["alone", "2", "us", "[2-2]", "-"]


def test_garbage_is_collected_while_the_clock_runs() -> None:
    seen: list[bool] = []
    stopwatch(lambda: seen.append(gc.isenabled()))(1)
    assert seen == [True]


def test_a_first_turn_that_loads_a_library_is_not_taken_for_the_time_of_one() -> None:
    seconds = [5.0]

    def watch(number: int) -> float:
        return seconds.pop() if seconds else number * 1e-6

    assert turns_per_sample(watch) == 10_000


@pytest.mark.one_in(3)
def test_the_command_lists_benchmarks_and_refuses_others() -> None:
    bench = [sys.executable, "-m", "bench"]
    listed = subprocess.run(bench, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    refused = subprocess.run(
        [*bench, "nope"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert listed.startswith("usage: python -m bench NAME...")
    assert "no benchmark nope; known:" in refused.stderr


@pytest.mark.one_in(3)
def test_fastdist_is_there_before_any_benchmark_and_chooses_the_kernels_of_blas() -> None:
    look = (
        "import sys; import bench.__main__ as command\n"
        "assert not {'numpy', 'fastdist'} & {*sys.modules}\n"
        "def run(*_):\n"
        "    assert 'torch' not in sys.modules\n"
        "    print(sys.modules['fastdist.system.blas'].choose_core().how)\n"
        "    return {'bench': 'ops', 'rows': []}\n"
        "command.run = run; sys.argv = ['bench', 'ops']; command.main()\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", look], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert ran.stdout.splitlines()[-1] in {"chosen", "left", "user's"}


def test_a_case_in_bytes_is_printed_in_bytes() -> None:
    state = Case("state", fixed(2_154_600), fixed(4_309_200), number=1, unit="bytes")
    (found,) = compare([state], rounds=2)
    assert found.unit == "bytes"
    assert table([found]).splitlines()[1].split("  ")[:4] == [
        "state",
        "2,154,600 bytes",
        "4,309,200 bytes",
        "0.50 [0.5-0.5]",
    ]
