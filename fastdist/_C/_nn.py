"""Functions of networks under the names of PyTorch's compiled half; those of nn.functional."""

from __future__ import annotations

from typing import Any

from .._utils import _flatten_dense_tensors as flatten_dense_tensors
from .._utils import _unflatten_dense_tensors as unflatten_dense_tensors
from ..core.device import Device
from ..core.dtypes import DType
from ..core.memory_format import MemoryFormat
from ..core.missing import missing
from ..nn import functional
from ..tensor.tensor import Tensor

__all__ = ["flatten_dense_tensors", "unflatten_dense_tensors"]


def _parse_to(
    *args: Any,
    device: Any = None,
    dtype: DType | None = None,
    non_blocking: bool = False,
    copy: bool = False,
    memory_format: MemoryFormat | None = None,
) -> tuple[Device | None, DType | None, bool, MemoryFormat | None]:
    """Return what the arguments of Tensor.to say: device, dtype, non_blocking, memory_format."""
    flags: list[bool] = []
    for value in args:
        if isinstance(value, Tensor):
            device, dtype = value.device, value.dtype
        elif isinstance(value, DType):
            dtype = value
        elif isinstance(value, bool):
            flags.append(value)
        elif value is not None:
            device = value
    parsed = None if device is None else Device.parse(device)
    return parsed, dtype, flags[0] if flags else non_blocking, memory_format


def __getattr__(name: str) -> Any:
    found = getattr(functional, name, None)
    if found is None:
        raise missing(__name__, name)
    return found
