"""Sums of columns as LLVM's code, in vectors; see row_code."""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils

from .row_numbers import BYTES, CONTRACT, I64, VECTORS, WIDE, Numbers, evaluate
from .row_steps import Columns

_cgutils: Any = cgutils  # untyped
# Rows of which a column's float32 are added up in turn.
_BAND: Final = 32


class ColumnCode:
    """The loops of a kernel over columns: a band of rows at a time, in which a strip of columns is
    added up in registers.
    """

    def __init__(self, builder: Any, kernel: Columns, element: Any, bases: Any, n: Any) -> None:
        self.builder, self.kernel, self.n = builder, kernel, n
        self.bases = dict(zip([name for name, _ in kernel.operands], bases, strict=True))
        self.kinds = dict(kernel.operands)
        self.element, self.size = element, 4 if isinstance(element, ir.FloatType) else 8
        self.many = Numbers(builder, element, BYTES // self.size)
        self.wide = Numbers(builder, WIDE, self.many.lanes)
        self.cells = [_cgutils.alloca_once(builder, self.many.type) for _ in range(VECTORS)]

    def build(self, rows: Any) -> None:
        """Build the loops over so many rows."""
        build, lanes, zero = self.builder, self.many.lanes, ir.Constant(I64, 0)
        strip = VECTORS * lanes
        whole = build.and_(self.n, ir.Constant(I64, -strip))
        band = ir.Constant(I64, _BAND)
        with _cgutils.for_range_slice(build, zero, rows, band, I64) as (first, _):
            last = build.add(first, band)
            last = build.select(build.icmp_signed("<", last, rows), last, rows)
            for begin, end, vectors in ((zero, whole, VECTORS), (whole, self.n, 1)):
                step = ir.Constant(I64, vectors * lanes)
                with _cgutils.for_range_slice(build, begin, end, step, I64) as (at, _):
                    mask = self.many.first(build.sub(self.n, at)) if vectors == 1 else None
                    self._strip(first, last, at, vectors, mask)

    def _strip(self, first: Any, last: Any, at: Any, vectors: int, mask: Any) -> None:
        build, many = self.builder, self.many
        for cell in self.cells[:vectors]:
            build.store(many.constant(0.0), cell)
        with _cgutils.for_range_slice(build, first, last, ir.Constant(I64, 1), I64) as (i, _):
            spread: dict[str, Any] = {}
            for v in range(vectors):
                place = build.add(at, ir.Constant(I64, v * many.lanes))
                value = self._value(i, place, mask, spread)
                cell = self.cells[v]
                build.store(build.fadd(build.load(cell), value, flags=CONTRACT), cell)
        for v in range(vectors):
            place = build.add(at, ir.Constant(I64, v * many.lanes))
            address = build.add(self.bases["total"], build.mul(place, ir.Constant(I64, 8)))
            part = build.load(self.cells[v])
            part = build.fpext(part, self.wide.type) if self.size == 4 else part
            total = build.fadd(self.wide.load(address, mask), part)
            self.wide.store(total, address, mask)

    def _value(self, i: Any, place: Any, mask: Any, spread: dict[str, Any]) -> Any:
        build = self.builder

        def find(name: str) -> Any:
            size = ir.Constant(I64, self.size)
            if self.kinds[name] == "rows":
                at = build.add(build.mul(i, self.n), place)
                return self.many.load(build.add(self.bases[name], build.mul(at, size)), mask)
            if name not in spread:
                address = build.add(self.bases[name], build.mul(i, size))
                pointer = build.inttoptr(address, self.element.as_pointer())
                spread[name] = self.many.splat(build.load(pointer))
            return spread[name]

        return evaluate(self.many, self.kernel.text, find, [*self.kinds])
