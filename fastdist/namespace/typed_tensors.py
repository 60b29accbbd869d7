"""PyTorch's old constructors, one per dtype: `FloatTensor([1.0, 2.0])`, `LongTensor(2, 3)` ..."""

from __future__ import annotations

from typing import Any

from ..core import dtypes
from ..core.device import CPU
from ..core.dtypes import DType
from ..ops import creation
from ..tensor.tensor import Size, Tensor


class _TypedTensor(type):
    """What the constructors are: called, they make a Tensor; isinstance asks for the dtype."""

    dtype: DType

    def __call__(cls, *args: Any) -> Tensor:
        """Return a tensor with a copy of the data given, or uninitialised memory of the sizes."""
        if len(args) == 1 and not hasattr(args[0], "__index__") and not isinstance(args[0], Size):
            return creation.tensor(args[0], dtype=cls.dtype)
        return creation.empty(*(args or (0,)), dtype=cls.dtype)

    def __instancecheck__(cls, instance: Any) -> bool:
        if not isinstance(instance, Tensor):
            return False
        return instance.layout.dtype is cls.dtype and instance.layout.device is CPU


def _typed(name: str, dtype: DType) -> _TypedTensor:
    made = _TypedTensor(f"{name}Tensor", (), {"__doc__": f"A CPU tensor of {dtype.name}."})
    made.dtype = dtype
    made.__module__ = "fastdist"
    return made


TYPED_TENSORS = {
    f"{name}Tensor": _typed(name, dtype)
    for name, dtype in (
        ("Double", dtypes.float64),
        ("Float", dtypes.float32),
        ("Half", dtypes.float16),
        ("Long", dtypes.int64),
        ("Int", dtypes.int32),
        ("Short", dtypes.int16),
        ("Char", dtypes.int8),
        ("Byte", dtypes.uint8),
        ("Bool", dtypes.bool_),
    )
}
