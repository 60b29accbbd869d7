"""One program over many tensors on CUDA arrays: launches that take a table of their addresses."""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Iterator, Sequence
from itertools import groupby
from typing import Any, Final

import numpy as np

from fastdist.language.program import Program, read_program

from ..launch import (
    C_TYPES,
    THREADS,
    Launch,
    Struct,
    address_of,
    addresses_of,
    headers_for,
    launch,
    text_of,
)
from ..reduce.reductions import norm
from .pointwise import plan as pointwise_plan
from .pointwise_source import Operand, body_function, compute_dtype, preamble

# Kernels take at least 4 KiB of arguments on every GPU. This limit is for the table; the program's
# scalars and the table's length come in addition.
_TABLE_BYTES: Final = 3840
# The limits on the arrays in a table of norms, and on the elements of which one block computes the
# norm. Larger arrays get several blocks.
_NORMS: Final = _TABLE_BYTES // 24
_BLOCK_LIMIT: Final = 1 << 16
# The number of elements of one tensor that a block processes: 16 per thread.
_CHUNK: Final = 16 * THREADS


def apply(program: Program, numbers: Sequence[Sequence[float]], *arrays: Any) -> None:
    """Run a program on several rows of arrays. A row has one array for each variable of the
    program. `numbers` has, for each row, the program's scalars. `arrays` holds the arrays for the
    first variable, row by row, then the arrays for the second variable, and so on.

    The arrays of a row have the same shape; all arrays have one dtype and are in C order. If rows
    share memory, each row is finished before the next one begins.

    Bound by memory: each element is read and written once, and stays in registers between the lines
    of the program.

    Thread  any; queued on the current stream of the arrays' device
    """
    launch(plan(program, numbers, arrays), on=arrays[0])


def apply_new(program: Program, numbers: Sequence[Sequence[float]], *arrays: Any) -> None:
    """Run a program as `apply` does. It writes only its first array, which is new memory in every
    row, so no check for shared memory is needed.

    Thread  any; queued on the current stream of the arrays' device
    """
    launch(plan(program, numbers, arrays, is_new=True), on=arrays[0])


def norms(order: float, *arrays: Any) -> None:
    """Write the norms, of order 1, 2 or infinity, of arrays in C order. The first half of `arrays`
    are the outputs, arrays of one element; the second half are the inputs.

    Thread  any; queued on the current stream of the arrays' device
    """
    rows = len(arrays) // 2
    outs, inputs = arrays[:rows], arrays[rows:]
    small = [(out, x) for out, x in zip(outs, inputs, strict=True) if x.size <= _BLOCK_LIMIT]
    launch(plan_norms(order, small), on=arrays[0])
    for out, x in zip(outs, inputs, strict=True):
        if x.size > _BLOCK_LIMIT:
            norm(x, out, tuple(range(x.ndim)), order)


def plan_norms(order: float, pairs: Sequence[tuple[Any, Any]]) -> list[Launch]:
    """Return the launches that write the norms of `pairs`, (out, array), with one block each."""
    launches = []
    for begin in range(0, len(pairs), _NORMS):
        part = pairs[begin : begin + _NORMS]
        table = np.zeros((3, _NORMS), np.int64)
        outs, inputs = zip(*part, strict=True)
        table[0, : len(part)] = addresses_of(inputs)
        table[1, : len(part)] = addresses_of(outs)
        table[2, : len(part)] = [x.size for x in inputs]
        struct = Struct(table.ravel().view(f"V{table.nbytes}"))
        source = source_of_norms(order, inputs[0].dtype)
        launches.append(Launch(source, "norms", (len(part), 1), (struct,)))
    return launches


@functools.cache
def source_of_norms(order: float, dtype: np.dtype[Any]) -> str:
    """Return the CUDA source of norms of arrays of dtype, of order 1, 2 or infinity."""
    return "\n".join(
        (
            headers_for([dtype]),
            f"typedef {C_TYPES[dtype]} T;",
            f"constexpr int ROWS = {_NORMS}, THREADS = {THREADS};",
            f"constexpr int ORDER = {0 if math.isinf(order) else int(order)};",
            text_of("pointwise/norms.cu"),
        )
    )


def apply_given(
    program: Program, numbers: Sequence[float | None], skips: bool, *arrays: Any
) -> None:
    """Run a program as `apply` does, with some scalars in arrays on the device. `numbers` has the
    program's scalars, which are the same for all rows. For each None in `numbers`, `arrays` begins
    with a float64 vector that has one scalar for each row. If `skips` is true, a float32 array with
    one element precedes these vectors: nothing is written if that element is not 0.

    Thread  any; queued on the current stream of the arrays' device; the launches read the vectors
            when they run
    """
    launch(plan_given(program, numbers, skips, arrays), on=arrays[0])


