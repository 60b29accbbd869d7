"""Evenly spaced numbers between two ends, for `linspace` and `logspace` on every device."""

from __future__ import annotations

from typing import Any

import numpy as np

from .overflow_checks import count_up


def evenly_spaced(start: Any, end: Any, steps: int) -> np.ndarray[Any, Any]:
    """Return `steps` evenly spaced numbers from start to end, two NumPy scalars of the same dtype.

    Each half is computed from its own end, so the two halves are exact mirror images.

    Dtype   NumPy's floating types -> the same; integers and bfloat16 -> float64
    """
    start, end, step = ends_and_step(start, end, steps)
    with np.errstate(all="ignore"):
        numbers = count_up(0, steps)
        behind = numbers.astype(start.dtype)
        found: np.ndarray[Any, Any] = np.where(
            numbers < steps // 2, start + step * behind, end - step * behind[::-1]
        )
    return found if steps != 1 else np.full(1, start)


def ends_and_step(start: Any, end: Any, steps: int) -> tuple[Any, Any, Any]:
    """Return start, end and the difference between neighbours, in the dtype of the computation."""
    if start.dtype.kind not in "fc":
        start, end = np.float64(start), np.float64(end)
    gaps = start.dtype.type(max(steps - 1, 1))
    with np.errstate(all="ignore"):
        step = (end - start) / gaps
        if not np.isfinite(step) and np.isfinite(start) and np.isfinite(end):
            step = _step_of_wide(start, end, gaps)
        return start, end, step


def _step_of_wide(start: Any, end: Any, gaps: Any) -> Any:
    """Return the difference between neighbours if end - start overflows the dtype."""
    step = end / gaps - start / gaps
    if step.dtype.kind == "c" or np.isfinite(step):
        return step
    # This overflows only if there is one gap. The step is then not used: both numbers are ends.
    return np.copysign(np.finfo(step.dtype).max, step)
