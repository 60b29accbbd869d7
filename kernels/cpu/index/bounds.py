"""Bounds checks in compiled loops: a loop checks each index where it uses it."""

# Note [Indices that change]
# An index that was checked before a loop may change before the loop reads it: through a NumPy view,
# `.data`, or another thread. So a loop only trusts the value in its register: it loads the index
# once, compares that value, and uses that value. One unsigned comparison also finds negative
# values. A loop that reads an index out of bounds stops and returns it; otherwise it returns
# INSIDE. That value, 0, is out of bounds for an axis of length 0, so callers check for that case.
# Loops that check several things also return which check failed. A loop loads four indices and
# compares them before it uses them, if that is faster: see Note [Four indices at a time] in
# scatter_loops.py.
# NumPy's own loops (x[index], ufunc.at, repeat, bincount) check all indices first and read them
# again afterwards, so they get a private copy of memory that a user can reach. NumPy's loops are
# used for few elements, and for layouts and dtypes without a compiled loop.

from __future__ import annotations

from typing import Any

import numpy as np

from ..jit.compiler import compiled
from .indices import INSIDE


@compiled(inline=True)
def outside(place: Any) -> Any:
    """Return the refused index, which was converted to unsigned, as the result of a loop."""
    return np.int64(place)


@compiled(alone=False)
def copy_inside(numbers: Any, end: Any, own: Any) -> Any:
    """Copy numbers to own; return the first that is not in [0, end), or INSIDE."""
    for k in range(len(numbers)):
        number = np.uint64(numbers[k])
        if number >= np.uint64(end):
            return outside(number)
        own[k] = number
    return INSIDE
