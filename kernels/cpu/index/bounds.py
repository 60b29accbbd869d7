"""Bounds checks in compiled loops: a loop checks each index where it uses it."""

# Note [Indices that change]
# An index that was checked before a loop may change before the loop reads it: through a NumPy view,
# `.data`, or another thread. So a loop only trusts the value in its register: it loads the index
# once, compares that value, and uses that value. One unsigned comparison also finds negative
# values. A loop that reads an index out of bounds stops and returns this index; otherwise the loop
# returns INSIDE, which is 0. On an axis of length 0, index 0 is out of bounds as well, so callers
# check for such an axis. A loop with several checks also returns which check failed. If it is
# faster, a loop loads and compares four indices before it uses them: see
# Note [Four indices at a time] in scatter_loops.py.
# NumPy's own loops (x[index], ufunc.at, repeat, bincount) check all indices first and read them
# again afterwards. So if a user can reach the memory of the indices, NumPy's loops get a private
# copy. NumPy's loops are used for few elements, and for layouts and dtypes without a compiled loop.

from __future__ import annotations

from typing import Any

import numpy as np

from ..jit.compiler import compiled
from .indices import INSIDE


@compiled(inline=True)
def outside(place: Any) -> Any:
    """Return an unsigned index that is out of bounds as int64, the result type of a loop."""
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
