"""Runs the compiled loops over rows, which row_code generates, on one or several threads."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from .array_objects import HEADER, ITEMS
from .compiler import compiled, entry_point
from .machine import LOAD, STORE, call_loop, on_threads, stack_words

_get, _put, _put_number = LOAD["int64"], STORE["int64"], STORE["float64"]
_part = compiled(alone=False)


# The words of a job: loop, rows, rows per share; then the arguments of the loop: operands, first
# row (each share sets its own), n, a, b.
@_part
def _run_shares(first: Any, shares: Any, job: Any) -> None:
    """Process `shares` shares of equal size, beginning with share number `first`."""
    rows, share = _get(job, 1), _get(job, 2)
    begin, end = min(first * share, rows), min((first + shares) * share, rows)
    words = stack_words(np.int64(5))
    _put(words, 0, _get(job, 3))
    _put(words, 1, begin)
    for i in range(2, 5):
        _put(words, i, _get(job, 3 + i))
    call_loop(_get(job, 0), words, end - begin)


_on_threads = on_threads(_run_shares)


@compiled("all ops along rows")
def run(
    loop: Any, operands: Any, rows: Any, n: Any, a: Any, b: Any, threads: Any, pool: Any
) -> None:
    """Run a loop over rows of n elements. `loop` is the address of the loop's code, and `operands`
    is the address of a tuple of arrays.

    `pool` is the address of the function that runs work on a thread pool; one thread needs no pool.
    Each thread gets a range of rows, so results do not depend on the number of threads.
    """
    job = stack_words(np.int64(8))
    _put(job, 0, loop)
    _put(job, 1, rows)
    _put(job, 2, (rows + threads - 1) // threads)
    _put(job, 3, operands)
    _put(job, 5, n)
    _put_number(job, 6, a)
    _put_number(job, 7, b)
    if threads > 1:
        _on_threads(pool, job, threads, threads)
    else:
        _run_shares(np.int64(0), np.int64(1), job)


@_part
def _run_alone(job: Any, operands: Any) -> None:
    words = stack_words(np.int64(5))
    _put(words, 0, operands)
    _put(words, 1, 0)
    for i in range(2, 5):
        _put(words, i, _get(job, i))
    call_loop(_get(job, 0), words, _get(job, 1))


@compiled("all ops along rows")
def run_job(job: Any, operands: Any) -> None:
    """Run a loop on one thread over a tuple of arrays. `operands` is the tuple's address, and `job`
    is the address of five words: the loop, the number of rows, n, a and b.

    Note    a call with two arguments takes 160 ns, one with eight 200 (AMD EPYC, Zen 4)
    """
    _run_alone(job, operands)


@compiled("all ops along rows")
def run_checked(job: Any, operands: Any) -> Any:
    """Run a loop as run_job does. Return 1 without running the loop if the sixth word is not the
    address of the first operand's type: see Note [Addresses of arrays alone].
    """
    # The type pointer is the last field of an object's header.
    if _get(_get(operands + ITEMS, 0) + HEADER, -1) != _get(job, 5):
        return np.int64(1)
    _run_alone(job, operands)
    return np.int64(0)


def runner() -> Any:
    """Return `run` as a compiled function."""
    word, number = numba.int64, numba.float64
    return entry_point(run, (*[word] * 4, number, number, word, word))


def job_runner() -> Any:
    """Return run_job as a compiled function."""
    return entry_point(run_job, (numba.int64,) * 2)


def checked_runner() -> Any:
    """Return run_checked as a compiled function."""
    return entry_point(run_checked, (numba.int64,) * 2)
