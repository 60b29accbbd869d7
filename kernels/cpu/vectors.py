"""Vectors of LLVM, for intrinsics: what its own vectorizer does not find in short loops.

A vector that is longer than those of the machine becomes several of them.
"""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir  # type: ignore[import-untyped]

INT32: Final = ir.IntType(32)
INT64: Final = ir.IntType(64)


class Vectors:
    """Builds what is done with vectors of so many lanes of an element. Addresses are of i64."""

    def __init__(self, builder: Any, element: Any, lanes: int) -> None:
        self._builder, self._element, self._lanes = builder, element, lanes
        self.type = ir.VectorType(element, lanes)

    def constant(self, numbers: Any) -> Any:
        """Return the vector of numbers."""
        return ir.Constant(self.type, list(numbers))

    def splat(self, value: Any) -> Any:
        """Return the vector whose lanes are all value."""
        one = self._builder.insert_element(ir.Constant(self.type, ir.Undefined), value, _at(0))
        return self._builder.shuffle_vector(one, one, self._mask([0] * self._lanes))

    def load(self, address: Any, stride: int = 1) -> Any:
        """Return what lies so many elements apart from address on, and read nothing behind it."""
        kind = self.type.as_pointer()
        first = self._builder.load(self._builder.inttoptr(address, kind), align=1)
        lanes = self._lanes
        if stride == 1:
            return first
        if stride != 2:
            raise ValueError(f"strides are 1 or 2, not {stride}")
        behind = self.moved(address, lanes - 1)
        second = self._builder.load(self._builder.inttoptr(behind, kind), align=1)
        where = [2 * i if 2 * i < lanes else 2 * i + 1 for i in range(lanes)]
        return self._builder.shuffle_vector(first, second, self._mask(where))

    def number(self, address: Any) -> Any:
        """Return the element at address."""
        pointer = self._builder.inttoptr(address, self._element.as_pointer())
        return self._builder.load(pointer, align=1)

    def store(self, value: Any, address: Any) -> None:
        """Write a vector to address."""
        pointer = self._builder.inttoptr(address, self.type.as_pointer())
        self._builder.store(value, pointer, align=1)

    def fma(self, a: Any, b: Any, c: Any) -> Any:
        """Return a * b + c, rounded once where the machine has that."""
        product = self._builder.fmul(a, b, flags=("contract",))
        return self._builder.fadd(product, c, flags=("contract",))

    def shuffled(self, a: Any, b: Any) -> tuple[Any, Any]:
        """Return the lanes of two vectors in turn, the lower halves' and the upper halves'."""
        n = self._lanes
        turns = [i + of for i in range(n) for of in (0, n)]
        masks = turns[:n], turns[n:]
        low, high = [self._builder.shuffle_vector(a, b, self._mask(one)) for one in masks]
        return low, high

    def moved(self, address: Any, elements: int) -> Any:
        """Return the address so many elements on."""
        return self._builder.add(address, ir.Constant(INT64, elements * self._size))

    def behind(self, address: Any, elements: Any) -> Any:
        """Return the address so many elements on, a number of i64."""
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
