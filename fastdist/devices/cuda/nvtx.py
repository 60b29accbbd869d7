"""Access to NVTX, with which programs name time ranges for NVIDIA's profilers."""

from __future__ import annotations

from typing import Any

from fastdist.core.errors import DeviceError

from ..backend import backend_of
from .library import cupy


def nvtx() -> Any:
    """Return CuPy's NVTX module.

    Raises  DeviceError that says what is missing: CuPy, a driver, a GPU, or NVTX in this CuPy
    """
    backend_of("cuda")
    found = cupy().cuda.nvtx
    if not found.available:
        raise DeviceError(
            "cuda: this CuPy was built without NVTX; the wheels have it: in the clone of fastdist, "
            "pip install -e '.[cuda12]' (or '.[cuda13]', by the driver's CUDA version)"
        )
    return found
