"""Methods by which tensors become NumPy arrays, and results of NumPy functions tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.dtypes import WORDS, BorrowedDType
from ..core.errors import DeviceError
from ..core.folded_frames import folds
from ..graph.modes import tls
from ..ops.create import creation
from ..tensor.storage import storage_of
from ..tensor.tensor import Tensor


@folds
def numpy(self: Tensor, *, force: bool = False) -> np.ndarray[Any, Any]:
    """Return the elements as a NumPy array that shares memory with this CPU tensor.

    Raises  RuntimeError for a tensor that requires grad while gradients are enabled, and TypeError
            for a tensor on another device, unless force is true; TypeError for bfloat16

    Args:
        force: Whether to detach, copy to the CPU, and resolve conjugate and negative views first.

    Example:
        >>> x = torch.zeros(2)
        >>> x.numpy()[0] = 5
        >>> x
        tensor([5., 0.])
    """
    if self._edge is not None and tls.grad and not force:
        raise RuntimeError(
            "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
        )
    if not isinstance(self._array, np.ndarray) and not force and not self._layout.is_sparse:
        raise TypeError(
            f"can't convert {self.device} device type tensor to numpy. "
            "Use Tensor.cpu() to copy the tensor to host memory first."
        )
    if isinstance(self._layout.dtype, BorrowedDType):
        raise TypeError(
            f"Got unsupported ScalarType {WORDS[self._layout.dtype]}: NumPy has none; call "
            ".float() first"
        )
    storage_of(self)  # NumPy may write to it from now on; later views share this version counter
    return self.to_numpy()


def _array(self: Tensor, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
    """Convert this tensor to a NumPy array, for np.asarray."""
    if not isinstance(self._array, np.ndarray) and not self._layout.is_sparse:
        raise DeviceError(f"a tensor on {self.device} is not a NumPy array; use .cpu() first")
    return np.array(numpy(self), dtype=dtype, copy=copy)


def _array_wrap(
    self: Tensor, array: Any, context: Any = None, return_scalar: bool = False
) -> Tensor:
    """Convert the results of NumPy functions on tensors to tensors."""
    return creation.from_numpy(np.asarray(array))


METHODS: dict[str, Any] = {"numpy": numpy, "__array__": _array, "__array_wrap__": _array_wrap}
