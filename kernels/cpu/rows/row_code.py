"""Kernels along rows as LLVM vector code: makes a compiled function from the steps of a row.

LLVM's own vectorizer handles the loops of a row, but leaves the row's remainder, up to 63 elements,
to scalar loops: rows of 100 took 3 to 10 times as long per element as rows of 10,000. So
along_row_code generates vector code. A loop takes four vectors per iteration, with one accumulator
for each, and then the remainder, one vector at a time, with a mask. A sum adds its accumulators to
float64 every 32 iterations: a float32 accumulator adds at most 34 terms, for any length of a row.
All of this depends only on the length, so a row has the same bits for any number of threads. The
bits are also the same on machines with shorter vectors, except for the last bits of exp, which
these machines compute in another way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types

from fastdist.system.blas import read_cpu

from ..jit.array_objects import HEADER, ITEMS
from ..jit.compiler import Loop
from ..jit.machine import intrinsic
from .along_row_code import BLOCK, RowCode, loops_of, take
from .code_loops import as_written
from .column_code import ColumnCode
from .exact_row_code import ExactRowCode
from .row_numbers import I64, WIDE
from .row_steps import Columns, Log, Row, Short
from .short_row_code import ShortRowCode

# A row's first loop prefetches this many bytes ahead, if the thread's rows are so large that they
# come from memory. It does so only on the AMD families (the keys) that gain by prefetching. On one
# core of a Zen 5, 1e7 float32 in rows of 1000 are summed at 63 GB/s with prefetching, and at 48
# without. On a Zen 4, prefetching does not change the speed of sums; the largest number of each row
# is found at 30 GB/s with prefetching, and at 34 without. Prefetching slows down reads from the
# shared cache: 1e6 float32 are summed at 61 GB/s with prefetching, and at 78 without (Zen 4).
_AHEAD: Final = {26: 12288}.get(read_cpu().family, 0)
_FAR: Final = 1 << 24
# The least number of elements per thread for which it pays to start threads, in 3 us, if each
# element is read once.
_SHARE: Final = 65536
_ALL: Final = 1 << 62
# Note [Blocks of rows]
# Reading a short row is fast, but then its scalars depend on each other: exp on the maximum, the
# total on exp, the shares on the total. So each loop runs over a block of up to 16 rows before the
# next loop begins, and the rows' scalars are stored until then: one row is read while the scalars
# of other rows are computed. The block's rows of all operands together fit the L1 cache: softmax's
# gradient of 1000 x 1000, with three operands, takes 155 us with blocks of 2 rows, and 210 us with
# blocks of 4 (one core of an AMD EPYC, Zen 4). A long row is a block of one row.
_NEAREST_BYTES: Final = 1 << 15


def compile_loop(name: str, dtype: str, kernel: Row | Columns | Short) -> Loop:
    """Return the loop of a kernel of row_steps, for float32 or float64."""
    size = 4 if dtype == "float32" else 8
    # Only one thread may add columns, or rows whose sums are written to the same output.
    is_alone = isinstance(kernel, Columns) or (isinstance(kernel, Row) and kernel.adds_turns)
    share = _ALL if is_alone else _SHARE
    sizes = [size] * len(kernel.operands)
    return Loop(_function_of(kernel, dtype), sizes, share, f"{name} of {dtype} along rows")


def _function_of(row: Row | Columns | Short, dtype: str) -> Any:
    """Return the function of a row for float32 or float64, in the form of a Loop's function:
    (words, count) for `count` rows. `words` is the address of five words: the address of the tuple
    of operands, the first row, the length of a row, a, and b.
    """
    element = ir.FloatType() if dtype == "float32" else WIDE

    @intrinsic
    def rows(typingctx: Any, words: Any, count: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            _build_rows(builder, row, element, *args)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), codegen

    def loop(words: Any, count: Any) -> None:
        rows(words, count)

    return loop


def _build_rows(
    builder: Any, row: Row | Columns | Short, element: Any, words: Any, count: Any
) -> None:
    def word(place: Any, at: int, kind: Any = I64) -> Any:
        address = builder.add(place, ir.Constant(I64, at))
        return builder.load(builder.inttoptr(address, kind.as_pointer()))

    operands, first, n = (word(words, 8 * i) for i in range(3))
    a, b = (word(words, 8 * i, WIDE) for i in (3, 4))
    size = ir.Constant(I64, 4 if isinstance(element, ir.FloatType) else 8)
    eight = ir.Constant(I64, 8)
    steps = _steps_of_rows(builder.mul(n, size), size)
    # See Note [Reading array objects] in array_objects.py.
    bases = [word(word(operands, ITEMS + 8 * i), HEADER) for i in range(len(row.operands))]
    if isinstance(row, Columns):
        ColumnCode(builder, row, element, bases, n, a).build(count)
        return
    if isinstance(row, Short):
        ShortRowCode(builder, row, element, bases, n, a).build(first, count)
        return
    band = None
    if row.has_bands:
        every, band = (builder.fptosi(number, I64) for number in (a, b))
        last = builder.mul(builder.add(first, count), band)
        last = builder.select(builder.icmp_signed("<", last, every), last, every)
        first = builder.mul(first, band)
        count = builder.sub(last, first)
    turns = builder.fptosi(b, I64) if row.has_turns else None
    group = builder.fptosi(a, I64) if row.has_groups else None
    numbers = {"n": builder.sitofp(n, WIDE), "a": a, "b": b}
    ahead = None
    if _AHEAD:
        far = builder.mul(builder.mul(count, n), size)
        far = builder.icmp_signed(">", far, ir.Constant(I64, _FAR))
        ahead = builder.select(far, ir.Constant(I64, _AHEAD), ir.Constant(I64, 0))

    def places(i: Any) -> dict[str, Any]:
        found = {}
        for (name, kind), base in zip(row.operands, bases, strict=True):
            step, at = steps.get(kind, eight), i
            if kind == "bands":
                at = builder.udiv(i, band)
            elif kind in ("turns", "turn_sums", "turn_numbers"):
                at = builder.urem(i, turns)
            elif kind == "group_numbers":
                at = builder.udiv(i, group)
            found[name] = base if step is None else builder.add(base, builder.mul(at, step))
        return found

    of_row = ExactRowCode if row.is_exact else RowCode
    codes = [of_row(builder, row, element, numbers, n, ahead) for _ in range(row.streams)]
    if row.streams > 1:
        _build_streams(builder, row, codes, first, count, places)
        return
    joins = None
    if band is not None:
        joins = lambda i: builder.icmp_signed("!=", builder.urem(i, band), ir.Constant(I64, 0))  # noqa: E731
    elif row.adds_turns:
        joins = lambda i: builder.icmp_signed(">=", i, turns)  # noqa: E731
    _build_blocks(builder, row, codes[0], first, builder.add(first, count), joins, places)


def _steps_of_rows(whole: Any, size: Any) -> dict[str, Any]:
    """Return the step from row to row in bytes, by kind of operand. Missing kinds have a step of 8
    bytes.
    """
    by_rows = dict.fromkeys(("rows", "bands", "turns", "turn_sums"), whole)
    by_numbers = dict.fromkeys(("numbers", "turn_numbers", "group_numbers"), size)
    return {**by_rows, **by_numbers, **dict.fromkeys(("columns", "outside", "table", "sum"))}


def _build_blocks(
    builder: Any, row: Row, code: Any, first: Any, last: Any, joins: Any, places: Any
) -> None:
    """Build the loops over the rows from first to last, block by block. `joins` returns whether a
    row is added to earlier rows.
    """
    most = ir.Constant(I64, BLOCK)
    in_rows = sum(kind == "rows" for _, kind in row.operands)
    together = _NEAREST_BYTES // (max(in_rows, 2) * code.size)
    fit = builder.sdiv(ir.Constant(I64, together), code.n)
    block = builder.select(builder.icmp_signed("<", fit, most), fit, most)
    one = ir.Constant(I64, 1)
    block = builder.select(builder.icmp_signed(">", block, one), block, one)
    with as_written(builder, first, last, block) as begin:
        end = builder.add(begin, block)
        end = builder.select(builder.icmp_signed("<", end, last), end, last)
        for group in loops_of(row.steps):
            if isinstance(group[0], Log):
                code.build_logs(group, places(begin), builder.sub(end, begin))
                continue
            with as_written(builder, begin, end, one) as i:
                if joins is not None:
                    code.joins = joins(i)
                take([code], group, [places(i)], builder.sub(i, begin))


# Note [Streams]
# The hardware prefetches up to the end of a page; at the start of the next page the loop waits.
# With pages of 4 KiB that happens every 1000 float32. So data from memory is read in four streams,
# each of which is a quarter of the rows, and the waits of the streams overlap. If pages are
# scattered in memory, summing 5e7 float32 in rows of 1000 takes 11.1 ms with one stream, 10.2 ms
# with two, 8.5 ms with four, and 8.4 ms with six. With huge pages, it takes 6.4 ms with one stream
# or four, and 6.9 ms with six (one core of an AMD EPYC, Zen 4). Iterations alternate between
# streams after each vector: where LLVM grouped the vectors of a stream, the norm of 1e7 numbers in
# huge pages took 1.6 ms instead of 1.0.
def _build_streams(
    builder: Any, row: Row, codes: Sequence[RowCode], first: Any, count: Any, places: Any
) -> None:
    """Build the loop over rows; each code processes the rows of one stream."""
    zero, one, streams = (ir.Constant(I64, i) for i in (0, 1, len(codes)))
    each = builder.sdiv(builder.add(count, builder.sub(streams, one)), streams)
    begins, most = [], builder.sub(count, each)
    for i in range(len(codes)):
        # The last streams overlap with others in some rows, which are computed twice.
        begin = builder.mul(each, ir.Constant(I64, i))
        begin = builder.select(builder.icmp_signed("<", begin, most), begin, most)
        begins.append(builder.add(first, begin))
    with as_written(builder, zero, each, one) as i:
        of_rows = [places(builder.add(begin, i)) for begin in begins]
        for group in loops_of(row.steps):
            take(codes, group, of_rows, zero)
