"""Calls with invalid indices, sizes, strides and shapes raise errors, and stay in their memory."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.kernels.guarded.draw import KINDS, Call
from tests.kernels.guarded.memory import Guard
from tests.kernels.guarded.run import fault_of

ROOT = Path(__file__).resolve().parents[3]


def run_guarded(first: int, count: int) -> str:
    """Return the output of `python -m tests.kernels.guarded`; fail if it reports faults."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.kernels.guarded", str(first), str(count), "1"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def in_child(work: Callable[[Guard], str | None]) -> tuple[str, int]:
    """Return the result of work in a forked process with guarded memory, and its exit code."""
    guard = Guard()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            faulthandler.disable()
            # A crash is expected, so write no core file.
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            guard.serve()
            os.write(writing, str(work(guard)).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, encoding="utf-8") as file:
        text = file.read()
    return text, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def write(behind: int) -> None:
    """Change one byte at this distance behind an array of ten elements."""
    array = np.zeros(10, np.uint8)
    place = array.ctypes.data + 10 + behind
    ctypes.memset(place, ctypes.string_at(place, 1)[0] ^ 7, 1)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("first", range(0, 25, 5))
def test_25_calls_of_each_kind_with_wrong_numbers_end_in_words(first: int) -> None:
    count = 5 * len(KINDS)
    assert f"{count} calls from {first} on, 0 failures" in run_guarded(first, count)


@pytest.mark.slow
@pytest.mark.parametrize("piece", range(20))
def test_200000_calls_with_wrong_numbers_end_in_words(piece: int) -> None:
    assert "10000 calls from " in run_guarded(127 * piece, 10_000)


def test_a_read_behind_an_array_ends_the_process() -> None:
    def read(_: Guard) -> str:
        array = np.zeros(16, np.uint8)
        return str(ctypes.string_at(array.ctypes.data + 16, 1))

    assert in_child(read) == ("", -signal.SIGSEGV)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("behind", [0, 5, -11, -40])
def test_a_write_beside_an_array_is_found(behind: int) -> None:
    fault, status = in_child(lambda guard: fault_of(Call(lambda: write(behind)), guard))
    assert fault == "wrote in front of an array, or behind it" and status == 0


def test_a_write_far_behind_an_array_ends_the_process() -> None:
    assert in_child(lambda guard: fault_of(Call(lambda: write(6)), guard))[1] == -signal.SIGSEGV


@pytest.mark.parametrize(
    ("call", "fault"),
    [
        (Call(lambda: None, is_wrong=True), "took wrong numbers without an error"),
        (Call(lambda: "".index("a"), is_wrong=False), "refused right numbers: ValueError"),
        (Call(lambda: {}[1]), "raised KeyError: 1"),
        (Call(lambda: "".index("a"), is_wrong=True), "None"),
    ],
)
def test_what_a_call_does_is_judged(call: Call, fault: str) -> None:
    assert in_child(lambda guard: fault_of(call, guard))[0].startswith(fault)


def test_an_element_that_nobody_wrote_is_found() -> None:
    import fastdist as fd

    call = Call(lambda: fd.from_numpy(np.empty(3, np.float32)))
    assert in_child(lambda guard: fault_of(call, guard))[0] == (
        "the result has elements that nobody wrote"
    )
