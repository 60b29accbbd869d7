"""LLVM code for the work along a row, or along one row of each of several streams.

The steps of row_steps are built in groups. A group is either one vector loop over the row, or
operations on the row's scalars. row_code generates the loops over rows around the groups.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils

from .code_loops import as_written
from .row_numbers import BYTES, CONTRACT, HAS_TABLES, I64, VECTORS, WIDE, Numbers, evaluate, halved
from .row_steps import (
    Add,
    First,
    Give,
    If,
    Let,
    Log,
    Map,
    Pick,
    Put,
    Reduce,
    Row,
    Scan,
    Step,
    Total,
)
from .wide_row_code import build_wide_loop

_cgutils: Any = cgutils  # untyped
_TURNS: Final = 32
# The largest number of rows in a block: see Note [Blocks of rows] in row_code.py.
BLOCK: Final = 16
# The kinds of operands that have a number for each element of a row.
ALONG: Final = ("rows", "columns", "turns")


def take(
    codes: Sequence[RowCode], steps: list[Step], places: Sequence[dict[str, Any]], at: Any
) -> None:
    """Build a group of steps (see loops_of) for one row of each of `codes`; `at` is the index of
    the row in its block.
    """
    for code, there in zip(codes, places, strict=True):
        code.begin(there, at)
    if isinstance(steps[0], Reduce | Map | Add | Scan):
        codes[0].build_loops(codes, steps)
    else:
        for code in codes:
            code.take(steps)


def loops_of(steps: Sequence[Step]) -> Iterator[list[Step]]:
    """Yield steps in groups: steps that share a loop over the row; steps on the row's scalars,
    which LLVM vectorizes over several rows; and steps with indices, which it cannot vectorize.
    """
    group: list[Step] = []
    made: set[str] = set()
    for step in steps:
        waits = isinstance(step, Reduce | Map | Add) and bool(made & _words(step.text))
        branches = group and (isinstance(group[-1], If) or (isinstance(step, If) and step.apart))
        apart = group and (branches or _sort_of(step) != _sort_of(group[0]))
        if group and (waits or apart):
            yield group
            group, made = [], set()
        group.append(step)
        if isinstance(step, Reduce):
            made.add(step.name)
    if group:
        yield group


def _sort_of(step: Step) -> str:
    if isinstance(step, Reduce | Map | Add | Scan):
        return "loop"
    if isinstance(step, Log):
        return "log"
    return "place" if isinstance(step, Pick | Put | Total) else "number"


def _words(text: str) -> set[str]:
    return set("".join(c if c.isalnum() or c == "_" else " " for c in text).split())


class RowCode:
    """The code for one row; builder is positioned inside the loop over rows."""

    def __init__(
        self, builder: Any, row: Row, element: Any, numbers: dict[str, Any], n: Any, ahead: Any
    ) -> None:
        self.builder, self.n, self.ahead = builder, n, ahead
        self.size = 4 if isinstance(element, ir.FloatType) else 8
        # Exact rows give the same bits for any vector length. Without AVX-512, an iteration uses
        # vectors that are longer than the machine's. LLVM splits each into independent parts, which
        # overlap (exp of 10,000 numbers takes 5.2 us instead of 5.8). The remainder after whole
        # iterations uses vectors of the machine's length (softmax of 8 x 8 takes 280 ns instead of
        # 430; both on Zen 3).
        is_apart = row.is_exact and not HAS_TABLES
        self.lanes = (2 if is_apart else 1) * BYTES // self.size
        self.vectors = VECTORS // 2 if is_apart else VECTORS
        self.element = element
        self.many = Numbers(builder, element, self.lanes, is_exact=row.is_exact)
        self.few = self.many
        if is_apart:
            self.few = Numbers(builder, element, self.lanes // 4, is_exact=True)
        self.one = Numbers(builder, WIDE, 0, is_exact=row.is_exact)
        self.kinds = dict(row.operands)
        self.names = [*self.kinds, *numbers]
        inner = [one for step in row.steps if isinstance(step, If) for one in step.steps]
        steps = [*row.steps, *inner]
        named = [step.name for step in steps if isinstance(step, Reduce | Let | Log | Pick | First)]
        made = list(dict.fromkeys(named))
        self.names += made
        self._of_all = numbers
        # The memory for the scalars of each row of the block. It is allocated outside the loop over
        # rows, because allocating it inside would take more time.
        self._of_rows = {
            name: _cgutils.alloca_once(builder, ir.ArrayType(WIDE, BLOCK)) for name in made
        }
        # For the current row: the addresses of its operands, its index in the block, and the
        # scalars that are in registers.
        self.places: dict[str, Any] = {}
        # Whether earlier rows of the current row's band were added already.
        self.joins: Any = None
        # Operands that a loop has read before, so they are in the cache.
        self.read: set[str] = set()
        self._at: Any = None
        self._numbers: dict[str, Any] = {}
        self._spread: dict[tuple[str, int], Any] = {}
        # The offsets of indexed elements from the start of the row, in bytes. Each index is loaded
        # and compared once per row: see Note [Indices that change] in bounds.py.
        self._offsets: dict[str, Any] = {}

    def begin(self, places: dict[str, Any], at: Any) -> None:
        """Start with the row at this index of the block; places has the addresses of its
        operands.
        """
        self.places, self._at = places, at
        self._numbers, self._spread, self._offsets = dict(self._of_all), {}, {}

    def take(self, steps: list[Step]) -> None:
        """Build a group of steps that is not a loop over the row."""
        for step in steps:
            if isinstance(step, If):
                with self.builder.if_then(self._number(step.text), likely=False):
                    for group in loops_of(step.steps):
                        if _sort_of(group[0]) == "loop":
                            self.build_again(group)
                        else:
                            self.take(group)
                # The branch may have changed some scalars.
                self._numbers = dict(self._of_all)
            elif isinstance(step, Let):
                value = self._number(step.text)
                self.keep(step.name, self._rounded(value) if step.rounded else value)
            elif isinstance(step, Give):
                kind = WIDE if self.kinds[step.to] == "wide" else self.element
                self._store(self._number(step.text), self.places[step.to], kind)
            elif isinstance(step, First):
                self.keep(step.name, self._rounded(self._first(self.places[step.row])))
            elif isinstance(step, Pick):
                self.keep(step.name, self._load(self._place(step.row, step.place), self.element))
            elif isinstance(step, Put):
                self._store(self._number(step.text), self._place(step.to, step.place), self.element)

    def build_loops(self, codes: Sequence[RowCode], steps: list[Step]) -> None:
        """Build one loop over a row of each of `codes`."""
        _build_loop([_Loop(code, steps) for code in codes])

    def build_again(self, steps: list[Step]) -> None:
        """Build sums over the row in float64, for the steps of an If."""
        build_wide_loop(self, steps)

    def keep(self, name: str, value: Any) -> None:
        """Store a scalar of the row."""
        self._numbers[name] = value
        self.builder.store(value, self._cell(name))

    def _first(self, address: Any) -> Any:
        build, lanes = self.builder, ir.Constant(I64, self.lanes)
        count = build.select(build.icmp_signed("<", self.n, lanes), self.n, lanes)
        value = self.many.load(address, self.many.first(count))
        if self.size == 4:
            value = build.fpext(value, ir.VectorType(WIDE, self.lanes))
        part = build.fdiv(ir.Constant(WIDE, 1.0), build.sitofp(count, WIDE))
        return build.fmul(halved(build, value, build.fadd), part)

    def _rounded(self, value: Any) -> Any:
        if self.element == WIDE:
            return value
        return self.builder.fpext(self.builder.fptrunc(value, self.element), WIDE)

    def _cell(self, name: str) -> Any:
        zero = ir.Constant(I64, 0)
        return self.builder.gep(self._of_rows[name], [zero, self._at])

    def _place(self, row: str, place: str) -> Any:
        """Return the address of an indexed element of the row. An index that is out of bounds is
        reported, and gives the address of the first element.
        """
        if place not in self._offsets:
            self._offsets[place] = self._offset(place)
        return self.builder.add(self.places[row], self._offsets[place])

    def _offset(self, place: str) -> Any:
        build, zero = self.builder, ir.Constant(I64, 0)
        index = build.load(build.inttoptr(self.places[place], I64.as_pointer()))
        is_inside = build.icmp_unsigned("<", index, self.n)
        with build.if_then(build.not_(is_inside), likely=False):
            (found,) = [name for name, kind in self.kinds.items() if kind == "outside"]
            build.store(index, build.inttoptr(self.places[found], I64.as_pointer()))
        return build.mul(build.select(is_inside, index, zero), ir.Constant(I64, self.size))

    def _load(self, address: Any, kind: Any) -> Any:
        value = self.builder.load(self.builder.inttoptr(address, kind.as_pointer()))
        return value if kind == WIDE else self.builder.fpext(value, WIDE)

    def _store(self, value: Any, address: Any, kind: Any) -> None:
        value = value if kind == WIDE else self.builder.fptrunc(value, kind)
        self.builder.store(value, self.builder.inttoptr(address, kind.as_pointer()))

    def _number(self, text: str) -> Any:
        return evaluate(self.one, text, self.number, self.names)

    def number(self, name: str) -> Any:
        """Return a scalar of the row, or one that all rows share."""
        if name not in self._numbers:
            if name in self._of_rows:
                self._numbers[name] = self.builder.load(self._cell(name))
            else:
                kind = WIDE if self.kinds[name] == "wide" else self.element
                self._numbers[name] = self._load(self.places[name], kind)
        return self._numbers[name]

    def spread(self, name: str, many: Numbers) -> Any:
        """Return a vector of a scalar of the row; call this before the loop over the row."""
        key = name, many.lanes
        if key not in self._spread:
            value = self.number(name)
            value = value if self.size == 8 else self.builder.fptrunc(value, self.element)
            self._spread[key] = many.splat(value)
        return self._spread[key]

    def forget_spread(self, name: str) -> None:
        """Drop the vectors of a scalar that has changed."""
        for many in (self.many, self.few):
            self._spread.pop((name, many.lanes), None)


def _build_loop(loops: Sequence[_Loop]) -> None:
    """Build one loop that processes a row for each of `loops`, all with the same steps, and store
    the scalars to which the steps reduce.
    """
    one = loops[0]
    build, n, zero = one.builder, one.code.n, ir.Constant(I64, 0)
    turn = one.code.vectors * one.lanes
    whole = build.and_(n, ir.Constant(I64, -turn))
    if one.wides:
        block = ir.Constant(I64, turn * _TURNS)
        with as_written(build, zero, whole, block) as begin:
            end = build.add(begin, block)
            end = build.select(build.icmp_signed("<", end, whole), end, whole)
            _build_turns(loops, begin, end, turn)
            # The last, incomplete block is folded together with the remainder.
            with build.if_then(build.icmp_signed("==", build.sub(end, begin), block)):
                for loop in loops:
                    loop.fold()
    else:
        _build_turns(loops, zero, whole, turn)
    rests = [loop.of_rest() for loop in loops]
    _build_rest(rests, whole)
    for loop, rest in zip(loops, rests, strict=True):
        loop.end(rest)


def _build_turns(loops: Sequence[_Loop], begin: Any, end: Any, turn: int) -> None:
    build, step = loops[0].builder, ir.Constant(I64, turn)
    with as_written(build, begin, end, step) as at:
        for i in range(loops[0].code.vectors):
            place = build.add(at, ir.Constant(I64, i * loops[0].lanes))
            for loop in loops:
                loop.take(i, place, None)
            if len(loops) > 1:
                # LLVM may not move loads across this empty instruction. Without it, LLVM would
                # group the vectors of one stream.
                build.asm(ir.FunctionType(ir.VoidType(), []), "", "~{memory}", [], True)


def _build_rest(loops: Sequence[_Loop], begin: Any) -> None:
    """Process the remainder, which is less than one iteration: vector by vector, and the last
    vector with a mask.
    """
    build, n, lanes = loops[0].builder, loops[0].code.n, loops[0].lanes
    end = build.and_(n, ir.Constant(I64, -lanes))
    with as_written(build, begin, end, ir.Constant(I64, lanes)) as at:
        for loop in loops:
            loop.take(0, at, None)
    with build.if_then(build.icmp_signed("<", end, n)):
        for loop in loops:
            loop.take(1, end, build.sub(n, end))


class _Loop:
    """The work of several steps in one loop along a row, which _build_loop builds."""

    def __init__(self, code: RowCode, steps: list[Step], many: Numbers | None = None) -> None:
        self.code, self.steps = code, steps
        self.builder, self.many = code.builder, many or code.many
        self.reduces = [step for step in steps if isinstance(step, Reduce)]
        many, self.lanes = self.many, self.many.lanes
        self.wide = ir.VectorType(WIDE, self.lanes)
        starts = {
            "sum": many.constant(0.0),
            "top": many.constant(-math.inf),
            "nan": many.whole(0),
        }
        words = {word for step in steps for word in _words(step.text)}  # type: ignore[union-attr]
        for name in sorted(words):
            is_row = code.kinds.get(name) in ALONG
            if name in code.names and not is_row and name not in {s.name for s in self.reduces}:
                code.spread(name, many)
        rows = {name for name in words if code.kinds.get(name) == "rows"}
        self.fresh = rows - code.read
        code.read |= rows | {step.to for step in steps if isinstance(step, Map)}
        if any(isinstance(step, Add) for step in steps):
            none, all_lanes = ir.Constant(I64, 0), ir.Constant(I64, self.lanes)
            self.joins = many.first(self.builder.select(code.joins, all_lanes, none))
        self.sums: dict[str, Any] = {}
        self.wides: dict[str, Any] = {}
        for step in self.reduces:
            cells = [
                _cgutils.alloca_once(self.builder, starts[step.how].type)
                for _ in range(code.vectors)
            ]
            for cell in cells:
                self.builder.store(starts[step.how], cell)
            self.sums[step.name] = cells
            if step.how == "sum" and code.size == 4:
                wide = _cgutils.alloca_once(self.builder, self.wide)
                self.builder.store(ir.Constant(self.wide, [0.0] * self.lanes), wide)
                self.wides[step.name] = wide

    def of_rest(self) -> _Loop:
        """Return the loop for the remainder after whole iterations: this one, or one with shorter
        vectors.
        """
        few = self.code.few
        return self if few is self.many else _Loop(self.code, self.steps, few)

    def take(self, i: int, at: Any, left: Any) -> None:
        """Build all steps for one vector; if `left` is given, only its first `left` lanes count."""
        code, build = self.code, self.builder
        mask = None if left is None else self.many.first(left)
        found: dict[str, Any] = {}

        def find(name: str) -> Any:
            if name not in found:
                if code.kinds.get(name) in ALONG:
                    found[name] = self.many.load(self._address(name, at), mask)
                    if code.ahead is not None and mask is None and name in self.fresh:
                        self.many.prefetch(self._address(name, at), code.ahead)
                else:
                    found[name] = code.spread(name, self.many)
            return found[name]

        for step in self.steps:
            value = evaluate(self.many, step.text, find, code.names)  # type: ignore[union-attr]
            if isinstance(step, Map):
                self.many.store(value, self._address(step.to, at), mask)
                found[step.to] = value
            elif isinstance(step, Add):
                address = self._address(step.to, at)
                joins = self.joins if mask is None else build.and_(self.joins, mask)
                so_far = self.many.load(address, joins)
                self.many.store(build.fadd(so_far, value, flags=code.many.flags), address, mask)
            elif isinstance(step, Reduce):
                cell = self.sums[step.name][i]
                self.builder.store(self._joined(step, build.load(cell), value, mask), cell)

    def _joined(self, step: Reduce, so_far: Any, value: Any, mask: Any) -> Any:
        build = self.builder
        if step.how == "sum":
            total = build.fadd(so_far, value, flags=CONTRACT)
        elif step.how == "top":
            # Where value is NaN, the old extreme stays.
            total = self.many.greater(value, so_far)
        else:
            # NaN is found at the end: as an integer, it is greater than inf. Computing a mask for
            # each vector would take longer.
            total = self._larger(self.many.magnitude(value), so_far)
        return total if mask is None else build.select(mask, total, so_far)

    def _larger(self, a: Any, b: Any) -> Any:
        """Return the larger of two integers."""
        return self.builder.select(self.builder.icmp_signed(">", a, b), a, b)

    def fold(self) -> None:
        """Add the float32 accumulators of sums to their float64 totals, and clear them."""
        build = self.builder
        for name, wide in self.wides.items():
            a, b, c, d = (build.load(cell) for cell in self.sums[name])
            part = build.fadd(build.fadd(a, b), build.fadd(c, d))
            build.store(build.fadd(build.load(wide), build.fpext(part, self.wide)), wide)
            for cell in self.sums[name]:
                build.store(self.many.constant(0.0), cell)

    def end(self, rest: _Loop) -> None:
        """Store the scalars to which the steps reduce; rest is the loop over the remainder."""
        self.fold()
        for step in self.reduces:
            value = self._joined_lanes(step)
            if rest is not self:
                value = self._joins()[step.how](value, rest._joined_lanes(step))
            self.code.keep(step.name, self._total(step, value))

    def _joins(self) -> dict[str, Callable[[Any, Any], Any]]:
        return {"sum": self.builder.fadd, "top": self.many.greater, "nan": self._larger}

    def _joined_lanes(self, step: Reduce) -> Any:
        """Return the reduction of a step's accumulators, by joining halves."""
        build, join = self.builder, self._joins()[step.how]
        if step.name in self.wides:
            value = build.load(self.wides[step.name])
        else:
            values = [build.load(cell) for cell in self.sums[step.name]]
            while len(values) > 1:
                values = [join(a, b) for a, b in zip(values[::2], values[1::2], strict=True)]
            (value,) = values
        return halved(build, value, join)

    def _total(self, step: Reduce, value: Any) -> Any:
        """Return the final scalar of a step from its reduced value."""
        build = self.builder
        if step.how == "nan":
            is_nan = build.icmp_signed(">", value, self.many.infinite_bits)
            return build.uitofp(is_nan, WIDE)
        is_narrow = step.how == "top" and self.code.size == 4
        return build.fpext(value, WIDE) if is_narrow else value

    def _address(self, name: str, at: Any) -> Any:
        return self.builder.add(
            self.code.places[name], self.builder.mul(at, ir.Constant(I64, self.code.size))
        )
