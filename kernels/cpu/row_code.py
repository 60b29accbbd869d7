"""Kernels along rows as LLVM's code, in vectors: from the steps of a row to a compiled function.

LLVM's own vectorizer finds the loops of a row, but leaves what a row has over, up to 63 elements,
to scalar loops: rows of 100 took 3 to 10 times as long an element as rows of 10,000. So vectors are
written here. A loop takes four vectors a turn, into one accumulator each, then what is left one
vector at a time, with a mask. A sum folds its accumulators into float64 every 32 turns: a float32
adds at most 34 terms in turn, whatever the row's length. All of it follows from the length alone,
so that a row has the same bits on any number of threads, and with shorter vectors as well, but for
the last bits of exp, which such a machine makes in another way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils

from fastdist.core.blas import read_cpu

from .column_code import ColumnCode
from .compiler import Loop
from .iteration import HEADER, ITEMS
from .launch import row_launcher
from .machine import intrinsic
from .row_numbers import BYTES, CONTRACT, I32, I64, VECTORS, WIDE, Numbers, evaluate
from .row_steps import (
    KERNELS,
    Add,
    Columns,
    First,
    Give,
    If,
    Let,
    Map,
    Pick,
    Put,
    Reduce,
    Row,
    Short,
    Step,
)
from .short_row_code import ShortRowCode
from .waiting import compiling

_cgutils: Any = cgutils  # untyped
_TURNS: Final = 32
# So many bytes ahead memory is asked for by a row's first loop, where its share of rows is so large
# that it comes from memory, on machines that gain by it, told by the family of AMD's. Rows of 1000
# float32, 1e7 in all, are added up at 63 GB/s on one core of a Zen 5, at 48 without. A Zen 4 adds
# up as fast without, and finds the greatest of each row at 34 GB/s, at 30 if it asks. What is in
# the cache of all cores arrives later for being asked for: 1e6 at 61 GB/s, 78 without (Zen 4).
_AHEAD: Final = {26: 12288}.get(read_cpu().family, 0)
_FAR: Final = 1 << 24
# Elements a thread: what pays for entering the pool (3 us) where each is read once.
_SHARE: Final = 65536
_ALL: Final = 1 << 62
# Note [Blocks of rows]
# A short row is soon read; then its numbers wait for each other: exp for the greatest, the total
# for exp, the shares for the total. So rows are taken through each loop in blocks of up to 16, and
# their numbers are kept meanwhile: one row is read while another's wait. What a block's rows are in
# all operands fits into the nearest cache: softmax's gradient of 1000 x 1000, with three of them,
# takes 155 us by 2 rows and 210 by 4 (one core of an AMD EPYC, Zen 4). A long row is a block of its
# own.
_BLOCK: Final = 16
_NEAREST_BYTES: Final = 1 << 15
_found: dict[tuple[str, str], Callable[..., None]] = {}


def row_loop(name: str, dtype: str) -> Callable[..., None]:
    """Return the function that runs the kernel of a name in row_steps for float32 or float64; see
    row_launcher.
    """
    found = _found.get((name, dtype))
    if found is None:
        what = f"{name} of {dtype} along rows"
        with compiling(what):
            found = _found.get((name, dtype))
            if found is None:
                kernel, size = KERNELS[name], 4 if dtype == "float32" else 8
                # Columns are added up by one thread.
                share = _ALL if isinstance(kernel, Columns) else _SHARE
                sizes = [size] * len(kernel.operands)
                loop = Loop(_function_of(kernel, dtype), sizes, share, what)
                found = _found[name, dtype] = row_launcher(loop)
    return found


def _function_of(row: Row | Columns | Short, dtype: str) -> Any:
    """Return the function of a row for float32 or float64, in the form of a Loop's: (words, count)
    for count rows, with words the address of these: that of a tuple of the operands, the first row,
    the length of a row, a, and b.
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
    whole = builder.mul(n, size)
    steps = {"rows": whole, "bands": whole, "columns": None, "numbers": size}
    # See Note [Reading array objects] in iteration.py.
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
    numbers = {"n": builder.sitofp(n, WIDE), "a": a, "b": b}
    ahead = None
    if _AHEAD:
        far = builder.mul(builder.mul(count, n), size)
        far = builder.icmp_signed(">", far, ir.Constant(I64, _FAR))
        ahead = builder.select(far, ir.Constant(I64, _AHEAD), ir.Constant(I64, 0))

    def places(i: Any) -> dict[str, Any]:
        found = {}
        for (name, kind), base in zip(row.operands, bases, strict=True):
            step, at = steps.get(kind, eight), builder.udiv(i, band) if kind == "bands" else i
            found[name] = base if step is None else builder.add(base, builder.mul(at, step))
        return found

    codes = [_Code(builder, row, element, numbers, n, ahead) for _ in range(row.streams)]
    if row.streams > 1:
        _build_streams(builder, row, codes, first, count, places)
        return
    _build_blocks(builder, row, codes[0], first, builder.add(first, count), band, places)


