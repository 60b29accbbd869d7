"""Copies of arrays of float8 types, which CuPy stores but has no functions for: as bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fastdist.core.dtypes import FLOAT8
from fastdist.core.errors import KernelError
from fastdist.kernels.cuda.launch import is_float8

from .library import cupy


def uploaded(array: np.ndarray[Any, Any]) -> Any:
    """Return a copy on the current device, in C order."""
    if is_float8(array.dtype):
        return cupy().array(array.view(np.uint8), order="C").view(array.dtype)
    if array.dtype in FLOAT8:
        raise KernelError(
            f"no CUDA kernel loads or stores {array.dtype.name}: keep the tensor on the CPU, or "
            "cast it with .to(fastdist.complex64)"
        )
    return cupy().array(array, order="C")


def downloaded(array: Any, packed: Callable[[Any], Any]) -> np.ndarray[Any, Any]:
    """Return a copy on the CPU. packed returns an array without gaps."""
    if is_float8(array.dtype):
        codes: np.ndarray[Any, Any] = cupy().asnumpy(packed(array).view(np.uint8))
        return codes.view(array.dtype)
    copy: np.ndarray[Any, Any] = cupy().asnumpy(array)
    return copy


def without_gaps(array: Any, packed: Callable[[Any], Any]) -> Any:
    """Return an array in C order, itself if it is so. packed makes one of a float8 type."""
    return packed(array) if is_float8(array.dtype) else cupy().ascontiguousarray(array)
