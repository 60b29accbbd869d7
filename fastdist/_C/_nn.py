"""Neural-network functions under the names of PyTorch's compiled module."""

from __future__ import annotations

from typing import Any

from .._utils import _flatten_dense_tensors as flatten_dense_tensors
from .._utils import _unflatten_dense_tensors as unflatten_dense_tensors
from ..core.device import Device
from ..core.dtypes import DType
from ..core.memory_format import MemoryFormat
from ..core.missing import find_late
from ..nn import functional
from ..nn.module import parse_to

__all__ = ["flatten_dense_tensors", "unflatten_dense_tensors"]


def _parse_to(
    *args: Any, copy: bool = False, memory_format: MemoryFormat | None = None, **named: Any
) -> tuple[Device | None, DType | None, bool, MemoryFormat | None]:
    """Return the device, dtype, non_blocking and memory_format in the arguments of `Tensor.to`."""
    return (*parse_to(*args, **named), memory_format)


def __getattr__(name: str) -> Any:
    found = getattr(functional, name, None)
    if found is None:
        return find_late(__name__, name)
    return found