def _build_blocks(
    builder: Any, row: Row, code: _Code, first: Any, last: Any, band: Any, places: Any
) -> None:
    """Build the loops over the rows from first to last, block by block."""
    most = ir.Constant(I64, _BLOCK)
    in_rows = sum(kind == "rows" for _, kind in row.operands)
    together = _NEAREST_BYTES // (max(in_rows, 2) * code.size)
    fit = builder.sdiv(ir.Constant(I64, together), code.n)
    block = builder.select(builder.icmp_signed("<", fit, most), fit, most)
    zero, one = ir.Constant(I64, 0), ir.Constant(I64, 1)
    block = builder.select(builder.icmp_signed(">", block, one), block, one)
    with _cgutils.for_range_slice(builder, first, last, block, I64) as (begin, _):
        end = builder.add(begin, block)
        end = builder.select(builder.icmp_signed("<", end, last), end, last)
        for group in loops_of(row.steps):
            with _cgutils.for_range_slice(builder, begin, end, one, I64) as (i, _):
                if band is not None:
                    code.joins = builder.icmp_signed("!=", builder.urem(i, band), zero)
                _take([code], group, [places(i)], builder.sub(i, begin))


# Note [Streams]
# The machine fetches ahead of a loop up to the end of a page; where the next one begins, the loop
# waits. Where pages are of 4 KiB, that is at every 1000 float32. So what comes from memory is read
# in four streams, each a quarter of the rows, whose waits are one. 5e7 float32 in rows of 1000 are
# added up in 8.5 ms in place of 11.1, where pages lie about at random, and as before, in 6.4, where
# they are huge ones; two streams take 10.2, six 8.4 and 6.9 (one core of an AMD EPYC, Zen 4). Turns
# go from stream to stream with each vector: where LLVM took those of a stream together, the norm of
# 1e7 in huge pages took 1.6 ms in place of 1.0.
def _build_streams(
    builder: Any, row: Row, codes: Sequence[_Code], first: Any, count: Any, places: Any
) -> None:
    """Build the loop over rows, of which each code takes those of one stream."""
    zero, one, streams = (ir.Constant(I64, i) for i in (0, 1, len(codes)))
    each = builder.sdiv(builder.add(count, builder.sub(streams, one)), streams)
    begins, most = [], builder.sub(count, each)
    for i in range(len(codes)):
        # The last ones have some rows in common with others, which are made twice.
        begin = builder.mul(each, ir.Constant(I64, i))
        begin = builder.select(builder.icmp_signed("<", begin, most), begin, most)
        begins.append(builder.add(first, begin))
    with _cgutils.for_range_slice(builder, zero, each, one, I64) as (i, _):
        of_rows = [places(builder.add(begin, i)) for begin in begins]
        for group in loops_of(row.steps):
            _take(codes, group, of_rows, zero)


