"""The check of an index in compiled loops: a loop checks each index where it uses it."""

# Note [Indices that change]
# An index that was checked before a loop may change before the loop reads it: through a NumPy view,
# `.data`, or another thread. So a loop trusts only the number in its own register: it loads the
# index once, compares that number, and uses that number. One unsigned comparison finds negative
# numbers too. A loop that meets an index outside of an axis stops and returns it; otherwise it
# returns INSIDE, which an axis without elements does not have either: the caller of a loop checks
# that. Loops that check several things also return the kind of the wrong number. A loop loads four
# indices and compares them before it uses them, where that pays: see Note [Four indices at a time]
# in scatter_loops.py.
# NumPy's own loops (x[index], ufunc.at, repeat, bincount) check all indices first and read them
# again afterwards, so they get a private copy of what a user can reach. They serve few elements,
# and memory that no compiled loop is for.

from __future__ import annotations

from typing import Any

import numpy as np

from ..jit.compiler import compiled
from .indices import INSIDE


@compiled(inline=True)
def outside(place: Any) -> Any:
    """Return the index that an unsigned place stands for: the report of a loop that refuses it."""
    return np.int64(place)


@compiled(alone=False)
def copy_inside(numbers: Any, end: Any, own: Any) -> Any:
    """Copy numbers from 0 up to end; return the first that is none of these, or INSIDE."""
    for k in range(len(numbers)):
        number = np.uint64(numbers[k])
        if number >= np.uint64(end):
            return outside(number)
        own[k] = number
    return INSIDE
