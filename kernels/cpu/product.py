"""Matrix products, on the CPU: NumPy's BLAS."""

from __future__ import annotations

from typing import Any

import numpy as np

from .silence import silent

Array = np.ndarray[Any, Any]


@silent
def matmul(x: Array, y: Array, out: Array) -> None:
    """Write x @ y into out; batch axes broadcast. Shapes (..., n, k), (..., k, m) -> (..., n, m),
    one dtype.

    float16 multiplies and adds in float32 and rounds once.
    """
    if x.dtype == np.float16:
        product = np.matmul(x.astype(np.float32), y.astype(np.float32))
        np.copyto(out, product, casting="unsafe")
        return
    np.matmul(x, y, out=out)


@silent
def linear(x: Array, weight: Array, bias: Array | None, out: Array) -> None:
    """Write x @ weight.T + bias into out. Shapes (n, k), (m, k), (m,) -> (n, m), one dtype."""
    if x.dtype == np.float16:
        product = np.dot(x.astype(np.float32), weight.T.astype(np.float32))
        np.copyto(out, product if bias is None else np.add(product, bias), casting="unsafe")
        return
    np.dot(x, weight.T, out=out)
    if bias is not None:
        np.add(out, bias, out=out)