def _take(
    codes: Sequence[_Code], steps: list[Step], places: Sequence[dict[str, Any]], at: Any
) -> None:
    """Build one group of loops_of, for a row of each code, which are at a place of their block."""
    for code, there in zip(codes, places, strict=True):
        code.begin(there, at)
    if isinstance(steps[0], Reduce | Map | Add):
        _build_loop([_Loop(code, steps) for code in codes])
    else:
        for code in codes:
            code.take(steps)


def loops_of(steps: Sequence[Step]) -> Iterator[list[Step]]:
    """Yield steps in groups: those that share a loop over the row, those of its numbers, of which
    LLVM makes vectors for several rows, and those of places, of which it cannot.
    """
    group: list[Step] = []
    made: set[str] = set()
    for step in steps:
        waits = isinstance(step, Reduce | Map | Add) and bool(made & _words(step.text))
        apart = group and (isinstance(group[-1], If) or _sort_of(step) != _sort_of(group[0]))
        if group and (waits or apart):
            yield group
            group, made = [], set()
        group.append(step)
        if isinstance(step, Reduce):
            made.add(step.name)
    if group:
        yield group


def _sort_of(step: Step) -> str:
    if isinstance(step, Reduce | Map | Add):
        return "loop"
    return "place" if isinstance(step, Pick | Put) else "number"


def _words(text: str) -> set[str]:
    return set("".join(c if c.isalnum() or c == "_" else " " for c in text).split())


class _Code:
    """The code of one row on its way: builder stands inside the loop over rows."""

    def __init__(
        self, builder: Any, row: Row, element: Any, numbers: dict[str, Any], n: Any, ahead: Any
    ) -> None:
        self.builder, self.n, self.ahead = builder, n, ahead
        self.size = 4 if isinstance(element, ir.FloatType) else 8
        self.lanes = BYTES // self.size
        self.element = element
        self.many = Numbers(builder, element, self.lanes)
        self.one = Numbers(builder, WIDE, 0)
        self.kinds = dict(row.operands)
        self.names = [*self.kinds, *numbers]
        made = [step.name for step in row.steps if isinstance(step, Reduce | Let | Pick | First)]
        self.names += made
        self._of_all = numbers
        # A number of each row of the block. Not where the loop is: that would take more each time.
        self._of_rows = {
            name: _cgutils.alloca_once(builder, ir.ArrayType(WIDE, _BLOCK)) for name in made
        }
        # Of the row that is taken: where its operands are, its place in the block, what is at hand.
        self.places: dict[str, Any] = {}
        # Whether its band has rows before it.
        self.joins: Any = None
        # Operands that a loop has gone through before: they are in cache.
        self.read: set[str] = set()
        self._at: Any = None
        self._numbers: dict[str, Any] = {}
        self._spread: dict[str, Any] = {}

    def begin(self, places: dict[str, Any], at: Any) -> None:
        """Go to the row at a place of the block."""
        self.places, self._at = places, at
        self._numbers, self._spread = dict(self._of_all), {}

    def take(self, steps: list[Step]) -> None:
        """Build a group of loops_of that is none over the row."""
        for step in steps:
            if isinstance(step, If):
                with self.builder.if_then(self._number(step.text), likely=False):
                    for group in loops_of(step.steps):
                        _take([self], group, [self.places], self._at)
                # Of what was read before, some may be new.
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

    def keep(self, name: str, value: Any) -> None:
        """Keep a number of the row."""
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
        pointer = self.builder.inttoptr(self.places[place], I64.as_pointer())
        at = self.builder.mul(self.builder.load(pointer), ir.Constant(I64, self.size))
        return self.builder.add(self.places[row], at)

    def _load(self, address: Any, kind: Any) -> Any:
        value = self.builder.load(self.builder.inttoptr(address, kind.as_pointer()))
        return value if kind == WIDE else self.builder.fpext(value, WIDE)

    def _store(self, value: Any, address: Any, kind: Any) -> None:
        value = value if kind == WIDE else self.builder.fptrunc(value, kind)
        self.builder.store(value, self.builder.inttoptr(address, kind.as_pointer()))

    def _number(self, text: str) -> Any:
        return evaluate(self.one, text, self.number, self.names)

    def number(self, name: str) -> Any:
        """Return a number of the row, or of all rows."""
        if name not in self._numbers:
            if name in self._of_rows:
                self._numbers[name] = self.builder.load(self._cell(name))
            else:
                kind = WIDE if self.kinds[name] == "wide" else self.element
                self._numbers[name] = self._load(self.places[name], kind)
        return self._numbers[name]

    def spread(self, name: str) -> Any:
        """Return a number of the row in all lanes; asked for where the loop has not begun."""
        if name not in self._spread:
            value = self.number(name)
            value = value if self.size == 8 else self.builder.fptrunc(value, self.element)
            self._spread[name] = self.many.splat(value)
        return self._spread[name]


