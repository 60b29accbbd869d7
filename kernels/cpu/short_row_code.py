"""Sums and extremes of short rows as LLVM's code, in vectors, eight rows at a time; see row_code.

A short row is soon read; what its lanes come to took longer, three shuffles that wait for each
other. Here the lanes of eight rows are joined together, in vectors that hold a part of each row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils

from .row_numbers import BYTES, I32, I64, WIDE, Numbers
from .row_steps import Short

_cgutils: Any = cgutils  # untyped
_ROWS: Final = 8
Join = Callable[[Any, Any], Any]


class ShortRowCode:
    """The loop over rows of n elements, of which each one's number goes to the second operand."""

    def __init__(
        self, builder: Any, kernel: Short, element: Any, bases: Sequence[Any], n: Any, scale: Any
    ) -> None:
        self.builder, self.kernel, self.n, self.scale = builder, kernel, n, scale
        (self.x, self.out), self.element = bases, element
        self.size = 4 if isinstance(element, ir.FloatType) else 8
        # Half a line for float32: where rows do not begin at lines, most longer vectors would lie
        # across two.
        self.few = Numbers(builder, element, _ROWS)
        self.wide = Numbers(builder, WIDE, _ROWS)
        self.is_sum = kernel.how == "sum"
        # Of an extreme, and of the bits in which a NaN shows.
        starts = [self.few.constant(0.0 if self.is_sum else -math.inf), self.few.whole(0)]
        self.starts = starts[: 1 if self.is_sum else 2]
        # Of each row, of each vector of a line.
        self.vectors = BYTES // (_ROWS * self.size)
        self.cells = [
            [
                [_cgutils.alloca_once(builder, start.type) for start in self.starts]
                for _ in range(self.vectors)
            ]
            for _ in range(_ROWS)
        ]

    def build(self, first: Any, count: Any) -> None:
        """Build the loop over so many rows."""
        build, lanes = self.builder, self.vectors * _ROWS
        last, step, zero = build.add(first, count), ir.Constant(I64, _ROWS), ir.Constant(I64, 0)
        # What is left of a row is one element at least.
        one = ir.Constant(I64, 1)
        whole = build.and_(build.sub(self.n, one), ir.Constant(I64, -lanes))
        left = build.sub(self.n, whole)
        masks = [
            self.few.first(build.sub(left, ir.Constant(I64, vector * _ROWS)))
            for vector in range(self.vectors)
        ]
        length = build.mul(self.n, ir.Constant(I64, self.size))
        turn = ir.Constant(I64, lanes)
        with _cgutils.for_range_slice(build, first, last, step, I64) as (begin, _):
            # Of the last rows there may be fewer: the last one is read again.
            end = build.sub(last, one)
            for place, cells in enumerate(self.cells):
                i = build.add(begin, ir.Constant(I64, place))
                i = build.select(build.icmp_signed("<", i, end), i, end)
                row = build.add(self.x, build.mul(i, length))
                for some in cells:
                    for cell, start in zip(some, self.starts, strict=True):
                        build.store(start, cell)
                with _cgutils.for_range_slice(build, zero, whole, turn, I64) as (at, _):
                    for vector, some in enumerate(cells):
                        self._take(row, at, vector, some, None)
                for vector, some in enumerate(cells):
                    self._take(row, whole, vector, some, masks[vector])
            there = self.few.first(build.sub(last, begin))
            address = build.add(self.out, build.mul(begin, ir.Constant(I64, self.size)))
            self.few.store(self._found(), address, there)

    def _take(self, row: Any, at: Any, vector: int, cells: Sequence[Any], mask: Any) -> None:
        """Build what a vector of a row adds to its cells."""
        build, many = self.builder, self.few
        at = build.add(at, ir.Constant(I64, vector * _ROWS))
        value = many.load(build.add(row, build.mul(at, ir.Constant(I64, self.size))), mask)
        so_far = [build.load(cell) for cell in cells]
        if self.is_sum:
            build.store(build.fadd(so_far[0], value), cells[0])
            return
        bits = many.magnitude(value)
        value = build.fneg(value) if self.kernel.how == "bottom" else value
        best = many.greater(value, so_far[0])  # where value is NaN, what was there stays
        best = best if mask is None else build.select(mask, best, so_far[0])
        build.store(best, cells[0])
        build.store(self._larger(bits, so_far[1]), cells[1])

    def _larger(self, a: Any, b: Any) -> Any:
        return self.builder.select(self.builder.icmp_signed(">", a, b), a, b)

    def _found(self) -> Any:
        """Return the numbers of the rows in a vector."""
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
        """Return the vector of what each vector's lanes come to, halves upon halves.

        A vector holds parts of one row, of two when it has met another, of four and of eight: in
        each step the halves of a row's part are joined, and meet those of the row so far away.
        """
        apart = _ROWS // 2
        while apart:
            lanes = range(_ROWS)
            # Lane by lane: of the rows in a vector one after the other, the first vector's or the
            # second's, each with `apart` lanes where it had twice as many.
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
