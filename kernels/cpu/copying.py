"""Copies that change dtype, order or place, on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from .silence import silent

Array = np.ndarray[Any, Any]


@silent
def cast(x: Array, out: Array) -> None:
    """Write x into out, as C casts its dtype to out's. Same shape."""
    np.copyto(out, x, casting="unsafe")


@silent
def place(x: Array, out: Array, index: Any) -> None:
    """Write x into out[index] and zero everywhere else. index holds integers, slices, None and
    Ellipsis.
    """
    out.fill(0)
    out[index] = x
