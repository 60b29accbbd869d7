"""Where numbers go in ordered rows, and where a condition holds, on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from .silence import silent

Array = np.ndarray[Any, Any]


@silent
def sorted_places(x: Array, rows: Array, out: Array, right: bool) -> None:
    """Write into out where each of x goes in the ordered rows, before or (right) behind its equals.

    x and out: (..., m), rows: (..., n), or (n,) for all of x. NaN is the largest.
    """
    if rows.ndim == 1:
        out[...] = rows.searchsorted(x, "right" if right else "left")
        return
    for row in np.ndindex(rows.shape[:-1]):
        out[row] = rows[row].searchsorted(x[row], "right" if right else "left")


@silent
def hits(x: Array, upto: Array, out: Array) -> None:
    """Write the places where x holds into out, in order; upto is how often it does up to each.

    x and upto: (n,), bool and int64; out: as many as x holds.
    """
    out[...] = x.nonzero()[0]
