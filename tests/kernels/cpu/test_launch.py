"""Kernels run on several threads, from several threads, and in forked children."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import numba
import numpy as np
import pytest

from fastdist.core.errors import ShapeError
from fastdist.kernels.cpu.jit import launch
from fastdist.kernels.cpu.pointwise.pointwise import kernel_for
from fastdist.language.scalar import parse
from tests.kernels.cpu.processes import run_script

BODY = parse("tanh(x) * y", ("x", "y"))
X = np.random.default_rng(3).standard_normal((300, 700))


@pytest.fixture
def all_threads() -> Iterator[None]:
    before = launch.get_num_threads()
    launch.set_num_threads(64)
    yield
    launch.set_num_threads(before)


def product(x: Any, y: Any) -> Any:
    out = np.empty(np.broadcast_shapes(x.shape, y.shape))
    kernel_for(BODY).run_large([x, y], out)
    return out


@pytest.mark.one_in(2)
@pytest.mark.usefixtures("all_threads")
@pytest.mark.parametrize("y", [X, X[::-1, ::-1], X[:, :1], X[0]])
def test_results_are_bitwise_the_same_for_any_number_of_threads(y: Any) -> None:
    many = product(X, y)
    launch.set_num_threads(1)
    assert product(X, y).tobytes() == many.tobytes()


def test_set_num_threads_is_limited_by_the_pool_and_refuses_zero() -> None:
    before = launch.get_num_threads()
    launch.set_num_threads(10_000)
    # The default is the number of cores; the user may have set another number.
    assert launch.get_num_threads() == numba.config.NUMBA_NUM_THREADS >= 1
    with pytest.raises(ValueError, match="positive integer, got 0"):
        launch.set_num_threads(0)
    launch.set_num_threads(before)


def test_threading_layer_is_one_of_numbas() -> None:
    assert launch.threading_layer() in ("omp", "tbb", "workqueue")


def test_shapes_that_do_not_broadcast_raise() -> None:
    with pytest.raises(ShapeError, match=r"\(300, 700\), \(3, 700\) do not broadcast"):
        kernel_for(BODY).run_large([X, X[:3]], np.empty_like(X))
    with pytest.raises(ShapeError, match="do not broadcast"):
        kernel_for(BODY).run_large([X, X], np.empty(700))


@pytest.mark.usefixtures("all_threads")
def test_several_threads_may_launch_at_once() -> None:
    expected = product(X, X)
    wrong: list[Any] = []

    def run() -> None:
        for _ in range(20):
            if product(X, X).tobytes() != expected.tobytes():
                wrong.append("differs")

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong


PREPARE = """
import os, threading, numpy as np
from fastdist.kernels.cpu.jit import launch
from fastdist.kernels.cpu.pointwise.pointwise import kernel_for
from fastdist.language.scalar import parse
kernel = kernel_for(body := parse("tanh(x) * y", ("x", "y")))
launch.set_num_threads(2)
x = np.linspace(-2, 2, 300_000)
def good():
    out = np.empty_like(x)
    kernel.run([x, x], out)
    return np.allclose(out, np.tanh(x) * x)
assert good()
"""


@pytest.mark.one_in(3)
def test_workqueue_pool_survives_several_threads() -> None:
    script = """
results = []
def run():
    results.extend(good() for _ in range(20))
threads = [threading.Thread(target=run) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join(60)
print(launch.threading_layer(), len(results), all(results))
"""
    told = run_script(PREPARE + script, NUMBA_THREADING_LAYER="workqueue", NUMBA_NUM_THREADS="2")
    assert told == "workqueue 80 True"


@pytest.mark.one_in(3)
def test_forked_child_runs_kernels_on_one_thread() -> None:
    script = """
child = os.fork()
if child == 0:
    os._exit(0 if good() and launch.get_num_threads() == 1 else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), launch.get_num_threads())
"""
    assert run_script(PREPARE + script, NUMBA_NUM_THREADS="2") == "0 2"


@pytest.mark.one_in(3)
def test_omp_num_threads_is_the_first_number_of_threads() -> None:
    script = "from fastdist.kernels.cpu.jit import launch; print(launch.get_num_threads())"
    assert run_script(script, OMP_NUM_THREADS="1") == "1"


def test_work_in_python_is_shared_among_the_threads_of_the_pool() -> None:
    parts: list[range] = []
    launch.share_out(parts.append, 7, 2)
    assert sorted(parts, key=lambda part: part.start) == [range(4), range(4, 7)]


def test_what_work_in_python_sees_lives_no_longer_than_its_caller_wants() -> None:
    gc.disable()
    try:
        work = _Work()
        seen = weakref.ref(work)
        launch.share_out(work, 7, 2)
        del work
        assert seen() is None
    finally:
        gc.enable()


class _Work:
    def __call__(self, part: range) -> None:
        assert part


def test_work_that_fails_in_a_thread_of_the_pool_fails_in_the_caller() -> None:
    def work(part: range) -> None:
        if 6 in part:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        launch.share_out(work, 7, 2)


@pytest.mark.one_in(4)
@pytest.mark.usefixtures("all_threads")
@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "float64"])
@pytest.mark.parametrize("inner", [2, 5, 6, 16, 17, 33, 256, 257])
def test_short_rows_of_repeated_and_sliced_inputs_are_numpys(dtype: str, inner: int) -> None:
    """The rows are short compared to a block of 1024 elements; most lengths do not divide 1024."""
    rng = np.random.default_rng(inner)

    def numbers(*shape: int) -> Any:
        return rng.integers(0, 15, shape).astype(dtype)

    body = kernel_for(parse("x * y + z", ("x", "y", "z")))
    for rows in (3, 2100 // inner + 1):
        whole = numbers(4, rows, inner)
        if dtype != "uint8":
            whole[1, :, 1] = np.inf
        inputs = [
            numbers(4, rows, 1),
            numbers(inner),
            numbers(4, 1, 1),
            numbers(4, 1, inner),
            numbers(4, rows, 2 * inner)[:, :, inner:],
            numbers(4, rows, 3),
            numbers(inner, rows, 4).T,
            numbers(4, 2 * rows, inner)[:, ::-2],
        ]
        inputs[5] = inputs[5][:, :, 1:2]
        for x in (whole, *inputs):
            for y in inputs:
                for threads in (1, 64):
                    launch.set_num_threads(threads)
                    out = np.zeros((4, rows, inner), dtype)
                    body.run_large([x, y, whole], out)
                    wide = np.float32 if dtype == "float16" else dtype
                    # Zero times infinity is NaN in NumPy and in the kernel.
                    with np.errstate(invalid="ignore"):
                        want = x.astype(wide) * y.astype(wide) + whole.astype(wide)
                    assert np.array_equal(out, want.astype(dtype), equal_nan=dtype != "uint8")
