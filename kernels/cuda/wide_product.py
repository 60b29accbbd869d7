"""Products of matrices of half types that stay in float32, on CUDA arrays: cuBLAS's own call.

CuPy rounds a product of half types to that type, in which what lies above 65504 is infinite. cuBLAS
adds in float32 either way, and can leave the sums there.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from fastdist.core.dtypes import WIDE

from .launch import address_of
from .layout import element_strides

# cublasOperation_t, cudaDataType_t, cublasComputeType_t and cublasGemmAlgo_t of CUDA's headers.
_AS_IT_IS, _TURNED = 0, 1
_FLOAT32, _FLOAT16, _BFLOAT16 = 0, 2, 14
_COMPUTE_32F: Final = 68
_DEFAULT_ALGORITHM: Final = -1
# Read by the host during the call.
_ZERO: Final = np.zeros(1, np.float32)


class _Operand(NamedTuple):
    """Matrices as cuBLAS is told of them, to whom memory goes down columns.

    Units   `lead` from one column to the next, `step` from one matrix to the next, in elements
    """

    array: Any
    way: int
    lead: int
    step: int


def multiply_wide(x: Any, y: Any, factor: float = 1.0) -> Any:
    """Return x @ y * factor in C order, of half types in float32; of others there is no factor.

    Shape   (n, h, r, k), (n, h, k, c), of one dtype -> (n, h, r, c)

    Thread  any; queued on the current stream of the current device, which is that of x
    """
    import cupy

    if x.dtype not in WIDE:
        assert factor == 1.0, factor
        return cupy.matmul(x, y)
    n, heads, rows, inner = x.shape
    columns = y.shape[3]
    made = cupy.empty((n, heads, rows, columns), np.float32)
    if not inner:
        made.fill(0)
    if not (made.size and inner):
        return made
    from cupy_backends.cuda.libs import cublas

    scale = np.full(1, factor, np.float32)
    kind = _FLOAT16 if x.dtype == np.float16 else _BFLOAT16
    # Down columns the product is y.T @ x.T, and what we call rows of x are its columns.
    first, second = _operand(laid_out(y)), _operand(laid_out(x))
    cublas.gemmStridedBatchedEx(
        cupy.cuda.device.get_cublas_handle(), first.way, second.way, columns, rows, inner,
        address_of(scale),
        address_of(first.array), kind, first.lead, first.step,
        address_of(second.array), kind, second.lead, second.step,
        address_of(_ZERO),
        address_of(made), _FLOAT32, columns, rows * columns,
        n * heads, _COMPUTE_32F, _DEFAULT_ALGORITHM,
    )  # fmt: skip
    return made


def laid_out(x: Any) -> Any:
    """Return matrices (n, h, rows, columns) as they are if cuBLAS can go over them, else a copy."""
    import cupy

    return cupy.ascontiguousarray(x) if _operand(x) is None else x


def _operand(x: Any) -> Any:
    """Return what cuBLAS is told of matrices; None if they cannot be told of."""
    n, heads, rows, columns = x.shape
    of_samples, of_heads, of_rows, of_columns = element_strides(x)
    step = of_heads if heads > 1 else of_samples
    if n * heads == 1:
        step = rows * columns
    elif n > 1 and heads > 1 and of_samples != heads * of_heads:
        return None
    if step <= 0:
        return None
    for way, length, along, across, count in (
        (_AS_IT_IS, columns, of_columns, of_rows, rows),
        (_TURNED, rows, of_rows, of_columns, columns),
    ):
        lead = across if count > 1 else max(length, 1)
        if (along == 1 or length == 1) and lead >= max(length, 1):
            return _Operand(x, way, lead, step)
    return None
