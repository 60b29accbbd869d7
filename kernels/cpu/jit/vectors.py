"""Builders of LLVM vector code in intrinsics, for short loops that LLVM does not vectorize itself.

A vector that is longer than the machine's registers uses several of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from llvmlite import ir  # type: ignore[import-untyped]

INT32: Final = ir.IntType(32)
INT64: Final = ir.IntType(64)


def loop(builder: Any, count: Any, values: list[Any], turn: Callable[..., list[Any]]) -> list[Any]:
    """Build a loop of `count` iterations (at least one), and return the values after the last one.
    turn(i, values) builds one iteration and returns the new values, which LLVM keeps in registers
    if they fit.
    """
    before = builder.block
    body, done = [builder.append_basic_block(name) for name in ("turn", "done")]
    builder.branch(body)
    builder.position_at_end(body)
    i, phis = builder.phi(INT64), [builder.phi(value.type) for value in values]
    after = turn(i, phis)
    following = builder.add(i, ir.Constant(INT64, 1))
    pairs = [(ir.Constant(INT64, 0), following), *zip(values, after, strict=True)]
    for phi, (first, new) in zip([i, *phis], pairs, strict=True):
        phi.add_incoming(first, before)
        phi.add_incoming(new, builder.block)
    builder.cbranch(builder.icmp_signed("<", following, count), body, done)
    builder.position_at_end(done)
    return after


class Vectors:
    """Builds operations on vectors of `lanes` numbers of the type `element`. Addresses are i64."""

    def __init__(self, builder: Any, element: Any, lanes: int) -> None:
        self._builder, self._element, self._lanes = builder, element, lanes
        self.type = ir.VectorType(element, lanes)

    def constant(self, numbers: Any) -> Any:
        """Return a constant vector of these numbers."""
        return ir.Constant(self.type, list(numbers))

    def splat(self, value: Any) -> Any:
        """Return a vector with value in all lanes."""
        one = self._builder.insert_element(ir.Constant(self.type, ir.Undefined), value, _at(0))
        return self._builder.shuffle_vector(one, one, self._mask([0] * self._lanes))

    def load(self, address: Any, stride: Any = 1) -> Any:
        """Load one element for each lane, the first at `address`, `stride` elements apart. Memory
        beyond the last element is not read.
        """
        kind, lanes = self.type.as_pointer(), self._lanes
        if not isinstance(stride, int):
            return self._load_apart(address, stride)
        first = self._builder.load(self._builder.inttoptr(address, kind), align=1)
        if stride == 1:
            return first
        if stride != 2:
            raise ValueError(f"constant strides are 1 or 2, not {stride}")
        behind = self.moved(address, lanes - 1)
        second = self._builder.load(self._builder.inttoptr(behind, kind), align=1)
        where = [2 * i if 2 * i < lanes else 2 * i + 1 for i in range(lanes)]
        return self._builder.shuffle_vector(first, second, self._mask(where))

    def _load_apart(self, address: Any, stride: Any) -> Any:
        made = ir.Constant(self.type, ir.Undefined)
        for i in range(self._lanes):
            made = self._builder.insert_element(made, self.number(address), _at(i))
            address = self.behind(address, stride)
        return made

    def load_some(self, address: Any, count: Any) -> Any:
        """Load the first `count` elements at `address`, and no others; the other lanes are 0."""
        kind = ir.FunctionType(self.type, [self._pointer, INT32, self._bits, self.type])
        load = self._masked("load", kind)
        zeros = self.constant([0] * self._lanes)
        place = self._builder.inttoptr(address, self._pointer)
        return self._builder.call(load, [place, _at(1), self._are_before(count), zeros])

    def store_some(self, value: Any, address: Any, count: Any) -> None:
        """Store the first `count` lanes at `address`, or all lanes if there are fewer."""
        kind = ir.FunctionType(ir.VoidType(), [self.type, self._pointer, INT32, self._bits])
        place = self._builder.inttoptr(address, self._pointer)
        self._builder.call(
            self._masked("store", kind), [value, place, _at(1), self._are_before(count)]
        )

    def first_of(self, value: Any, count: Any) -> Any:
        """Return the first `count` lanes of value, followed by zeros."""
        zeros = self.constant([0] * self._lanes)
        return self._builder.select(self._are_before(count), value, zeros)

    def total(self, value: Any) -> Any:
        """Return the sum of all lanes: repeatedly add the upper half of the lanes to the lower."""
        n = self._lanes
        while n > 1:
            n //= 2
            upper = [n + i if i < n else i for i in range(self._lanes)]
            other = self._builder.shuffle_vector(value, value, self._mask(upper))
            value = self._builder.fadd(value, other)
        return self._builder.extract_element(value, _at(0))

    def _are_before(self, count: Any) -> Any:
        places = Vectors(self._builder, INT64, self._lanes)
        return self._builder.icmp_signed(
            "<", places.constant(range(self._lanes)), places.splat(count)
        )

    @property
    def _pointer(self) -> Any:
        # The type of a pointer to a vector is needed, because before LLVM 17 pointers have element
        # types.
        return self.type.as_pointer()

    @property
    def _bits(self) -> Any:
        return ir.VectorType(ir.IntType(1), self._lanes)

    def _masked(self, what: str, kind: Any) -> Any:
        name = f"llvm.masked.{what}.v{self._lanes}f{self._size * 8}.p0"
        module = self._builder.module
        found = module.globals.get(name)
        return ir.Function(module, kind, name) if found is None else found

    def number(self, address: Any) -> Any:
        """Load the element at address."""
        pointer = self._builder.inttoptr(address, self._element.as_pointer())
        return self._builder.load(pointer, align=1)

    def store(self, value: Any, address: Any) -> None:
        """Store a vector at address."""
        pointer = self._builder.inttoptr(address, self._pointer)
        self._builder.store(value, pointer, align=1)

    def fma(self, a: Any, b: Any, c: Any) -> Any:
        """Return a * b + c, rounded once if the machine has FMA."""
        product = self._builder.fmul(a, b, flags=("contract",))
        return self._builder.fadd(product, c, flags=("contract",))

    def shuffled(self, a: Any, b: Any) -> tuple[Any, Any]:
        """Interleave the lanes of two vectors. Return one vector with the lanes of the lower halves
        and one with the lanes of the upper halves.
        """
        n = self._lanes
        turns = [i + of for i in range(n) for of in (0, n)]
        masks = turns[:n], turns[n:]
        low, high = [self._builder.shuffle_vector(a, b, self._mask(one)) for one in masks]
        return low, high

    def moved(self, address: Any, elements: int) -> Any:
        """Return the address plus a constant number of elements."""
        return self._builder.add(address, ir.Constant(INT64, elements * self._size))

    def behind(self, address: Any, elements: Any) -> Any:
        """Return the address plus a number of elements, which is an i64 value."""
        return self._builder.add(
            address, self._builder.mul(elements, ir.Constant(INT64, self._size))
        )

    @property
    def _size(self) -> int:
        return {ir.FloatType: 4, ir.DoubleType: 8}.get(type(self._element)) or (
            self._element.width // 8
        )

    def _mask(self, places: list[int]) -> Any:
        return ir.Constant(ir.VectorType(INT32, self._lanes), places)


def _at(place: int) -> Any:
    return ir.Constant(INT32, place)
