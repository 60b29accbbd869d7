"""Boxes: rectangular parts of a tensor, each with an offset and a size along each axis."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

Numbers = tuple[int, ...]


class Box(NamedTuple):
    """A part of a tensor: the index of its first element, and its number of elements per axis."""

    offsets: Numbers
    sizes: Numbers

    @property
    def numel(self) -> int:
        """The number of elements in the box."""
        return prod(self.sizes)

    def overlap(self, other: Box) -> Box | None:
        """Return the overlap of two boxes; None if they do not overlap."""
        starts = tuple(map(max, self.offsets, other.offsets))
        ends = map(min, self._ends(), other._ends())
        sizes = tuple(end - start for start, end in zip(starts, ends))
        return Box(starts, sizes) if all(size > 0 for size in sizes) else None

    def _ends(self) -> list[int]:
        return [start + size for start, size in zip(self.offsets, self.sizes)]

    def lies_in(self, size: Numbers) -> bool:
        """Return whether the box lies within a tensor of this size."""
        return (
            len(self.offsets) == len(self.sizes) == len(size)
            and all(number >= 0 for number in (*self.offsets, *self.sizes))
            and all(end <= length for end, length in zip(self._ends(), size))
        )

    def within(self, outer: Box) -> tuple[slice, ...]:
        """Return the slices that select this box from an array with the elements of `outer`."""
        return tuple(
            slice(start - first, start - first + size)
            for start, size, first in zip(self.offsets, self.sizes, outer.offsets)
        )


def whole(size: Numbers) -> Box:
    """Return the box of a complete tensor."""
    return Box((0,) * len(size), tuple(size))
