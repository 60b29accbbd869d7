"""What fastdist uses of CuPy's cuBLAS, answered by NumPy: matrices go down columns, as there."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import numpy as np

from fastdist.core.dtypes import bfloat16
from tests.fibre_shim.cupy import queue, seen

# Of cublasOperation_t, cudaDataType_t and cublasComputeType_t: AS_IT_IS, TURNED; float32 and half
# types; float32.
_OPERATIONS = (0, 1)
_COMPUTE_32F = 68


def _dtype(code: int) -> np.dtype[Any]:
    return {0: np.dtype(np.float32), 2: np.dtype(np.float16), 14: bfloat16.numpy}[code]


def getVersion(handle: int) -> int:
    """Return cuBLAS's version: 12.9."""
    assert handle == 0x88
    return 120900


def gemmStridedBatchedEx(
    handle: int, transa: int, transb: int, m: int, n: int, k: int,
    alpha: int, A: int, Atype: int, lda: int, strideA: int,
    B: int, Btype: int, ldb: int, strideB: int,
    beta: int, C: int, Ctype: int, ldc: int, strideC: int,
    batchCount: int, computeType: int, algo: int,
) -> None:  # fmt: skip
    """Write alpha * op(A) @ op(B) + beta * C into C, of each of a batch; parameters as in CuPy."""
    assert handle == 0x88 and computeType == _COMPUTE_32F and algo == -1, "as attention asks"
    assert Atype == Btype, "cuBLAS takes no two half types"

    def at(
        start: int, kind: int, operation: int, rows: int, columns: int, lead: int, step: int
    ) -> Any:
        assert operation in _OPERATIONS
        high, wide = (columns, rows) if operation else (rows, columns)
        assert lead >= max(1, high), "a column ends before the next one begins"
        dtype = _dtype(kind)
        size = dtype.itemsize
        shape, steps = (batchCount, high, wide), (step * size, size, lead * size)
        found = seen(SimpleNamespace(ptr=start), shape, dtype, steps)
        return found.swapaxes(1, 2) if operation else found

    scale, keep = (ctypes.c_float.from_address(one).value for one in (alpha, beta))
    a = at(A, Atype, transa, m, k, lda, strideA)
    b = at(B, Btype, transb, k, n, ldb, strideB)
    c = at(C, Ctype, 0, m, n, ldc, strideC)

    def multiply() -> None:
        found = scale * np.matmul(a.astype(np.float32), b.astype(np.float32))
        np.copyto(c, found if keep == 0 else found + keep * c, casting="unsafe")

    queue(multiply)