def _build_loop(loops: Sequence[_Loop]) -> None:
    """Build a loop over a row of each, for the same steps, and the numbers that they reduce to."""
    one = loops[0]
    build, n, zero = one.builder, one.code.n, ir.Constant(I64, 0)
    turn = VECTORS * one.lanes
    whole = build.and_(n, ir.Constant(I64, -turn))
    if one.wides:
        block = ir.Constant(I64, turn * _TURNS)
        with _cgutils.for_range_slice(build, zero, whole, block, I64) as (begin, _):
            end = build.add(begin, block)
            end = build.select(build.icmp_signed("<", end, whole), end, whole)
            _build_turns(loops, begin, end, turn)
            # What is less than a block is folded together with the rest.
            with build.if_then(build.icmp_signed("==", build.sub(end, begin), block)):
                for loop in loops:
                    loop.fold()
    else:
        _build_turns(loops, zero, whole, turn)
    _build_rest(loops, whole)
    for loop in loops:
        loop.end()


def _build_turns(loops: Sequence[_Loop], begin: Any, end: Any, turn: int) -> None:
    build, step = loops[0].builder, ir.Constant(I64, turn)
    with _cgutils.for_range_slice(build, begin, end, step, I64) as (at, _):
        for i in range(VECTORS):
            place = build.add(at, ir.Constant(I64, i * loops[0].lanes))
            for loop in loops:
                loop.take(i, place, None)
            if len(loops) > 1:
                # Nothing, but no load is moved to its other side: LLVM would take the vectors of a
                # stream together.
                build.asm(ir.FunctionType(ir.VoidType(), []), "", "~{memory}", [], True)


def _build_rest(loops: Sequence[_Loop], begin: Any) -> None:
    """Take what is less than a turn: vector by vector, the last one with a mask."""
    build, n, lanes = loops[0].builder, loops[0].code.n, loops[0].lanes
    end = build.and_(n, ir.Constant(I64, -lanes))
    with _cgutils.for_range_slice(build, begin, end, ir.Constant(I64, lanes), I64) as (at, _):
        for loop in loops:
            loop.take(0, at, None)
    with build.if_then(build.icmp_signed("<", end, n)):
        for loop in loops:
            loop.take(1, end, build.sub(n, end))


