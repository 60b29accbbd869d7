"""Operators of PyTorch that handle shapes as tensors, for its ONNX exporter."""

from __future__ import annotations

from typing import Any

from ..core.missing import explain_missing
from ..ops.create.creation import tensor

__all__ = ["reshape_from_tensor_shape", "shape_as_tensor"]


def shape_as_tensor(x: Any) -> Any:
    """Return a tensor's shape as a tensor of int64."""
    return tensor(list(x.shape))


def reshape_from_tensor_shape(x: Any, shape: Any) -> Any:
    """Return x reshaped to the sizes that the tensor `shape` holds."""
    return x.reshape(tuple(shape.tolist()))


explain_missing(__name__)
