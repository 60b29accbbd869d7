"""Matrix products, on CUDA arrays: cuBLAS."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from fastdist.core.dtypes import WIDE
from fastdist.core.scalar import parse

from .biased_product import multiply_and_add
from .pointwise import pointwise
from .prepared import on_device_of_out

_SUM: Final = parse("x + y", ("x", "y"))


def matmul(x: Any, y: Any, out: Any) -> None:
    """Write x @ y into out; batch axes broadcast.

    Shapes (..., n, k), (..., k, m) -> (..., n, m), one dtype, any strides. float16 adds in float32.

    Thread  any; queued on the current stream of out's device
    """
    import cupy

    with out.device:
        if x.dtype in WIDE and x.ndim == y.ndim == 2 and out.size == 1:
            # One sum alone CuPy makes without cuBLAS, of products that it rounds.
            out[...] = cupy.matmul(x.astype(np.float32), y.astype(np.float32))
        elif out.flags.c_contiguous:
            cupy.matmul(x, y, out=out)
        else:
            out[...] = cupy.matmul(x, y)


@on_device_of_out
def linear(x: Any, weight: Any, bias: Any, out: Any) -> None:
    """Write x @ weight.T + bias into out. Shapes (n, k), (m, k), (m,) -> (n, m), one dtype."""
    if bias is not None and multiply_and_add(x, weight, bias, out):
        return
    matmul(x, weight.transpose((1, 0)), out)
    if bias is not None:
        pointwise(_SUM, [out, bias], out)