def apply_watched(program: Program, numbers: Sequence[float | None], *arrays: Any) -> None:
    """Run a program as `apply_given` does, without `skips`. `arrays` begins with a flag, a float32
    array with one element. The flag is set to 1 if an element of the program's first variable was
    not finite.

    Thread  any; queued on the current stream of the arrays' device
    """
    launch(plan_given(program, numbers, False, arrays[1:], flag=arrays[0]), on=arrays[0])


def take(column: Any, *kept: Any) -> None:
    """Write the elements of `kept`, arrays of one element with column's dtype, into `column`.

    Thread  any; queued on the current stream of the arrays' device
    """
    launch(_plan_column(_column_program("to = from_", ("to", "from_")), column, kept), on=column)


def put(column: Any, *kept: Any) -> None:
    """Write the elements of `column` to `kept`, arrays of one element: the inverse of take.

    Thread  any; queued on the current stream of the arrays' device
    """
    launch(_plan_column(_column_program("from_ = to", ("to", "from_")), column, kept), on=column)


def _column_program(text: str, arrays: tuple[str, str]) -> Program:
    return read_program(text, arrays, ())


def _plan_column(program: Program, column: Any, kept: Sequence[Any]) -> list[Launch]:
    dtype, rows, most = column.dtype, len(kept), _rows_of_table(program)
    places = address_of(column) + dtype.itemsize * np.arange(rows)
    starts = np.array([places, addresses_of(kept)], np.int64)
    sizes = np.ones(rows, np.int64)
    launches = []
    for begin in range(0, rows, most):
        part = slice(begin, min(begin + most, rows))
        launches += _over_table(program, [], dtype, starts[:, part], sizes[part])
    return launches


def plan(
    program: Program,
    numbers: Sequence[Sequence[float]],
    arrays: Sequence[Any],
    *,
    is_new: bool = False,
) -> list[Launch]:
    """Return the launches in order: one for each table of rows. If arrays overlap, return one for
    each line of the program and each row.
    """
    rows = len(numbers)
    starts, sizes = _places(arrays, rows)
    dtype = arrays[0].dtype
    if not is_new and _share_memory(starts, sizes * dtype.itemsize):
        return [
            step
            for row in range(rows)
            for step in _by_lines(program, numbers[row], arrays[row::rows])
        ]
    launches = []
    for part in _parts(numbers, _rows_of_table(program)):
        launches += _over_table(program, numbers[part.start], dtype, starts[:, part], sizes[part])
    return launches


def plan_given(
    program: Program,
    numbers: Sequence[float | None],
    skips: bool,
    arrays: Sequence[Any],
    flag: Any = None,
) -> list[Launch]:
    """Return the launches in order: one for each table of rows. If arrays overlap, return one for
    each row.
    """
    first = skips + list(numbers).count(None)
    skip = address_of(arrays[0]) if skips else 0
    told = 0 if flag is None else address_of(flag)
    columns = [address_of(column) for column in arrays[skips:first]]
    rows = (len(arrays) - first) // len(program.arrays)
    starts, sizes = _places(arrays[first:], rows)
    dtype = arrays[first].dtype
    apart = _share_memory(starts, sizes * dtype.itemsize)
    most = 1 if apart else _rows_of_table(program)
    launches = []
    for begin in range(0, rows, most):
        part = slice(begin, min(begin + most, rows))
        here = [column + 8 * begin for column in columns]
        launches += _over_table(
            program,
            numbers,
            dtype,
            starts[:, part],
            sizes[part],
            columns=here,
            skip=skip,
            flag=told,
        )
    return launches