class _Loop:
    """What is done along a row in one loop, which _build_loop builds, for all of its steps."""

    def __init__(self, code: _Code, steps: list[Step]) -> None:
        self.code, self.steps = code, steps
        self.builder, self.many = code.builder, code.many
        self.reduces = [step for step in steps if isinstance(step, Reduce)]
        many, self.lanes = code.many, code.lanes
        self.wide = ir.VectorType(WIDE, self.lanes)
        starts = {
            "sum": many.constant(0.0),
            "top": many.constant(-math.inf),
            "nan": many.whole(0),
        }
        words = {word for step in steps for word in _words(step.text)}  # type: ignore[union-attr]
        for name in sorted(words):
            is_row = code.kinds.get(name) in ("rows", "columns")
            if name in code.names and not is_row and name not in {s.name for s in self.reduces}:
                code.spread(name)
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
                _cgutils.alloca_once(self.builder, starts[step.how].type) for _ in range(VECTORS)
            ]
            for cell in cells:
                self.builder.store(starts[step.how], cell)
            self.sums[step.name] = cells
            if step.how == "sum" and code.size == 4:
                wide = _cgutils.alloca_once(self.builder, self.wide)
                self.builder.store(ir.Constant(self.wide, [0.0] * self.lanes), wide)
                self.wides[step.name] = wide

    def take(self, i: int, at: Any, left: Any) -> None:
        """Build all steps for one vector, of which only the first `left` lanes count if given."""
        code, build = self.code, self.builder
        mask = None if left is None else self.many.first(left)
        found: dict[str, Any] = {}

        def find(name: str) -> Any:
            if name not in found:
                if code.kinds.get(name) in ("rows", "columns"):
                    found[name] = self.many.load(self._address(name, at), mask)
                    if code.ahead is not None and mask is None and name in self.fresh:
                        self.many.prefetch(self._address(name, at), code.ahead)
                else:
                    found[name] = code.spread(name)
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
                self.many.store(build.fadd(so_far, value, flags=CONTRACT), address, mask)
            elif isinstance(step, Reduce):
                cell = self.sums[step.name][i]
                self.builder.store(self._joined(step, build.load(cell), value, mask), cell)

    def _joined(self, step: Reduce, so_far: Any, value: Any, mask: Any) -> Any:
        build = self.builder
        if step.how == "sum":
            total = build.fadd(so_far, value, flags=CONTRACT)
        elif step.how == "top":
            # Where value is NaN, what was there stays.
            total = self.many.greater(value, so_far)
        else:
            # NaN has greater bits than inf; a mask for each vector would take longer.
            total = self._larger(self.many.magnitude(value), so_far)
        return total if mask is None else build.select(mask, total, so_far)

    def _larger(self, a: Any, b: Any) -> Any:
        """Return the larger one of whole numbers."""
        return self.builder.select(self.builder.icmp_signed(">", a, b), a, b)

    def fold(self) -> None:
        """Add the accumulators of sums to their totals, and begin anew."""
        build = self.builder
        for name, wide in self.wides.items():
            a, b, c, d = (build.load(cell) for cell in self.sums[name])
            part = build.fadd(build.fadd(a, b), build.fadd(c, d))
            build.store(build.fadd(build.load(wide), build.fpext(part, self.wide)), wide)
            for cell in self.sums[name]:
                build.store(self.many.constant(0.0), cell)

    def end(self) -> None:
        """Keep the numbers that the steps reduce to."""
        self.fold()
        for step in self.reduces:
            self.code.keep(step.name, self._total(step))

    def _total(self, step: Reduce) -> Any:
        """Return the number of a reduction from its accumulators, halves upon halves."""
        build = self.builder
        join = {
            "sum": build.fadd,
            "top": self.many.greater,
            "nan": self._larger,
        }[step.how]
        if step.name in self.wides:
            value = build.load(self.wides[step.name])
        else:
            a, b, c, d = (build.load(cell) for cell in self.sums[step.name])
            value = join(join(a, b), join(c, d))
        value = halved(build, value, join)
        if step.how == "nan":
            is_nan = build.icmp_signed(">", value, self.many.infinite_bits)
            return build.uitofp(is_nan, WIDE)
        is_narrow = step.how == "top" and self.code.size == 4
        return build.fpext(value, WIDE) if is_narrow else value

    def _address(self, name: str, at: Any) -> Any:
        return self.builder.add(
            self.code.places[name], self.builder.mul(at, ir.Constant(I64, self.code.size))
        )


def halved(build: Any, value: Any, join: Callable[..., Any]) -> Any:
    """Return what join makes of all lanes of a vector, halves upon halves."""
    n = value.type.count
    while n > 1:
        n //= 2
        lower = ir.Constant(ir.VectorType(I32, n), list(range(n)))
        upper = ir.Constant(ir.VectorType(I32, n), list(range(n, 2 * n)))
        value = join(*[build.shuffle_vector(value, value, half) for half in (lower, upper)])
    return build.extract_element(value, ir.Constant(I32, 0))
