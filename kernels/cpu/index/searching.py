"""searchsorted and nonzero on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..silence import silent

Array = np.ndarray[Any, Any]


@silent
def _place(x: Array, row: Array, right: bool) -> Any:
    if not row.size or row[-1] == row[-1]:
        return row.searchsorted(x, "right" if right else "left")
    # With NaN in the row NumPy's search differs from PyTorch's, so bisect here as the CUDA kernel
    # does.
    low, high = np.zeros(x.shape, np.int64), np.full(x.shape, row.size)
    for _ in range(row.size.bit_length()):
        middle = low + (high - low) // 2
        met = row[middle.clip(max=row.size - 1)]
        behind = (low < high) & ~((met > x) if right else (met >= x))
        low, high = np.where(behind, middle + 1, low), np.where(behind, high, middle)
    return low


@silent
def sorted_places(x: Array, rows: Array, out: Array, right: bool) -> None:
    """Write into out the position at which each element of x would be inserted in its sorted row:
    before equal numbers, or after them if `right`.

    x and out: (..., m), rows: (..., n), or (n,): one row for all of x. NaN sorts after all numbers.
    """
    if rows.ndim == 1:
        out[...] = _place(x, rows, right)
        return
    for row in np.ndindex(rows.shape[:-1]):
        out[row] = _place(x[row], rows[row], right)


@silent
def hits(x: Array, upto: Array, out: Array) -> None:
    """Write the positions at which x is true into out, in order. `upto` is the running count of
    true elements.

    x and upto: (n,), bool and int64; out has one element for each true element of x.
    """
    out[...] = x.nonzero()[0]
