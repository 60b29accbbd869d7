"""Numbers from one to another, equally far apart."""

from __future__ import annotations

from typing import Any

import numpy as np


def evenly_apart(start: Any, end: Any, steps: int) -> np.ndarray[Any, Any]:
    """Return steps numbers from start to end, two NumPy scalars of one dtype, counted from both:
    what is as far from start as another from end is its mirror image, to the last bit.

    Dtype   NumPy's floating -> the same; integers and bfloat16 -> float64
    """
    start, end, step = ends_and_step(start, end, steps)
    with np.errstate(all="ignore"):
        behind = np.arange(steps).astype(start.dtype)
        found: np.ndarray[Any, Any] = np.where(
            np.arange(steps) < steps // 2, start + step * behind, end - step * behind[::-1]
        )
    return found if steps != 1 else np.full(1, start)


def ends_and_step(start: Any, end: Any, steps: int) -> tuple[Any, Any, Any]:
    """Return start, end and how far apart numbers are, in the dtype in which they are counted."""
    if start.dtype.kind not in "fc":
        start, end = np.float64(start), np.float64(end)
    with np.errstate(all="ignore"):
        return start, end, (end - start) / start.dtype.type(max(steps - 1, 1))
