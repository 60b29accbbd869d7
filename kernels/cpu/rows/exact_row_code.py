"""Code along rows that gives the same bits as NumPy, for small arrays.

Each operation is rounded separately, sums are added in NumPy's order, and logarithms are computed
by the inner loop of np.log, which is called by its address. So results do not depend on whether
numpy_twins.py or the compiled loop has served a call.
"""

# Note [NumPy's order of additions]
# For up to 128 numbers of a row, np.add.reduce makes eight partial sums, adds these in pairs, and
# then adds the remainder, of less than eight numbers, one by one. It splits longer rows into
# halves, at a multiple of eight. The parts that are not split are the leaves. A kernel gets a table
# with the number of leaves, and two numbers for each leaf: its length, and how many times the last
# two sums are added to each other after this leaf.

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils

from fastdist.language.scalar import Name, parse, walk

from .along_row_code import ALONG, RowCode
from .code_loops import as_written
from .row_numbers import I32, I64, WIDE, Numbers, evaluate
from .row_steps import Log, Reduce, Scan, Step, Total

_cgutils: Any = cgutils  # untyped
_EIGHT: Final = 8
# The largest number of pending sums: no row is split more often than this.
_DEPTH: Final = 16
# The table has the address of the logarithm's loop, the data of this loop, the number of leaves (at
# index LEAVES), and the leaves.
LEAVES: Final = 2
Find = Callable[[str], Any]


