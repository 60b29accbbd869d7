"""Sums of columns as LLVM's code, in vectors; see row_code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils

from .row_numbers import BYTES, CONTRACT, I64, VECTORS, WIDE, Numbers, evaluate
from .row_steps import Columns

_cgutils: Any = cgutils  # untyped
# Sums of float32 that are added up in turn before they are added to float64.
_BAND: Final = 32
_FAR: Final = 1 << 24
# Half a line: where rows do not begin at lines, a longer vector would lie across two.
_BYTES: Final = BYTES // 2
# Vectors of columns that are added up at a time: 4 KiB, which stay in the nearest cache.
_BLOCK: Final = 128
# Rows that are added at a time, pair by pair, where they are in a cache. What comes from memory
# comes sooner row by row: 1e7 float32 in rows of 1000 are added up in 1.3 ms, 1.8 by fours; 1e6 in
# 56 us and 48, 51 by twos (one core of an AMD EPYC, Zen 4).
_ROWS: Final = 4


class ColumnCode:
    """The loops of a kernel over columns: a block of them at a time, of which a band of rows is
    added up where it stays at hand, row by row, as memory has them.
    """

    def __init__(
        self, builder: Any, kernel: Columns, element: Any, bases: Any, n: Any, scale: Any
    ) -> None:
        self.builder, self.kernel, self.n, self.scale = builder, kernel, n, scale
        self.bases = dict(zip([name for name, _ in kernel.operands], bases, strict=True))
        self.kinds = dict(kernel.operands)
        self.element, self.size = element, 4 if isinstance(element, ir.FloatType) else 8
        self.many = Numbers(builder, element, _BYTES // self.size)
        self.wide = Numbers(builder, WIDE, self.many.lanes)
        # Of each result, for a block's columns: what a band adds up, and what all before it did.
        self.sums = {
            name: [
                _cgutils.alloca_once(builder, ir.ArrayType(kind.type, _BLOCK))
                for kind in (self.many, self.wide)
            ]
            for name, _ in kernel.texts
        }

    def build(self, rows: Any) -> None:
        """Build the loops over so many rows."""
        build, zero = self.builder, ir.Constant(I64, 0)
        block = ir.Constant(I64, _BLOCK * self.many.lanes)
        elements = build.mul(rows, self.n)
        far = build.icmp_signed(">", elements, ir.Constant(I64, _FAR // self.size))
        band = build.select(far, ir.Constant(I64, _BAND), ir.Constant(I64, _BAND * _ROWS))
        with _cgutils.for_range_slice(build, zero, self.n, block, I64) as (begin, _):
            end = self._least(build.add(begin, block), self.n)
            self._vectors(begin, end, self._clear)
            with _cgutils.for_range_slice(build, zero, rows, band, I64) as (first, _):
                last = self._least(build.add(first, band), rows)
                rest = build.srem(build.sub(last, first), ir.Constant(I64, _ROWS))
                grouped = build.select(far, first, build.sub(last, rest))
                for start, stop, count in ((first, grouped, _ROWS), (grouped, last, 1)):
                    step = ir.Constant(I64, count)
                    with _cgutils.for_range_slice(build, start, stop, step, I64) as (i, _):
                        self._add(i, count, begin, end)
                # The last band's cells go to the result at once.
                with build.if_then(build.icmp_signed("<", last, rows)):
                    self._vectors(begin, end, self._fold)
            self._vectors(begin, end, self._give)

    def _least(self, a: Any, b: Any) -> Any:
        return self.builder.select(self.builder.icmp_signed("<", a, b), a, b)

    def _vectors(self, begin: Any, end: Any, take: Callable[..., None]) -> None:
        """Build take(place, at, mask) for each vector of the columns from begin to end, which
        stands at a place of theirs in the block's sums.
        """
        build, lanes = self.builder, self.many.lanes
        count = build.sub(end, begin)
        whole = build.and_(count, ir.Constant(I64, -lanes))
        turns = build.and_(count, ir.Constant(I64, -lanes * VECTORS))

        def at(place: Any, mask: Any) -> None:
            # Places are not negative, but LLVM would ask.
            take(build.add(begin, place), build.udiv(place, ir.Constant(I64, lanes)), mask)

        zero = ir.Constant(I64, 0)
        turn, one = (ir.Constant(I64, lanes * v) for v in (VECTORS, 1))
        with _cgutils.for_range_slice(build, zero, turns, turn, I64) as (place, _):
            for v in range(VECTORS):
                at(build.add(place, ir.Constant(I64, v * lanes)), None)
        with _cgutils.for_range_slice(build, turns, whole, one, I64) as (place, _):
            at(place, None)
        with build.if_then(build.icmp_signed("<", whole, count)):
            at(whole, self.many.first(build.sub(count, whole)))

    def _places(self, name: str, at: Any) -> tuple[Any, Any]:
        """Return where the sum of a band, and that of all before it, stand."""
        cell, total = (self.builder.gep(one, [ir.Constant(I64, 0), at]) for one in self.sums[name])
        return cell, total

    def _clear(self, place: Any, at: Any, mask: Any) -> None:
        for name in self.sums:
            cell, total = self._places(name, at)
            self.builder.store(self.many.constant(0.0), cell)
            self.builder.store(self.wide.constant(0.0), total)

    def _add(self, first: Any, rows: int, begin: Any, end: Any) -> None:
        """Build the addition of so many rows, the first one first, to the cells."""
        build = self.builder
        names = [name for name, kind in self.kernel.operands if kind == "numbers"]
        places = [build.add(first, ir.Constant(I64, row)) for row in range(rows)]
        spread = [{name: self._number(name, i) for name in names} for i in places]
        begins = [build.mul(i, self.n) for i in places]

        def take(place: Any, at: Any, mask: Any) -> None:
            values: dict[str, list[Any]] = {name: [] for name in self.sums}
            for row in range(rows):
                of_row = build.mul(build.add(begins[row], place), ir.Constant(I64, self.size))
                found = dict(spread[row])

                def find(name: str, of_row: Any = of_row, found: dict[str, Any] = found) -> Any:
                    if name not in found:
                        found[name] = self.many.load(build.add(self.bases[name], of_row), mask)
                    return found[name]

                for name, text in self.kernel.texts:
                    values[name].append(evaluate(self.many, text, find, [*self.kinds]))
            for name, some in values.items():
                while len(some) > 1:
                    pairs = zip(some[::2], some[1::2], strict=True)
                    some = [build.fadd(one, other) for one, other in pairs]
                cell, _ = self._places(name, at)
                build.store(build.fadd(build.load(cell), some[0], flags=CONTRACT), cell)

        self._vectors(begin, end, take)

    def _number(self, name: str, i: Any) -> Any:
        address = self.builder.add(
            self.bases[name], self.builder.mul(i, ir.Constant(I64, self.size))
        )
        pointer = self.builder.inttoptr(address, self.element.as_pointer())
        return self.many.splat(self.builder.load(pointer))

    def _fold(self, place: Any, at: Any, mask: Any) -> None:
        """Build the addition of a band's sums to those before it, and begin anew."""
        for name in self.sums:
            cell, total = self._places(name, at)
            self.builder.store(self._sum(cell, total), total)
            self.builder.store(self.many.constant(0.0), cell)

    def _give(self, place: Any, at: Any, mask: Any) -> None:
        """Build the scaled sums' way to the results."""
        build = self.builder
        for name in self.sums:
            found = build.fmul(self._sum(*self._places(name, at)), self.wide.splat(self.scale))
            found = build.fptrunc(found, self.many.type) if self.size == 4 else found
            address = build.mul(place, ir.Constant(I64, self.size))
            self.many.store(found, build.add(self.bases[name], address), mask)

    def _sum(self, cell: Any, total: Any) -> Any:
        part = self.builder.load(cell)
        part = self.builder.fpext(part, self.wide.type) if self.size == 4 else part
        return self.builder.fadd(self.builder.load(total), part)
