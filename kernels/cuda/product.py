"""Matrix products, on CUDA arrays: cuBLAS."""

from __future__ import annotations

from typing import Any

import numpy as np


def matmul(x: Any, y: Any, out: Any) -> None:
    """Write x @ y into out; batch axes broadcast.

    Shapes (..., n, k), (..., k, m) -> (..., n, m), one dtype, any strides. float16 adds in float32.

    Thread  any; queued on the current stream of out's device
    """
    import cupy

    with out.device:
        if x.dtype == np.float16 and x.ndim == y.ndim == 2 and out.size == 1:
            # One sum alone CuPy makes without cuBLAS, of products that it rounds to float16.
            out[...] = cupy.matmul(x.astype(np.float32), y.astype(np.float32))
        elif out.flags.c_contiguous:
            cupy.matmul(x, y, out=out)
        else:
            out[...] = cupy.matmul(x, y)
