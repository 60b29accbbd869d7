"""Arithmetic sequences (arange, linspace) on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastdist.core.linspace import evenly_spaced

from ..silence import silent

Array = np.ndarray[Any, Any]


@silent
def arange(out: Array, start: float, step: float) -> None:
    """Write start, start + step, ... into out, a vector. They are computed in float64 if out's
    dtype is floating, else in int64.
    """
    kind: Any = np.int64 if out.dtype.kind in "iub" else np.float64
    np.copyto(out, start + np.arange(out.size, dtype=kind) * step, casting="unsafe")


@silent
def evenly(out: Array, start: Any, end: Any) -> None:
    """Write evenly spaced numbers from `start` to `end` into the vector `out`. `start` and `end`
    are NumPy scalars of one dtype.
    """
    np.copyto(out, evenly_spaced(start, end, out.size), casting="unsafe")
