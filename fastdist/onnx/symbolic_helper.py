"""Decorators for functions that describe operators to PyTorch's exporter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ..core.missing import explain_missing

__all__ = ["cast_pytorch_to_onnx", "parse_args", "quantized_args"]
_F = TypeVar("_F", bound=Callable[..., Any])

# Maps PyTorch's names of dtypes to numbers of the ONNX standard (TensorProto.DataType).
cast_pytorch_to_onnx = {
    "Byte": 2, "Char": 3, "Double": 11, "Float": 1, "Half": 10, "Int": 6, "Long": 7, "Short": 5,
    "Bool": 9, "ComplexFloat": 14, "ComplexDouble": 15, "BFloat16": 16,
}  # fmt: skip


def parse_args(*arg_descriptors: str) -> Callable[[_F], _F]:
    """Return a decorator that returns its function unchanged, because exporting is not
    supported.
    """
    return lambda fn: fn


def quantized_args(
    *arg_q_descriptors: bool,
    scale: float | None = None,
    zero_point: int | None = None,
    quantize_output: bool = True,
) -> Callable[[_F], _F]:
    """Return a decorator that returns its function unchanged, because exporting is not
    supported.
    """
    return lambda fn: fn


explain_missing(__name__)
