"""A loop over a row that few rows need: in float64, one vector per iteration, little code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils

from fastdist.language.scalar import Name, parse, walk

from .code_loops import as_written
from .row_numbers import CONTRACT, I64, WIDE, Numbers, evaluate, halved

_cgutils: Any = cgutils  # untyped


def build_wide_loop(code: Any, steps: Sequence[Any]) -> None:
    """Emit a loop over a row, with the builder of `code`. It computes the sums `steps` in float64
    and keeps them as scalars of the row.
    """
    build, lanes = code.builder, ir.Constant(I64, code.lanes)
    wide = Numbers(build, WIDE, code.lanes)
    trees = [parse(step.text, code.names).tree for step in steps]
    names = {piece.id for tree in trees for piece in walk(tree) if isinstance(piece, Name)}
    rows = {name for name in names if code.kinds.get(name) in ("rows", "columns")}
    of_all = {name: wide.splat(code.number(name)) for name in sorted(names - rows)}
    cells = {step.name: _cgutils.alloca_once(build, wide.type) for step in steps}

    def take(at: Any, mask: Any = None) -> None:
        found = dict(of_all)
        for name in sorted(rows):
            place = build.mul(at, ir.Constant(I64, code.size))
            value = code.many.load(build.add(code.places[name], place), mask)
            found[name] = value if code.size == 8 else build.fpext(value, wide.type)
        for step in steps:
            value = evaluate(wide, step.text, found.__getitem__, code.names)
            if mask is not None:
                value = build.select(mask, value, wide.constant(0.0))
            total = build.fadd(build.load(cells[step.name]), value, flags=CONTRACT)
            build.store(total, cells[step.name])

    for cell in cells.values():
        build.store(wide.constant(0.0), cell)
    whole = build.and_(code.n, ir.Constant(I64, -code.lanes))
    with as_written(build, ir.Constant(I64, 0), whole, lanes) as at:
        take(at)
    with build.if_then(build.icmp_signed("<", whole, code.n)):
        take(whole, code.many.first(build.sub(code.n, whole)))
    for step in steps:
        code.keep(step.name, halved(build, build.load(cells[step.name]), build.fadd))