class ExactRowCode(RowCode):
    """The code for one row, using only operations that NumPy performs as well."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        # The totals over all rows so far.
        self._all: dict[str, Any] = {}

    def build_loops(self, codes: Sequence[RowCode], steps: list[Step]) -> None:
        """Build the loops over a row: first maps and extremes, then sums."""
        if isinstance(steps[0], Scan):
            _build_scans(codes, steps[0])
            return
        sums = [step for step in steps if isinstance(step, Reduce) and step.how == "sum"]
        others = [step for step in steps if step not in sums]
        if others:
            super().build_loops(codes, others)
        for step in others:
            if isinstance(step, Reduce) and step.how == "top":
                # Adding 0.0 turns -0.0 into 0.0. Which of the two zeros is found as the maximum
                # depends on the order of the comparisons.
                top = self.builder.fadd(self.number(step.name), ir.Constant(WIDE, 0.0))
                self.keep(step.name, top)
                self.forget_spread(step.name)
        if sums:
            self._build_sums(sums, self.element)

    def build_again(self, steps: list[Step]) -> None:
        """Build sums over the row in float64, for the steps of an If."""
        sums = [step for step in steps if isinstance(step, Reduce)]
        self._build_sums(sums, WIDE, again=True)

    def take(self, steps: list[Step]) -> None:
        """Build a group of steps that is not a loop over the row."""
        if isinstance(steps[0], Log):
            self.build_logs(steps, self.places, ir.Constant(I64, 1), self._at)
            for step in steps:
                assert isinstance(step, Log)
                self._numbers.pop(step.name, None)
            return
        super().take([step for step in steps if not isinstance(step, Total)])
        for step in steps:
            if isinstance(step, Total):
                self._add_to_all(step)

    def _add_to_all(self, step: Total) -> None:
        build = self.builder
        if step.to not in self._all:
            self._all[step.to] = _cgutils.alloca_once(build, WIDE)
            with build.goto_entry_block():
                build.store(ir.Constant(WIDE, 0.0), self._all[step.to])
        cell = self._all[step.to]
        total = build.fadd(build.load(cell), self.number(step.of))
        build.store(total, cell)
        scaled = build.fmul(total, self.number("a"))
        self._store(scaled, self.places[step.to], self.element)

    def build_logs(
        self, steps: Sequence[Step], places: dict[str, Any], count: Any, first: Any = None
    ) -> None:
        """Build calls of NumPy's logarithm for scalars of count rows of the block, from
        `first` on.
        """
        build, byte = self.builder, ir.IntType(8).as_pointer()
        first = ir.Constant(I64, 0) if first is None else first
        kind = ir.FunctionType(ir.VoidType(), [byte, byte, byte, byte])
        function = build.inttoptr(self._word(places, 0), kind.as_pointer())
        words = _cgutils.alloca_once(build, ir.ArrayType(I64, 5))
        zero = ir.Constant(I64, 0)
        for step in steps:
            assert isinstance(step, Log)
            given = [
                build.ptrtoint(build.gep(self._of_rows[name], [zero, first]), I64)
                for name in (step.of, step.name)
            ]
            # The arguments of an inner loop: the addresses of input and output, the count, the
            # strides.
            eight = ir.Constant(I64, 8)
            for i, word in enumerate([*given, count, eight, eight]):
                build.store(word, build.gep(words, [zero, ir.Constant(I64, i)]))
            parts = [
                build.bitcast(build.gep(words, [zero, ir.Constant(I64, i)]), byte)
                for i in (0, 2, 3)
            ]
            build.call(function, [*parts, build.inttoptr(self._word(places, 1), byte)])

    def _word(self, places: dict[str, Any], at: Any) -> Any:
        build = self.builder
        at = ir.Constant(I64, at) if isinstance(at, int) else at
        table = build.inttoptr(places["table"], I64.as_pointer())
        return build.load(build.gep(table, [at]))

    def _build_sums(self, steps: Sequence[Reduce], element: Any, *, again: bool = False) -> None:
        """Build the sum of each step's expression along the row, in the type `element`. `again`
        marks the sums inside an If.
        """
        build, zero, one = self.builder, ir.Constant(I64, 0), ir.Constant(I64, 1)
        sums = _Sums(self, steps, element, again=again)
        stacks = [_cgutils.alloca_once(build, ir.ArrayType(element, _DEPTH)) for _ in steps]
        depth, begin = (_cgutils.alloca_once(build, I64) for _ in range(2))
        for cell in (depth, begin):
            build.store(zero, cell)

        def top(stack: Any, below: int) -> Any:
            at = build.sub(build.load(depth), ir.Constant(I64, below))
            return build.gep(stack, [zero, at])

        with as_written(build, zero, self._word(self.places, LEAVES), one) as i:
            at = build.add(build.mul(i, ir.Constant(I64, 2)), ir.Constant(I64, LEAVES + 1))
            length, joins = (
                self._word(self.places, build.add(at, ir.Constant(I64, k))) for k in (0, 1)
            )
            for stack, total in zip(stacks, sums.of(build.load(begin), length), strict=True):
                build.store(total, top(stack, 0))
            build.store(build.add(build.load(depth), one), depth)
            with as_written(build, zero, joins, one):
                for stack in stacks:
                    joined = build.fadd(build.load(top(stack, 2)), build.load(top(stack, 1)))
                    build.store(joined, top(stack, 2))
                build.store(build.sub(build.load(depth), one), depth)
            build.store(build.add(build.load(begin), length), begin)
        for step, stack in zip(steps, stacks, strict=True):
            # Add 0.0, because the NumPy version passes initial=0.0 to np.add.reduce.
            total = build.load(build.gep(stack, [zero, zero]))
            total = build.fadd(total, ir.Constant(element, 0.0))
            self.keep(step.name, total if element == WIDE else build.fpext(total, WIDE))


def _build_scans(codes: Sequence[RowCode], step: Scan) -> None:
    """Build cumulative sums along a row of each of `codes`, in one loop: an addition waits for the
    previous addition of the same row, but not for additions of other rows.
    """
    code = codes[0]
    build, one, size = code.builder, ir.Constant(I64, 1), ir.Constant(I64, code.size)
    totals = [_cgutils.alloca_once(build, WIDE) for _ in codes]
    for total in totals:
        build.store(ir.Constant(WIDE, -0.0), total)
    with as_written(build, ir.Constant(I64, 0), code.n, one) as i:
        at = build.sub(build.sub(code.n, one), i) if step.backwards else i
        behind = build.mul(at, size)
        for row, total in zip(codes, totals, strict=True):
            value = row._load(build.add(row.places[step.of], behind), row.element)
            value = build.fadd(build.load(total), value)
            build.store(value, total)
            row._store(value, build.add(row.places[step.to], behind), row.element)


class _Sums:
    """Builds the sums of the steps' expressions over at most 128 elements of a row."""

    def __init__(
        self, code: RowCode, steps: Sequence[Reduce], element: Any, *, again: bool
    ) -> None:
        self.code, self.steps, self.element, self.again = code, steps, element, again
        self.build = code.builder
        self.eight = Numbers(self.build, element, _EIGHT, is_exact=True)
        self.one = Numbers(self.build, element, 0, is_exact=True)
        self.own = [Numbers(self.build, code.element, k, is_exact=True) for k in (_EIGHT, 0)]
        self.cells = [_cgutils.alloca_once(self.build, self.eight.type) for _ in steps]
        self.totals = [_cgutils.alloca_once(self.build, element) for _ in steps]
        # Load the row's scalars before the loop, because a value that is loaded inside the loop
        # cannot be used after it.
        trees = [parse(step.text, code.names).tree for step in steps]
        names = {piece.id for tree in trees for piece in walk(tree) if isinstance(piece, Name)}
        for name in sorted(names):
            if code.kinds.get(name) not in ALONG:
                code.number(name)

    def of(self, begin: Any, length: Any) -> list[Any]:
        """Return the sums of `length` elements from begin on."""
        build = self.build
        whole = build.and_(length, ir.Constant(I64, -_EIGHT))
        eight, one, zero = (ir.Constant(I64, k) for k in (_EIGHT, 1, 0))
        for total in self.totals:
            build.store(ir.Constant(self.element, 0.0), total)
        with build.if_then(build.icmp_signed(">", whole, zero)):
            for cell, value in zip(self.cells, self._values(begin, self.eight), strict=True):
                build.store(value, cell)
            with as_written(build, eight, whole, eight) as at:
                values = self._values(build.add(begin, at), self.eight)
                for cell, value in zip(self.cells, values, strict=True):
                    build.store(build.fadd(build.load(cell), value), cell)
            for cell, total in zip(self.cells, self.totals, strict=True):
                build.store(self._joined(build.load(cell)), total)
        with as_written(build, whole, length, one) as at:
            values = self._values(build.add(begin, at), self.one)
            for total, value in zip(self.totals, values, strict=True):
                build.store(build.fadd(build.load(total), value), total)
        return [build.load(total) for total in self.totals]

    def _values(self, at: Any, on: Numbers) -> list[Any]:
        """Return the value of each step's expression for the vector of elements that begins at
        `at`.
        """
        code, build = self.code, self.build
        found: dict[str, Any] = {}
        own = self.own[0] if on.lanes else self.own[1]

        def find(name: str) -> Any:
            if name not in found:
                if code.kinds.get(name) in ALONG:
                    place = build.mul(at, ir.Constant(I64, code.size))
                    address = build.add(code.places[name], place)
                    found[name] = self._widened(self._load(own, address), own, on)
                else:
                    value = code.number(name)
                    value = value if on.element == WIDE else build.fptrunc(value, on.element)
                    found[name] = on.splat(value) if on.lanes else value
            return found[name]

        has_top = not self.again
        return [evaluate(on, step.text, find, code.names, has_top=has_top) for step in self.steps]

    def _load(self, own: Numbers, address: Any) -> Any:
        pointer = self.build.inttoptr(address, own.type.as_pointer())
        return self.build.load(pointer, align=1)

    def _widened(self, value: Any, own: Numbers, on: Numbers) -> Any:
        return value if own.element == on.element else self.build.fpext(value, on.type)

    def _joined(self, value: Any) -> Any:
        """Return the sum of eight lanes, adjacent lanes first."""
        build, n = self.build, _EIGHT
        while n > 1:
            n //= 2
            kind = ir.VectorType(I32, n)
            even, odd = (
                build.shuffle_vector(value, value, ir.Constant(kind, list(range(first, 2 * n, 2))))
                for first in (0, 1)
            )
            value = build.fadd(even, odd)
        return build.extract_element(value, ir.Constant(I32, 0))
