"""Copies arrays of float8 types as bytes, because CuPy can store these types but not copy them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fastdist.core.dtypes import FLOAT8
from fastdist.core.errors import KernelError
from fastdist.kernels.cuda.launch import is_float8

from .library import cupy


def uploaded(array: np.ndarray[Any, Any]) -> Any:
    """Return a copy of a CPU array on the current device, in C order."""
    if is_float8(array.dtype):
        return cupy().array(array.view(np.uint8), order="C").view(array.dtype)
    if array.dtype in FLOAT8:
        raise KernelError(
            f"no CUDA kernel loads or stores {array.dtype.name}: keep the tensor on the CPU, or "
            "cast it with .to(fastdist.complex64)"
        )
    return cupy().array(array, order="C")


def downloaded(array: Any, packed: Callable[[Any], Any]) -> np.ndarray[Any, Any]:
    """Return a copy on the CPU. `packed(array)` returns the array, or a copy, in C order."""
    if is_float8(array.dtype):
        codes: np.ndarray[Any, Any] = cupy().asnumpy(packed(array).view(np.uint8))
        return codes.view(array.dtype)
    copy: np.ndarray[Any, Any] = cupy().asnumpy(array)
    return copy


def without_gaps(array: Any, packed: Callable[[Any], Any]) -> Any:
    """Return the array, or a copy, in C order. For float8 types, `packed(array)` does this."""
    return packed(array) if is_float8(array.dtype) else cupy().ascontiguousarray(array)
