"""PyTorch's old constructors: `Tensor(2, 3)`, `FloatTensor([1.0])`, `sparse.FloatTensor(i, v)`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.device import CPU, Device
from ..core.dtypes import WORDS, DType
from ..core.errors import DTypeError
from ..core.folded_frames import folds
from ..interpreters.sparse_rules import is_sparse
from ..ops.create import creation
from ..ops.sparse.conversion import sparse_coo_tensor
from ..tensor.layout import Size
from ..tensor.promotion import get_default_dtype
from ..tensor.subclasses import TensorType
from ..tensor.tensor import Tensor


def construct(*args: Any, device: Any = None) -> Tensor:
    """Create a tensor in the default dtype, as `Tensor(...)` does. If args are sizes, the tensor is
    uninitialized. Other data is copied. For a Tensor, a view of all its elements is returned.
    """
    if len(args) == 1 and isinstance(args[0], Tensor):
        return args[0].view(args[0]._layout.shape)
    return new_of_dtype(get_default_dtype(), args, device)


def handle_to(given: Tensor, dtype: DType, device: Device) -> Tensor:
    """Return a view of all elements of a Tensor.

    Raises  TypeError if the Tensor does not have this dtype and device
    """
    layout = given._layout
    if layout.dtype is not dtype or layout.device != device:
        raise DTypeError(
            f"expected {dtype.name} on {device} (got {layout.dtype.name} on {layout.device}); "
            "cast with .to()"
        )
    return construct(given)


def new_of_dtype(dtype: DType, args: tuple[Any, ...], device: Any = None) -> Tensor:
    """Return a tensor of a dtype: uninitialized if args are sizes, else a copy of args' data."""
    if len(args) != 1 or isinstance(args[0], Size) or _is_integer(args[0]):
        return creation.empty(*(args or (0,)), dtype=dtype, device=device)
    return creation.tensor(args[0], dtype=dtype, device=device)


def _is_integer(value: Any) -> bool:
    # Every NumPy array has __index__, but for most arrays it raises an error.
    return hasattr(value, "__index__") and not isinstance(value, np.ndarray)


class _TypedTensor(type):
    """The metaclass of the constructors: calling such a class creates a Tensor, and isinstance
    checks the dtype and the device.
    """

    dtype: DType

    @folds
    def __call__(cls, *args: Any) -> Tensor:
        """Create a Tensor as `Tensor(...)` does, in this dtype.

        Raises  TypeError for a Tensor of another dtype
        """
        if len(args) != 1 or not isinstance(args[0], Tensor):
            return new_of_dtype(cls.dtype, args)
        return handle_to(args[0], cls.dtype, CPU)

    def __instancecheck__(cls, instance: Any) -> bool:
        if not isinstance(instance, Tensor) or instance._layout.is_sparse:
            return False
        return instance._layout.dtype is cls.dtype and instance._layout.device is CPU


class _TypedCudaTensor(_TypedTensor):
    """The metaclass of the constructors in `cuda`."""

    @folds
    def __call__(cls, *args: Any) -> Tensor:
        """Create a Tensor as `Tensor(...)` does, in this dtype, on this thread's GPU.

        Raises  TypeError for a Tensor of another dtype or device
        """
        if len(args) != 1 or not isinstance(args[0], Tensor):
            return new_of_dtype(cls.dtype, args, "cuda")
        return handle_to(args[0], cls.dtype, Device("cuda"))

    def __instancecheck__(cls, instance: Any) -> bool:
        if not isinstance(instance, Tensor) or instance._layout.is_sparse:
            return False
        return instance._layout.dtype is cls.dtype and instance._layout.device.type == "cuda"


class _TypedSparseTensor(_TypedTensor):
    """The metaclass of the constructors in `sparse`."""

    @folds
    def __call__(cls, *args: Any, device: Any = None) -> Tensor:
        """Return the sparse tensor of indices, values and optionally a size, in the dtype of the
        values. With only a size, return zeros in this dtype.

        Raises  TypeError for other arguments
        """
        if 2 <= len(args) <= 3 and all(isinstance(arg, Tensor) for arg in args[:2]):
            return sparse_coo_tensor(*args, device=device)
        size = args[0] if len(args) == 1 and not _is_integer(args[0]) else args or (0,)
        if any(isinstance(arg, Tensor) for arg in args) or not all(map(_is_integer, size)):
            raise DTypeError(
                "new() received an invalid combination of arguments: expected Tensors of indices "
                "and values, and perhaps a size, or a size alone, "
                f"got ({', '.join(type(arg).__name__ for arg in args)})"
            )
        return sparse_coo_tensor(tuple(size), dtype=cls.dtype, device=device)

    def __instancecheck__(cls, instance: Any) -> bool:
        if not is_sparse(instance):
            return False
        return instance._layout.dtype is cls.dtype and instance._layout.device is CPU


def _typed(
    name: str, dtype: DType, kind: type[_TypedTensor] = _TypedTensor, room: str = "fastdist"
) -> _TypedTensor:
    place = "GPU" if kind is _TypedCudaTensor else "CPU"
    made = kind(name, (), {"__doc__": f"A tensor of {dtype.name}, on the {place}."})
    made.dtype = dtype
    made.__module__ = room
    return made


TYPED_TENSORS = {
    f"{name}Tensor": _typed(f"{name}Tensor", dtype)
    for dtype, name in WORDS.items()
    if not dtype.is_float8
}


def typed_cuda_tensors() -> dict[str, _TypedTensor]:
    """Create the tensor types of fastdist.cuda, which take 40 KB, when that module is loaded."""
    return {
        name: _typed(name, made.dtype, _TypedCudaTensor, "fastdist.cuda")
        for name, made in TYPED_TENSORS.items()
    }


def typed_sparse_tensors() -> dict[str, _TypedTensor]:
    """Create the tensor types of fastdist.sparse, when that module is loaded."""
    return {
        name: _typed(name, made.dtype, _TypedSparseTensor, "fastdist.sparse")
        for name, made in TYPED_TENSORS.items()
        if name != "BoolTensor"
    }


TensorType.construct = staticmethod(construct)
