"""Free ranges of an arena; the lowest is used first, so that recently used pages are reused."""

from __future__ import annotations

from bisect import bisect_left, bisect_right


class Ranges:
    """Free ranges, sorted by start; adjacent ranges are merged.

    Thread  one at a time
    """

    def __init__(self, start: int, end: int) -> None:
        self._starts = [start]
        self._ends = [end]

    def take(self, length: int) -> int | None:
        """Take `length` bytes from the lowest free range that fits; return their start, or None."""
        for i, start in enumerate(self._starts):
            if self._ends[i] - start >= length:
                self._cut(i, start, start + length)
                return start
        return None

    def take_exactly(self, start: int, end: int) -> bool:
        """Take this range; return False if any part of it is not free."""
        i = bisect_right(self._starts, start) - 1
        if i < 0 or end > self._ends[i]:
            return False
        self._cut(i, start, end)
        return True

    def give_back(self, start: int, end: int) -> None:
        """Free a range that was taken."""
        i = bisect_left(self._starts, start)
        joins_before = i > 0 and self._ends[i - 1] == start
        joins_after = i < len(self._starts) and self._starts[i] == end
        if joins_before and joins_after:
            self._ends[i - 1] = self._ends.pop(i)
            del self._starts[i]
        elif joins_before:
            self._ends[i - 1] = end
        elif joins_after:
            self._starts[i] = start
        else:
            self._starts.insert(i, start)
            self._ends.insert(i, end)

    def all(self) -> list[tuple[int, int]]:
        """Return all free ranges."""
        return list(zip(self._starts, self._ends, strict=True))

    def _cut(self, i: int, start: int, end: int) -> None:
        low, high = self._starts[i], self._ends[i]
        if low == start and high == end:
            del self._starts[i], self._ends[i]
        elif low == start:
            self._starts[i] = end
        elif high == end:
            self._ends[i] = start
        else:
            self._ends[i] = start
            self._starts.insert(i + 1, end)
            self._ends.insert(i + 1, high)
