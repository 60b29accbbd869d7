"""Checks whether foreach functions may update tensors, under PyTorch's private names."""

from __future__ import annotations

from typing import Any

from ..core.missing import explain_missing
from ..optim.for_subclasses import (
    Indices,
    TensorListList,
    _foreach_supported_types,
    _get_foreach_kernels_supported_devices,
    _get_fused_kernels_supported_devices,
    _group_tensors_by_device_and_dtype,
)
from ..tensor.tensor import Tensor

__all__ = [
    "Indices",
    "TensorListList",
    "_device_has_foreach_support",
    "_foreach_supported_types",
    "_get_foreach_kernels_supported_devices",
    "_get_fused_kernels_supported_devices",
    "_group_tensors_by_device_and_dtype",
    "_has_foreach_support",
]


def _device_has_foreach_support(device: Any) -> bool:
    """Return whether a foreach function is one launch on a device: True for GPUs and the CPU."""
    return device.type in ("cuda", "cpu")


def _has_foreach_support(tensors: list[Tensor | None], device: Any) -> bool:
    """Return whether the device has foreach support, and the class of each tensor is supported."""
    return _device_has_foreach_support(device) and all(
        t is None or type(t) in _foreach_supported_types for t in tensors
    )


explain_missing(__name__)
