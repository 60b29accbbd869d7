"""The launch of multi_tensor: the table of array addresses, and the call of compiled code."""

from __future__ import annotations

import functools
from array import array
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any, Final

import numpy as np

from fastdist.language.program import Program
from fastdist.language.scalar import Node

from ..jit import kernel_cache, launch
from ..jit.array_objects import ARRAY, require_arrays
from ..jit.kernel_cache import find_function, find_loop

Array = np.ndarray[Any, Any]

# The number of tables that are remembered.
_TABLES: Final = 4


def launcher(program: Program, results: Mapping[str, Node], dtype: Any) -> Callable[..., bool]:
    """Return the function that computes the results of a program over rows of arrays of a dtype.

    If arrays share memory, the function returns False and changes nothing: rows and lines must then
    run one after the other. is_new=True promises that the written arrays share no memory.

    Thread  the function may run in several threads at once; it releases the GIL
    """
    width, constants, size = len(program.arrays), len(program.numbers), dtype.itemsize
    loop = find_loop(*_LOOP, *_given(program, results, dtype))
    read, walk, array_type = _reader(), _walker(), id(ARRAY)

    # The tables of recent steps whose arrays did not overlap. The table of the next step usually
    # equals one of these. One program has several tables, because it runs for all parameter groups
    # with the same options.
    apart: list[array[int]] = []

    def run(numbers: Sequence[Sequence[float]], arrays: tuple[Array, ...], is_new: bool) -> bool:
        nonlocal apart
        rows = len(numbers)
        # Usually `numbers` has the same object for all rows. Its scalars are then passed once, and
        # the step between rows is 0.
        is_one = len({*map(id, numbers)}) == 1
        # Tables are objects of the array module, because creating a NumPy array and getting its
        # address take a microsecond more.
        given = array("d", numbers[0] if is_one else chain.from_iterable(numbers))
        step = 0 if is_one else constants
        # A row of the table has the addresses of a row's arrays, and then their number of elements.
        table = array("q", bytes(8 * rows * (width + 1)))
        where, _ = table.buffer_info()
        # Pass addresses instead of arrays: see Note [Reading array objects].
        total = read(id(arrays), rows, width, where, array_type)
        if total < 0:  # an object is not an array, or its class is a subclass of np.ndarray
            require_arrays(*arrays)
            total = read(id(arrays), rows, width, where, 0)
        if not is_new and table not in apart:
            if not _lie_apart(np.frombuffer(table, np.int64).reshape(rows, width + 1), size):
                return False
            apart = [table, *apart[: _TABLES - 1]]
        first, _ = given.buffer_info()
        walked = (loop.address, where, first, width, constants, step, size, total)
        threads = min(launch.get_num_threads(), total // loop.elements_per_thread)
        if threads < 2:
            walk(*walked, 1, 0)
        else:
            enter, lock = launch.pool()
            with lock:
                walk(*walked, threads, enter)
        return True

    return run


def is_stored(program: Program, results: Mapping[str, Node], dtype: Any) -> bool:
    """Return whether `launcher` needs no compiler."""
    has_loop = kernel_cache.is_stored(*_LOOP, *_given(program, results, dtype))
    return has_loop and all(
        kernel_cache.is_function_stored(_LOOP[0], one) for one in ("reader", "walker")
    )


_LOOP: Final = ("pointwise.multi_tensor_loops", "compile_loop")


def _given(program: Program, results: Mapping[str, Node], dtype: Any) -> tuple[Any, ...]:
    return tuple(results.items()), tuple(program.arrays), tuple(program.numbers), dtype


def _lie_apart(table: Array, size: int) -> bool:
    """Return whether no two arrays of a table share memory."""
    begins = table[:, :-1]
    ends = (begins + size * table[:, -1:]).ravel()
    begins = begins.ravel()
    order = np.argsort(begins)
    # If any two arrays overlap, then two arrays that are adjacent in address order overlap.
    return not (begins[order[1:]] < ends[order[:-1]]).any()


@functools.cache
def _reader() -> Callable[..., int]:
    return find_function("pointwise.multi_tensor_loops", "reader")


@functools.cache
def _walker() -> Callable[..., None]:
    return find_function("pointwise.multi_tensor_loops", "walker")