def _places(arrays: Sequence[Any], rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the addresses of arrays, as (variables of the program, rows), and the length of each
    row.
    """
    starts = np.array(addresses_of(arrays), np.int64).reshape(-1, rows)
    return starts, np.array([array.size for array in arrays[:rows]], np.int64)


def _rows_of_table(program: Program) -> int:
    return _TABLE_BYTES // (8 * (len(program.arrays) + 2))


def _share_memory(starts: np.ndarray, lengths: np.ndarray) -> bool:
    """Return whether some arrays overlap."""
    there = lengths > 0
    flat = starts[:, there].ravel()
    order = np.argsort(flat)
    ends = flat + np.tile(lengths[there], len(starts))
    return bool((flat[order][1:] < ends[order][:-1]).any())


def _by_lines(program: Program, numbers: Sequence[float], arrays: Sequence[Any]) -> list[Launch]:
    """Return one launch for each line of the program, for one row."""
    values = dict(zip(program.arrays, arrays, strict=True))
    for name, number in zip(program.numbers, numbers, strict=True):
        values[name] = np.asarray(number, arrays[0].dtype)
    launches = []
    for target, body in program.lines:
        launches += pointwise_plan(body, [values[name] for name in body.names], values[target])
    return launches


def _parts(numbers: Sequence[Sequence[float]], most: int) -> Iterator[slice]:
    """Yield the rows of each launch: at most `most` adjacent rows that have the same scalars."""
    at = 0
    for _, alike in groupby(numbers):
        end = at + len(list(alike))
        for first in range(at, end, most):
            yield slice(first, min(first + most, end))
        at = end


def _over_table(
    program: Program,
    numbers: Sequence[float | None],
    dtype: np.dtype[Any],
    starts: np.ndarray,
    sizes: np.ndarray,
    *,
    columns: Sequence[int] = (),
    skip: int = 0,
    flag: int = 0,
) -> list[Launch]:
    """Return the launch over rows with these sizes and addresses; no launch if all rows are empty.
    `columns`, `skip` and `flag` are addresses of the arrays of apply_given and apply_watched.
    """
    blocks = np.cumsum(-(-sizes // _CHUNK))
    if not blocks[-1]:
        return []
    rows = len(sizes)
    table = np.zeros((2 + len(starts), _rows_of_table(program)), np.int64)
    table[0, :rows], table[1, :rows], table[2:, :rows] = blocks, sizes, starts
    # Numbers are rounded to the arrays' dtype, and passed as float64, which holds them exactly.
    known = [0.0 if number is None else number for number in numbers or [0.0]]
    values = np.array(known).astype(dtype).astype(np.float64).view(np.int64)
    given = [place for place, number in enumerate(numbers) if number is None]
    values[given] = columns
    fields = np.concatenate([np.array([rows]), table.ravel(), values, np.array([skip, flag])])
    aligned = not np.bitwise_or.reduce(starts, axis=None) & 15
    source = source_of_program(
        program, dtype, aligned=aligned, given=tuple(given), watched=bool(flag)
    )
    struct = Struct(fields.view(f"V{fields.nbytes}"))
    return [Launch(source, "multi_tensor", (int(blocks[-1]), 1), (struct,))]


@functools.lru_cache(maxsize=256)
def source_of_program(
    program: Program,
    dtype: np.dtype[Any],
    *,
    aligned: bool,
    given: tuple[int, ...] = (),
    watched: bool = False,
) -> str:
    """Return the CUDA source of a program over tables of arrays of dtype. `aligned` says that all
    arrays begin at multiples of 16 bytes. `given` has the indices of the scalars that are read from
    the device. `watched` adds the check whether the first variable is finite.
    """
    compute = compute_dtype([Operand(dtype)], dtype)
    places = {name: f"x[{i}]" for i, name in enumerate(program.arrays)}
    places |= {name: f"n[{i}]" for i, name in enumerate(program.numbers)}
    functions, lines = [], []
    for i, (target, body) in enumerate(program.lines):
        functions.append(body_function(f"line{i}", body, [compute] * len(body.names), compute))
        operands = ", ".join(places[name] for name in body.names)
        # Rounded, as if each line's result were stored and loaded.
        lines.append(f"    {places[target]} = cast<T>(line{i}({operands}));")
    read = {name for _, body in program.lines for name in body.used}
    return "\n".join(
        (
            preamble([body for _, body in program.lines], [dtype], compute, dtype),
            f"constexpr int ARRAYS = {len(program.arrays)};",
            f"constexpr int NUMBERS = {max(len(program.numbers), 1)};",
            f"constexpr unsigned int GIVEN = {sum([1 << place for place in given])};",
            f"constexpr bool WATCHED = {str(watched).lower()};",
            f"constexpr unsigned int READ = {_bits(program, read)};",
            f"constexpr unsigned int WRITTEN = {_bits(program, program.written)};",
            f"constexpr int MOST = {_rows_of_table(program)}, CHUNK = {_CHUNK};",
            f"constexpr int PACK = {16 // dtype.itemsize if aligned else 1}, THREADS = {THREADS};",
            *functions,
            "__device__ __forceinline__ void update(T (&x)[ARRAYS], const T (&n)[NUMBERS]) {",
            *lines,
            "}",
            text_of("pointwise/multi_tensor.cu"),
        )
    )


def _bits(program: Program, names: Collection[str]) -> int:
    return sum([(name in names) << i for i, name in enumerate(program.arrays)])
