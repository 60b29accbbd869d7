"""Queries for Triton, PyTorch's compiler of GPU kernels, which fastdist does not use."""

from __future__ import annotations

from typing import Any

from ..core.missing import explain_missing


def has_triton(device: Any = None) -> bool:
    """Return False: no kernel is compiled with Triton."""
    return False


has_triton_package = has_triton_tma = has_triton_tma_device = has_triton
has_triton_experimental_host_tma = has_triton_tensor_descriptor_host_tma = has_triton

explain_missing(__name__)
