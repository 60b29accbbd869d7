"""The compiled side of multi_tensor: the loop of a program, and its walk through a table."""

from __future__ import annotations

import functools
from array import array
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any, Final

import numba
import numpy as np

from fastdist.language.program import Program
from fastdist.language.scalar import Name, Node
from fastdist.system.cache_directory import load_generated

from ..jit import launch
from ..jit.array_objects import ARRAY, require_arrays
from ..jit.compiler import Loop, compiled, entry_point
from ..jit.iteration import HEADER, ITEMS
from ..jit.machine import LOAD, STORE, call_loop, load_int, on_threads, stack_words
from .numba_pointwise import Source, indented

Array = np.ndarray[Any, Any]

_WORD: Final = numba.int64
_get, _put = LOAD["int64"], STORE["int64"]
# Elements a thread. Adam on one core moves 28 bytes an element at 58 GB/s: 30 us, where entering
# the pool costs 3.
_SHARE: Final = 65536
# Tables that are remembered.
_TABLES: Final = 4


def launcher(program: Program, results: Mapping[str, Node], dtype: Any) -> Callable[..., bool]:
    """Return the function that runs results, a program's, over rows of arrays of a dtype.

    It returns False, and has done nothing, where arrays share memory: then a row must wait for
    those before it, and a line for all of the line above. is_new: what is written shares none.

    Thread  the function any, several at once; releases the GIL
    """
    source = _Source(list(results.values()), program, list(results), dtype).text()
    width, constants, size = len(program.arrays), len(program.numbers), dtype.itemsize
    what = f"{len(results)} results over many tensors of {dtype.name}"
    loop = Loop(load_generated(source, "multi_tensor").loop, [size], _SHARE, what)
    read, walk, array_type = _reader(), _walker(), id(ARRAY)

    # Tables of the last steps, whose arrays lay apart: those of the next ones are mostly among
    # them, for a program serves all groups whose options say the same.
    apart: list[array[int]] = []

    def run(numbers: Sequence[Sequence[float]], arrays: tuple[Array, ...], is_new: bool) -> bool:
        nonlocal apart
        rows = len(numbers)
        # Mostly one row of numbers, many times: then the walk stays on it.
        is_one = len({*map(id, numbers)}) == 1
        # Not arrays of NumPy, of which each takes a microsecond more to be made and found.
        given = array("d", numbers[0] if is_one else chain.from_iterable(numbers))
        step = 0 if is_one else constants
        # A row of the table: where each array begins, and how long they are.
        table = array("q", bytes(8 * rows * (width + 1)))
        where, _ = table.buffer_info()
        # Addresses instead of arrays: see Note [Reading array objects].
        total = read(id(arrays), rows, width, where, array_type)
        if total < 0:  # among them is an array of a derived class, or something else
            require_arrays(*arrays)
            total = read(id(arrays), rows, width, where, 0)
        if not is_new and table not in apart:
            if not _lie_apart(np.frombuffer(table, np.int64).reshape(rows, width + 1), size):
                return False
            apart = [table, *apart[: _TABLES - 1]]
        first, _ = given.buffer_info()
        walked = (loop.address, where, first, width, constants, step, size, total)
        threads = min(launch.get_num_threads(), total // _SHARE)
        if threads < 2:
            walk(*walked, 1, 0)
        else:
            enter, lock = launch.pool()
            with lock:
                walk(*walked, threads, enter)
        return True

    return run


def _lie_apart(table: Array, size: int) -> bool:
    """Say whether no two arrays of a table share memory."""
    begins = table[:, :-1]
    ends = (begins + size * table[:, -1:]).ravel()
    begins = begins.ravel()
    order = np.argsort(begins)
    # Where any two meet, two neighbours do.
    return not (begins[order[1:]] < ends[order[:-1]]).any()


@functools.cache
def _reader() -> Callable[..., int]:
    return entry_point(_read, (_WORD,) * 5)


@functools.cache
def _walker() -> Callable[..., None]:
    return entry_point(_walk_shares, (_WORD,) * 10)


@compiled("optimizers over many tensors")
def _read(operands: Any, rows: Any, width: Any, table: Any, array_type: Any) -> Any:
    """Fill a table from a tuple of arrays; return how many elements all rows have, or -1 if an
    object is not of the type at this address. 0 stands for any type.
    """
    total = np.int64(0)
    for row in range(rows):
        at = table + 8 * row * (width + 1)
        length = np.int64(1)
        for i in range(width):
            one = _get(operands + ITEMS, i * rows + row)
            # The type ends the header.
            if array_type != 0 and _get(one + HEADER, -1) != array_type:
                return np.int64(-1)
            _put(at, i, _get(one + HEADER, 0))
            if i == 0:
                dims = _get(one + HEADER, 2)
                for axis in range(load_int(one + HEADER + 8)):
                    length *= _get(dims, axis)
        _put(at, width, length)
        total += length
    return total


@compiled(alone=False)
def _walk(
    loop: Any, table: Any, numbers: Any, width: Any, constants: Any, step: Any, size: Any,
    begin: Any, end: Any,
) -> None:  # fmt: skip
    """Run elements begin to end, counted through all rows; a row's numbers lie step behind those of
    the row before.
    """
    pointers = stack_words(width + constants)
    row = np.int64(0)
    while begin < end:
        at = table + 8 * row * (width + 1)
        length = _get(at, width)
        if begin < length:
            for i in range(width):
                _put(pointers, i, _get(at, i) + begin * size)
            for i in range(constants):
                _put(pointers, width + i, _get(numbers, row * step + i))
            count = min(length, end) - begin
            call_loop(loop, pointers, count)
            begin += count
        begin -= length
        end -= length
        row += 1


# What a share needs to know, in words: what _walk is told, and then total and elements.
@compiled(alone=False)
def _run_shares(first: Any, shares: Any, job: Any) -> None:
    """Run shares from the first on, each of so many elements."""
    total, elements = _get(job, 7), _get(job, 8)
    begin, end = min(first * elements, total), min((first + shares) * elements, total)
    _walk(
        _get(job, 0), _get(job, 1), _get(job, 2), _get(job, 3), _get(job, 4), _get(job, 5),
        _get(job, 6), begin, end,
    )  # fmt: skip


_on_threads = on_threads(_run_shares)


@compiled("optimizers over many tensors")
def _walk_shares(
    loop: Any, table: Any, numbers: Any, width: Any, constants: Any, step: Any, size: Any,
    total: Any, threads: Any, pool: Any,
) -> None:  # fmt: skip
    """Run all elements, by so many threads; pool is the address of what enters their pool."""
    job = stack_words(np.int64(9))
    _put(job, 0, loop)
    _put(job, 1, table)
    _put(job, 2, numbers)
    _put(job, 3, width)
    _put(job, 4, constants)
    _put(job, 5, step)
    _put(job, 6, size)
    _put(job, 7, total)
    # Whole cache lines a thread, lest two write to one.
    _put(job, 8, ((total + threads - 1) // threads + 63) // 64 * 64)
    if threads > 1:
        _on_threads(pool, job, threads, threads)
    else:
        _run_shares(np.int64(0), np.int64(1), job)


class _Source(Source):
    """The text of a program's loop: arrays are read and written in place, numbers fetched once."""

    # It writes to the addresses that it reads from, which LLVM sees, and to several.
    _memory = "LOAD", "STORE"

    def __init__(
        self, trees: Sequence[Node], program: Program, written: Sequence[str], dtype: Any
    ) -> None:
        self._written = written
        numbers = frozenset(program.numbers)
        names = (*program.arrays, *program.numbers)
        dtypes = [np.dtype(np.float64) if n in numbers else dtype for n in names]
        super().__init__(trees, names, dtypes, dtype, numbers)
        self._value = dtype

    def text(self) -> str:
        fetched, read = self._inputs()
        arrays, every = range(len(read)), range(len(self._names))
        places = [f"p{i} = load_word(pointers + {8 * i})" for i in arrays]
        # A number stands where an array's address would.
        places += [f"p{i} = pointers + {8 * i}" for i in every[len(read) :]]
        read = [line for name, line in zip(self._names, read) if Name(name) in self._nodes]
        # All are read before the first is written.
        inside = [*read, *self._calls()]
        for name, tree in zip(self._written, self._trees, strict=True):
            place = f"p{self._names.index(name)}"
            inside.append(f"store({place}, i, {self._out}({self._as_value(tree)}))")
        lines = [*self._head(), *indented([*places, *fetched], 4)]
        lines += ["    for i in range(count):", *indented(inside)]
        return "\n".join(lines) + "\n"
