"""LLVM vector code for sums of columns; see row_code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from llvmlite import ir  # type: ignore[import-untyped]

from .code_loops import as_written
from .row_numbers import BYTES, CONTRACT, I64, WIDE, Numbers, evaluate
from .row_steps import Columns

# The number of rows that are summed in float32 before the sums are added in float64.
_BAND: Final = 32
# The size in bytes of a row of a block. One block of columns is processed at a time, and its sums
# stay in the L1 cache.
_BLOCK_BYTES: Final = 4096
# Note [Parts of the rows]
# The hardware prefetches a stream from its beginning to its end, but not the data of a later row.
# So rows are divided into parts that are far apart: four parts for a kernel with one operand, two
# parts for a kernel with two operands. An iteration adds one row of each part, pair by pair, so
# memory is read in four streams. A sum of 1000 x 1000 float32 takes 43.5 us with four streams, 54
# us with two, 52 us with eight, and 47 us with four adjacent rows. A sum of 10,000 x 1000, which
# comes from memory, takes 1.6 ms with four streams, 2.4 ms with adjacent rows, and 2.1 ms row by
# row. Vectors of half a cache line never cross lines. With these, 1000 x 1000 takes 48 us, because
# fewer bytes are requested at a time; but for data in the L2 cache they are faster: 100 x 1000
# takes 3.57 us instead of 3.75 (one core of an AMD EPYC, Zen 4).
_STREAMS: Final = 4


class ColumnCode:
    """The loops of a kernel over columns. For one block of columns after the other, the loops go
    through all rows, while the block's sums stay in the cache.
    """

    def __init__(
        self, builder: Any, kernel: Columns, element: Any, bases: Any, n: Any, scale: Any
    ) -> None:
        self.builder, self.kernel, self.n, self.scale = builder, kernel, n, scale
        self.bases = dict(zip([name for name, _ in kernel.operands], bases, strict=True))
        self.kinds = dict(kernel.operands)
        self.parts = _STREAMS // sum(kind == "rows" for _, kind in kernel.operands)
        self.element, self.size = element, 4 if isinstance(element, ir.FloatType) else 8
        self.columns = _BLOCK_BYTES // self.size
        self.many = Numbers(builder, element, BYTES // (2 if kernel.in_halves else 1) // self.size)
        self.wide = Numbers(builder, WIDE, self.many.lanes)
        # For each result two buffers: for a block's sums over the current band of rows, and for its
        # sums over all earlier bands.
        vectors = self.columns // self.many.lanes
        self.sums = {
            name: [
                _room(builder, ir.ArrayType(kind.type, vectors)) for kind in (self.many, self.wide)
            ]
            for name, _ in kernel.texts
        }

    def build(self, rows: Any) -> None:
        """Build the loops over this many rows."""
        build, zero, one = self.builder, ir.Constant(I64, 0), ir.Constant(I64, 1)
        block, band = ir.Constant(I64, self.columns), ir.Constant(I64, _BAND)
        each = build.udiv(rows, ir.Constant(I64, self.parts))
        parts = [build.mul(each, ir.Constant(I64, i)) for i in range(self.parts + 1)]
        # With a single band, float64 is only used for the results.
        several = build.icmp_signed(">", each, band)
        with as_written(build, zero, self.n, block) as begin:
            end = self._least(build.add(begin, block), self.n)
            self._vectors(begin, end, self._clear)
            with build.if_then(several):
                self._vectors(begin, end, self._clear_totals)
            with as_written(build, zero, each, band) as first:
                last = self._least(build.add(first, band), each)
                with as_written(build, first, last, one) as i:
                    self._add([build.add(part, i) for part in parts[:-1]], begin, end)
                # The sums of the last band go directly to the result.
                with build.if_then(build.icmp_signed("<", last, each)):
                    self._vectors(begin, end, self._fold)
            with as_written(build, parts[-1], rows, one) as i:
                self._add([i], begin, end)
            self._end(several, begin, end)

    def _end(self, several: Any, begin: Any, end: Any) -> None:
        build = self.builder
        with build.if_else(several) as (of_several, of_one):
            with of_several:
                self._vectors(begin, end, self._give_totals)
            with of_one:
                is_one = build.fcmp_ordered("==", self.scale, ir.Constant(WIDE, 1.0))
                with build.if_else(is_one) as (as_they_are, scaled):
                    with as_they_are:
                        self._vectors(begin, end, self._give)
                    with scaled:
                        self._vectors(begin, end, self._give_scaled)

    def _least(self, a: Any, b: Any) -> Any:
        return self.builder.select(self.builder.icmp_signed("<", a, b), a, b)

    def _vectors(self, begin: Any, end: Any, take: Callable[..., None], vectors: int = 1) -> None:
        """Build take(place, at, mask) for each vector of columns from begin to end. An iteration
        has `vectors` vectors; `at` is a vector's index in the block's sums.
        """
        build, lanes = self.builder, self.many.lanes
        count = build.sub(end, begin)
        whole = build.and_(count, ir.Constant(I64, -lanes))
        first = ir.Constant(I64, 0)

        def at(place: Any, mask: Any) -> None:
            # place is never negative, so the division is unsigned: LLVM would make a signed one
            # handle negative numbers.
            take(build.add(begin, place), build.udiv(place, ir.Constant(I64, lanes)), mask)

        for some in (vectors, 1) if vectors > 1 else (1,):
            turn = ir.Constant(I64, lanes * some)
            last = build.and_(count, ir.Constant(I64, -lanes * some))
            with as_written(build, first, last, turn) as place:
                for v in range(some):
                    at(build.add(place, ir.Constant(I64, v * lanes)), None)
            first = last
        with build.if_then(build.icmp_signed("<", whole, count)):
            at(whole, self.many.first(build.sub(count, whole)))

    def _places(self, name: str, at: Any) -> tuple[Any, Any]:
        """Return the addresses of a band's sum, and of the total of all earlier bands."""
        cell, total = (self.builder.gep(one, [ir.Constant(I64, 0), at]) for one in self.sums[name])
        return cell, total

    def _clear(self, place: Any, at: Any, mask: Any) -> None:
        for name in self.sums:
            self.builder.store(self.many.constant(0.0), self._places(name, at)[0])

    def _clear_totals(self, place: Any, at: Any, mask: Any) -> None:
        for name in self.sums:
            self.builder.store(self.wide.constant(0.0), self._places(name, at)[1])

    def _add(self, rows: list[Any], begin: Any, end: Any) -> None:
        """Build the addition of rows to the band's sums."""
        build = self.builder
        names = [name for name, kind in self.kernel.operands if kind == "numbers"]
        spread = [{name: self._number(name, i) for name in names} for i in rows]
        begins = [build.mul(i, self.n) for i in rows]

        def take(place: Any, at: Any, mask: Any) -> None:
            values: dict[str, list[Any]] = {name: [] for name in self.sums}
            for row, numbers in zip(begins, spread, strict=True):
                of_row = build.mul(build.add(row, place), ir.Constant(I64, self.size))
                found = dict(numbers)

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

        self._vectors(begin, end, take, 2 if self.kernel.in_halves and len(rows) > 1 else 1)

    def _number(self, name: str, i: Any) -> Any:
        address = self.builder.add(
            self.bases[name], self.builder.mul(i, ir.Constant(I64, self.size))
        )
        pointer = self.builder.inttoptr(address, self.element.as_pointer())
        return self.many.splat(self.builder.load(pointer))

    def _fold(self, place: Any, at: Any, mask: Any) -> None:
        """Build the addition of a band's sums to the totals, and clear the sums."""
        for name in self.sums:
            cell, total = self._places(name, at)
            self.builder.store(self._sum(cell, total), total)
            self.builder.store(self.many.constant(0.0), cell)

    def _give(self, place: Any, at: Any, mask: Any) -> None:
        """Build the store of a single band's sums to the results."""
        for name in self.sums:
            self._put(name, self.builder.load(self._places(name, at)[0]), place, mask)

    def _give_scaled(self, place: Any, at: Any, mask: Any) -> None:
        for name in self.sums:
            total = self._widened(self._places(name, at)[0])
            self._put(name, self._scaled(total), place, mask)

    def _give_totals(self, place: Any, at: Any, mask: Any) -> None:
        for name in self.sums:
            total = self._sum(*self._places(name, at))
            self._put(name, self._scaled(total), place, mask)

    def _scaled(self, total: Any) -> Any:
        found = self.builder.fmul(total, self.wide.splat(self.scale))
        return self.builder.fptrunc(found, self.many.type) if self.size == 4 else found

    def _put(self, name: str, found: Any, place: Any, mask: Any) -> None:
        address = self.builder.mul(place, ir.Constant(I64, self.size))
        self.many.store(found, self.builder.add(self.bases[name], address), mask)

    def _sum(self, cell: Any, total: Any) -> Any:
        return self.builder.fadd(self.builder.load(total), self._widened(cell))

    def _widened(self, cell: Any) -> Any:
        part = self.builder.load(cell)
        return self.builder.fpext(part, self.wide.type) if self.size == 4 else part


def _room(builder: Any, kind: Any) -> Any:
    """Return uninitialized memory on the stack.

    Note    Numba's alloca_once fills memory with zeros: for 12 KiB this took 0.1 us, when a call
            took 4 us
    """
    with builder.goto_entry_block():
        return builder.alloca(kind)
