"""Object code is written to memory and then executed; its calls check their arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import pytest

from fastdist.kernels.cpu.jit.compiler import compiled
from fastdist.kernels.cpu.jit.kernel_cache import ENTRY
from fastdist.kernels.cpu.jit.machine_code import MachineCode
from fastdist.kernels.cpu.jit.object_emitter import NotForObjectsError, object_of_entry
from fastdist.kernels.cpu.jit.object_file import BrokenObjectError

types: Any = numba.types
SIGNATURE = (
    *(types.int64[:, ::1], types.uint8, types.float32, types.boolean),
    types.Tuple((types.int64, types.float64[::1])),
)


@compiled("a sample")  # type: ignore[untyped-decorator]
def _sample(x: Any, small: Any, number: Any, is_negative: Any, more: Any) -> Any:
    if small == 255:
        raise ValueError("255 is too large")
    room = np.zeros(x.shape[1])
    for row in x:
        room += row
    total = room.sum() + small + more[0] + more[1].sum()
    return -total if is_negative else total, number ** np.float32(2)


@functools.cache
def code(exact: bool) -> tuple[bytes, MachineCode]:
    data = object_of_entry(_sample, SIGNATURE, exact=exact)
    return data, MachineCode(data)


@functools.cache
def entry(exact: bool = False) -> Callable[..., Any]:
    run: Callable[..., Any] = code(exact)[1].function(ENTRY)
    return run


X, ENDS = np.arange(6).reshape(2, 3), (7, np.ones(2))


@pytest.mark.one_in(3)
def test_an_entry_returns_what_the_function_returns() -> None:
    assert entry()(X, 3, 0.5, False, ENDS) == (15 + 3 + 7 + 2, 0.25)
    assert entry()(X.view(np.matrix), np.int8(3), np.float64(2), 1, ENDS) == (-27, 4.0)


def test_memory_of_code_is_executed_and_not_written_to() -> None:
    address = code(False)[1].address(ENTRY)
    found = []
    with open("/proc/self/maps", encoding="utf-8") as lines:
        for line in lines:
            bounds, mode, *_ = line.split()
            begin, end = (int(bound, 16) for bound in bounds.split("-"))
            if begin <= address < end:
                found.append(mode)
    assert found == ["r-xp"]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "wrong",
    [
        (X[:, ::-1], 3, 0.5, False, ENDS),
        (X[0], 3, 0.5, False, ENDS),
        (X.astype(np.int32), 3, 0.5, False, ENDS),
        (X.astype(">i8"), 3, 0.5, False, ENDS),
        (X.tolist(), 3, 0.5, False, ENDS),
        (X, 3, 0.5, False, (7,)),
        (X, 3, 0.5, False, [7, np.ones(2)]),
        (X, 3, 0.5, False, (7, np.ones((2, 2)))),
        (X, 3, 0.5, False),
        (),
    ],
)
def test_other_types_are_refused_by_an_entry_and_not_taken_by_an_exact_one(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"takes \(array\(int64, 2d, C\), uint8, float32, bool"):
        entry()(*wrong)
    assert entry(exact=True)(*wrong) is NotImplemented


def test_an_exact_entry_converts_no_number() -> None:
    run = entry(exact=True)
    right = (X, np.uint8(3), np.float32(0.5), False, ENDS)
    assert run(*right) == (27, 0.25)
    for at, other in ((1, 3), (2, 0.5), (3, 1), (4, (7.0, np.ones(2))), (4, (True, np.ones(2)))):
        assert run(*right[:at], other, *right[at + 1 :]) is NotImplemented
    read_only = X.copy()
    read_only.flags.writeable = False
    assert run(read_only, *right[1:]) is NotImplemented
    assert run(X, *right[1:4], (np.int64(7), np.ones(2))) == (27, 0.25)


def test_what_python_cannot_convert_raises_what_python_raises() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        entry()(X, "three", 0.5, False, ENDS)
    with pytest.raises(TypeError, match="real number"):
        entry()(X, 3, None, False, ENDS)
    with pytest.raises(OverflowError):
        entry()(X, 3, 0.5, False, (1 << 64, np.ones(2)))


def test_what_the_function_raises_is_raised() -> None:
    with pytest.raises(ValueError, match="255 is too large"):
        entry()(X, 255, 0.5, False, ENDS)


def test_arrays_that_a_kernel_makes_and_its_arguments_are_let_go() -> None:
    import gc
    import sys
    import tracemalloc

    array = np.ones(2)
    tracemalloc.start()
    for _ in range(300):
        entry()(X, 3, 0.5, False, (7, array))
    gc.collect()
    assert tracemalloc.get_traced_memory()[0] < 20_000
    tracemalloc.stop()
    assert sys.getrefcount(array) == 2


def test_a_symbol_that_is_not_known_is_refused() -> None:
    data, _ = code(False)
    with pytest.raises(BrokenObjectError, match="needs 'mallox', which is not known"):
        MachineCode(data.replace(b"\0malloc\0", b"\0mallox\0"))


@pytest.mark.one_in(3)
def test_a_function_that_needs_numba_is_left_to_it() -> None:
    @compiled("a sample")  # type: ignore[untyped-decorator]
    def solve(x: Any, y: Any) -> Any:
        return np.dot(x, y)

    matrix = types.float64[:, ::1]
    with pytest.raises(NotForObjectsError):
        object_of_entry(solve, (matrix, matrix), exact=False)
