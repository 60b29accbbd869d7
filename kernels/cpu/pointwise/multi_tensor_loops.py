"""The loops of multi_tensor, compiled: the loop of a program, and the loop over a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numba
import numpy as np

from fastdist.language.scalar import Name, Node
from fastdist.system.cache_directory import load_generated

from ..jit.array_objects import HEADER, ITEMS
from ..jit.compiler import Loop, compiled, entry_point
from ..jit.machine import LOAD, STORE, call_loop, load_int, on_threads, stack_words
from .numba_pointwise import Source, indented

_WORD: Final = numba.int64
_get, _put = LOAD["int64"], STORE["int64"]
# The least number of elements per thread. Adam on one core moves 28 bytes per element at 58 GB/s,
# so a share takes 30 us, while starting the threads takes 3 us.
_SHARE: Final = 65536
# The names of the written variables, each with its expression.
Results = Sequence[tuple[str, Node]]


def compile_loop(
    results: Results, arrays: Sequence[str], numbers: Sequence[str], dtype: Any
) -> Loop:
    """Return the loop that computes a program's results from its variables, `arrays` of one dtype,
    and its `numbers`.
    """
    source = _Source(results, arrays, numbers, dtype).text()
    what = f"{len(results)} results over many tensors of {dtype.name}"
    return Loop(load_generated(source, "multi_tensor").loop, [dtype.itemsize], _SHARE, what)


def reader() -> Any:
    """Return _read as a compiled function."""
    return entry_point(_read, (_WORD,) * 5)


def walker() -> Any:
    """Return _walk_shares as a compiled function."""
    return entry_point(_walk_shares, (_WORD,) * 10)


@compiled("optimizers over many tensors")
def _read(operands: Any, rows: Any, width: Any, table: Any, array_type: Any) -> Any:
    """Fill a table from a tuple of arrays. Return the number of elements of all rows, or -1 if the
    address of an object's type is not array_type. array_type = 0 accepts any type.
    """
    total = np.int64(0)
    for row in range(rows):
        at = table + 8 * row * (width + 1)
        length = np.int64(1)
        for i in range(width):
            one = _get(operands + ITEMS, i * rows + row)
            # The type pointer is the last field of an object's header.
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
    """Process the elements from begin to end, counted over all rows. The scalars of row i begin at
    index i * step of `numbers`.
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


# The words of a job: the first seven arguments of _walk, the total number of elements, and the
# number of elements per share.
@compiled(alone=False)
def _run_shares(first: Any, shares: Any, job: Any) -> None:
    """Process `shares` shares of equal size, beginning with share number `first`."""
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
    """Process all elements on `threads` threads; pool is the address of the pool's C function."""
    job = stack_words(np.int64(9))
    _put(job, 0, loop)
    _put(job, 1, table)
    _put(job, 2, numbers)
    _put(job, 3, width)
    _put(job, 4, constants)
    _put(job, 5, step)
    _put(job, 6, size)
    _put(job, 7, total)
    # Each thread gets whole cache lines, so that no two threads write to the same line.
    _put(job, 8, ((total + threads - 1) // threads + 63) // 64 * 64)
    if threads > 1:
        _on_threads(pool, job, threads, threads)
    else:
        _run_shares(np.int64(0), np.int64(1), job)


class _Source(Source):
    """The source of a program's loop: arrays are updated in place, scalars are loaded once."""

    # The loop may write several arrays, and writes to addresses that it also reads, so LLVM must
    # assume aliasing.
    _memory = "LOAD", "STORE"

    def __init__(
        self, results: Results, arrays: Sequence[str], numbers: Sequence[str], dtype: Any
    ) -> None:
        self._written = [name for name, _ in results]
        names, given = (*arrays, *numbers), frozenset(numbers)
        dtypes = [np.dtype(np.float64) if n in given else dtype for n in names]
        super().__init__([tree for _, tree in results], names, dtypes, dtype, given)
        self._value = dtype

    def text(self) -> str:
        fetched, read = self._inputs()
        arrays, every = range(len(read)), range(len(self._names))
        places = [f"p{i} = load_word(pointers + {8 * i})" for i in arrays]
        # For a number, the pointer table has the value itself in place of an address.
        places += [f"p{i} = pointers + {8 * i}" for i in every[len(read) :]]
        read = [line for name, line in zip(self._names, read) if Name(name) in self._nodes]
        # All inputs are loaded before the first result is stored.
        inside = [*read, *self._calls()]
        for name, tree in zip(self._written, self._trees, strict=True):
            place = f"p{self._names.index(name)}"
            inside.append(f"store({place}, i, {self._out}({self._as_value(tree)}))")
        lines = [*self._head(), *indented([*places, *fetched], 4)]
        lines += ["    for i in range(count):", *indented(inside)]
        return "\n".join(lines) + "\n"
