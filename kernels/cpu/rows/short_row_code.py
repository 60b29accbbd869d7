"""Sums and extremes of short rows as LLVM vector code, eight rows at a time; see row_code.

Reading a short row is fast. Reducing the lanes of a single row, by three shuffles that depend on
each other, took longer than reading it. Here the lanes of eight rows are reduced together, in
vectors with a part of each row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils

from .code_loops import as_written
from .row_numbers import BYTES, I32, I64, WIDE, Numbers
from .row_steps import Short

_cgutils: Any = cgutils  # untyped
_ROWS: Final = 8
# Four of the eight rows are from the first half of all rows, and four from the second half. One row
# of each half is summed at a time, so memory is read in two streams, each from its beginning to its
# end (see Note [Streams] in row_code.py). In rows of 100, the sums of 1e6 float32 take 43 us
# instead of 47.5, and the sums of 1e5 take 3.8 us instead of 4.5. If the two rows are adjacent, the
# sums of 1e6 take 46 us (in rows of 128, 50 us instead of 45). With four streams, or with vectors
# of a whole line, they take 47 us (AMD EPYC, Zen 4).
_EACH: Final = _ROWS // 2
Join = Callable[[Any, Any], Any]


class ShortRowCode:
    """The loop over rows of n elements, which writes one number per row to the second operand."""

    def __init__(
        self, builder: Any, kernel: Short, element: Any, bases: Sequence[Any], n: Any, scale: Any
    ) -> None:
        self.builder, self.kernel, self.n, self.scale = builder, kernel, n, scale
        (self.x, self.out), self.element = bases, element
        self.size = 4 if isinstance(element, ir.FloatType) else 8
        # A float32 vector is half a cache line. If rows do not start at cache lines, most longer
        # vectors would cross from one line to the next.
        self.few = Numbers(builder, element, _ROWS)
        self.wide = Numbers(builder, WIDE, _ROWS)
        self.is_sum = kernel.how == "sum"
        # The start values of a sum or an extreme, and of the bits that detect a NaN.
        starts = [self.few.constant(0.0 if self.is_sum else -math.inf), self.few.whole(0)]
        self.starts = starts[: 1 if self.is_sum else 2]
        # An iteration takes at most one cache line of a row. Each row has separate accumulators for
        # each vector of an iteration.
        self.vectors = min(kernel.vectors, BYTES // (_ROWS * self.size))
        self.cells = [
            [
                [_cgutils.alloca_once(builder, start.type) for start in self.starts]
                for _ in range(self.vectors)
            ]
            for _ in range(_ROWS)
        ]

    def build(self, first: Any, count: Any) -> None:
        """Build the loop over this many rows, from `first` on."""
        build, lanes = self.builder, self.vectors * _ROWS
        zero, one, two = (ir.Constant(I64, i) for i in range(3))
        # The remainder of a row has at least one element.
        whole = build.and_(build.sub(self.n, one), ir.Constant(I64, -lanes))
        left = build.sub(self.n, whole)
        masks = [
            self.few.first(build.sub(left, ir.Constant(I64, vector * _ROWS)))
            for vector in range(self.vectors)
        ]
        length = build.mul(self.n, ir.Constant(I64, self.size))
        # With an odd number of rows the middle one is computed twice.
        half = build.sdiv(build.add(count, one), two)
        halves = [first, build.sub(build.add(first, count), half)]
        last = build.sub(half, one)
        with as_written(build, zero, half, ir.Constant(I64, _EACH)) as begin:
            for place in range(_EACH):
                # The last iteration may have fewer rows; then the last row is read again.
                i = build.add(begin, ir.Constant(I64, place))
                i = build.select(build.icmp_signed("<", i, last), i, last)
                rows = [build.add(self.x, build.mul(build.add(at, i), length)) for at in halves]
                self._read(rows, self.cells[place::_EACH], whole, masks)
            self._write(self._found(), [build.add(at, begin) for at in halves], half, begin)

    def _read(
        self, rows: list[Any], cells: Sequence[Any], whole: Any, masks: Sequence[Any]
    ) -> None:
        """Build the loop over rows that start at these addresses, each with separate
        accumulators.
        """
        build, zero = self.builder, ir.Constant(I64, 0)
        for of_row in cells:
            for some in of_row:
                for cell, start in zip(some, self.starts, strict=True):
                    build.store(start, cell)
        turn = ir.Constant(I64, self.vectors * _ROWS)
        with as_written(build, zero, whole, turn) as at:
            for row, of_row in zip(rows, cells, strict=True):
                for vector, some in enumerate(of_row):
                    self._take(row, at, vector, some, None)
        for row, of_row in zip(rows, cells, strict=True):
            for vector, some in enumerate(of_row):
                self._take(row, whole, vector, some, masks[vector])

    def _write(self, found: Any, rows: list[Any], half: Any, begin: Any) -> None:
        """Build the stores of the rows' results."""
        build = self.builder
        left, most = build.sub(half, begin), ir.Constant(I64, _EACH)
        left = build.select(build.icmp_signed("<", left, most), left, most)
        for place, row in zip(range(0, _ROWS, _EACH), rows, strict=True):
            before = ir.Constant(I64, place)
            mask = self.few.first(build.add(left, before))
            if place:
                mask = build.and_(mask, build.not_(self.few.first(before)))
            at = build.mul(build.sub(row, before), ir.Constant(I64, self.size))
            self.few.store(found, build.add(self.out, at), mask)

    def _take(self, row: Any, at: Any, vector: int, cells: Sequence[Any], mask: Any) -> None:
        """Build the accumulation of one vector of a row."""
        build, many = self.builder, self.few
        at = build.add(at, ir.Constant(I64, vector * _ROWS))
        value = many.load(build.add(row, build.mul(at, ir.Constant(I64, self.size))), mask)
        so_far = [build.load(cell) for cell in cells]
        if self.is_sum:
            build.store(build.fadd(so_far[0], value), cells[0])
            return
        bits = many.magnitude(value)
        value = build.fneg(value) if self.kernel.how == "bottom" else value
        best = many.greater(value, so_far[0])  # where value is NaN, the old extreme stays
        best = best if mask is None else build.select(mask, best, so_far[0])
        build.store(best, cells[0])
        build.store(self._larger(bits, so_far[1]), cells[1])

    def _larger(self, a: Any, b: Any) -> Any:
        return self.builder.select(self.builder.icmp_signed(">", a, b), a, b)

    def _found(self) -> Any:
        """Return the results of the eight rows in one vector."""
        build = self.builder
        joins: list[Join] = [build.fadd] if self.is_sum else [self.few.greater, self._larger]
        found = []
        for kind, join in enumerate(joins):
            parts = []
            for cells in self.cells:
                values = [build.load(some[kind]) for some in cells]
                if self.is_sum and self.size == 4:
                    values = [build.fpext(value, self.wide.type) for value in values]
                parts.append(values[0] if len(values) == 1 else join(*values))
            found.append(self._joined(parts, join))
        if self.is_sum:
            total = build.fmul(found[0], self.wide.splat(self.scale))
            return build.fptrunc(total, self.few.type) if self.size == 4 else total
        best, bits = found
        best = build.fneg(best) if self.kernel.how == "bottom" else best
        infinite = ir.Constant(bits.type, [self.few.infinite_bits.constant] * _ROWS)
        is_nan = build.icmp_signed(">", bits, infinite)
        return build.select(is_nan, self.few.constant(math.nan), best)

    def _joined(self, parts: Sequence[Any], join: Join) -> Any:
        """Return a vector with the reduction of each of the vectors in parts, by joining halves.

        At first a vector holds lanes of one row, after the first step of two rows, then of four and
        of eight. Each step joins the two halves of the lanes that a row has, and puts the results
        of two vectors into one.
        """
        apart = _ROWS // 2
        while apart:
            lanes = range(_ROWS)
            # The new vector takes `apart` lanes of each row, alternately from a row of the first
            # vector and from a row of the second. Before, each row had twice as many lanes.
            groups = [(lane // apart, lane % apart) for lane in lanes]
            places = [group // 2 * 2 * apart + group % 2 * _ROWS + place for group, place in groups]
            parts = [
                join(
                    self._shuffled(one, other, places),
                    self._shuffled(one, other, [place + apart for place in places]),
                )
                for one, other in zip(parts[:apart], parts[apart:], strict=True)
            ]
            apart //= 2
        return parts[0]

    def _shuffled(self, one: Any, other: Any, places: list[int]) -> Any:
        mask = ir.Constant(ir.VectorType(I32, len(places)), places)
        return self.builder.shuffle_vector(one, other, mask)
