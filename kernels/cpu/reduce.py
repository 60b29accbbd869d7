"""Reductions over axes, on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from .silence import silent

Array = np.ndarray[Any, Any]
Axes = tuple[int, ...]


@silent
def sum(x: Array, out: Array, axes: Axes) -> None:
    """Write the sums of x over axes into out, whose shape is x's without them.

    Adds in out's dtype, pairwise along contiguous axes (NumPy's order, the same for any number of
    threads). float16 adds in float32.
    """
    if x.dtype == np.float16:
        # copyto with C's cast: a sum beyond float16 is inf, as it is everywhere else.
        np.copyto(out, np.add.reduce(x, axis=axes, dtype=np.float32), casting="unsafe")
        return
    np.add.reduce(x, axis=axes, dtype=out.dtype, out=out)
