"""Boxes: parts of a tensor by where they begin and how long they are along each axis."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

Numbers = tuple[int, ...]


class Box(NamedTuple):
    """The elements from offsets on, so many along each axis."""

    offsets: Numbers
    sizes: Numbers

    @property
    def numel(self) -> int:
        """How many elements lie in it."""
        return prod(self.sizes)

    def overlap(self, other: Box) -> Box | None:
        """Return the overlap of both, None where there is none."""
        starts = tuple(map(max, self.offsets, other.offsets))
        ends = map(min, self._ends(), other._ends())
        sizes = tuple(end - start for start, end in zip(starts, ends))
        return Box(starts, sizes) if all(size > 0 for size in sizes) else None

    def _ends(self) -> list[int]:
        return [start + size for start, size in zip(self.offsets, self.sizes)]

    def lies_in(self, size: Numbers) -> bool:
        """Return whether a tensor of this size has all of it."""
        return (
            len(self.offsets) == len(self.sizes) == len(size)
            and all(number >= 0 for number in (*self.offsets, *self.sizes))
            and all(end <= length for end, length in zip(self._ends(), size))
        )

    def within(self, outer: Box) -> tuple[slice, ...]:
        """Return the index of this box in an array that holds the outer one."""
        return tuple(
            slice(start - first, start - first + size)
            for start, size, first in zip(self.offsets, self.sizes, outer.offsets)
        )


def whole(size: Numbers) -> Box:
    """Return the box of all of a tensor."""
    return Box((0,) * len(size), tuple(size))
