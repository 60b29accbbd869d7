"""Running sums and products, on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from .silence import silent

Array = np.ndarray[Any, Any]


def cumsum(x: Array, out: Array, axis: int) -> None:
    """Write the sums of x[..., :k + 1, ...] along axis into out; float16 adds in float32."""
    _accumulate(np.add, x, out, axis)


def cumprod(x: Array, out: Array, axis: int) -> None:
    """Write the products of x[..., :k + 1, ...] along axis into out; float16 computes in
    float32.
    """
    _accumulate(np.multiply, x, out, axis)


@silent
def _accumulate(ufunc: np.ufunc, x: Array, out: Array, axis: int) -> None:
    if x.ndim == 0:
        np.copyto(out, x)
    elif x.dtype == np.float16:
        np.copyto(out, ufunc.accumulate(x, axis, dtype=np.float32), casting="unsafe")
    else:
        ufunc.accumulate(x, axis, dtype=out.dtype, out=out)
