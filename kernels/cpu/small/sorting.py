"""Sorting small arrays along rows, with few NumPy calls."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from .call_facts import LIMIT, CallFacts, Run, row_starts, small

Array = np.ndarray[Any, Any]
# For longer rows, NumPy selects a few numbers faster than it sorts all.
_SORTED: Final = 128


def _rows(facts: CallFacts) -> tuple[int, int] | None:
    """Return the number and the length of rows along the last axis."""
    shape, axis, dtype = facts.shapes[0], facts.numbers[0], facts.dtypes[0]
    if not shape or axis != len(shape) - 1 or not facts.contiguous[0] or dtype.kind not in "fiu":
        return None
    return (math.prod(shape[:-1]), shape[-1]) if 0 < math.prod(shape) <= LIMIT else None


def _in_order(facts: CallFacts, count: int, largest: bool) -> Run | None:
    """Return the function that returns the first `count` numbers of each sorted row, and their
    indices. Sorting is stable, and NaN counts as the largest.
    """
    rows = _rows(facts)
    if rows is None:
        return None
    seen, (number, n), final = rows, rows, facts.shape
    # As large as the result, because a broadcast takes 0.3 us more.
    starts = row_starts(number, n).repeat(count).reshape(number, count)
    lasts, add, subtract = np.full_like(starts, n - 1), np.add, np.subtract
    from_end = slice(None, -count - 1 if count < n else None, -1)

    def order(x: Array) -> tuple[Array, Array]:
        x = x.reshape(seen)
        if largest:
            # Sorting the reversed rows, and reversing the result, keeps the order of equal numbers.
            places = subtract(lasts, x[:, ::-1].argsort(1, "stable")[:, from_end])
        else:
            places = x.argsort(1, "stable")
            if count < n:
                places = places[:, :count].copy()
        return x.ravel()[add(places, starts).ravel()].reshape(final), places.reshape(final)

    return order


@small("reduce.sorting.sort")
def _sort(facts: CallFacts) -> Run | None:
    shape, (_, descending) = facts.shapes[0], facts.numbers
    return _in_order(facts, shape[-1], descending) if shape else None


@small("reduce.sorting.topk")
def _topk(facts: CallFacts) -> Run | None:
    shape, (_, k, largest) = facts.shapes[0], facts.numbers
    if not shape or not k or (shape[-1] > _SORTED and k * 8 <= shape[-1]):
        return None
    return _in_order(facts, k, largest)


@small("reduce.sorting.nth")
def _nth(facts: CallFacts) -> Run | None:
    found = _rows(facts)
    if found is None:
        return None
    rows, final, add = found, facts.shape, np.add
    starts = row_starts(*rows)

    def nth(x: Array, places: Array) -> tuple[Array, Array]:
        x = x.reshape(rows)
        where = x.argsort(1, "stable").ravel()[add(starts, places.ravel())]
        return x.ravel()[add(starts, where)].reshape(final), where.reshape(final)

    return nth
