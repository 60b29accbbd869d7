"""Tensor methods that are not ops: backward, numpy, indexing, and what is made of several ops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.errors import DeviceError
from ..dispatch.copy_inplace import copy_, fill_, zero_
from ..dispatch.op import OPS
from ..dispatch.view import detach
from ..engine.backward import backward as engine_backward
from ..ops import movement
from ..tensor import pickling
from ..tensor.methods import TensorMethods
from ..tensor.tensor import Tensor


def backward(
    self: Tensor,
    gradient: Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Sequence[Tensor] | Tensor | None = None,
) -> None:
    """Add this tensor's gradients into the `.grad` of the leaves it was made of.

    Thread  runs here; other threads' passes through the same leaves may overlap
    Raises  RuntimeError if it does not require grad, or has several elements and no gradient is
            given
    """
    if isinstance(inputs, Tensor):
        inputs = (inputs,)
    engine_backward((self,), (gradient,), retain_graph, create_graph, inputs)


def numpy(self: Tensor, *, force: bool = False) -> np.ndarray[Any, Any]:
    """Return the elements as a NumPy array that shares memory with this CPU tensor.

    Raises  RuntimeError for a tensor that requires grad, TypeError for one on another device,
            unless force
    """
    if self.edge is not None and not force:
        raise RuntimeError(
            "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
        )
    if not isinstance(self.array, np.ndarray) and not force:
        raise TypeError(
            f"can't convert {self.device} device type tensor to numpy. "
            "Use Tensor.cpu() to copy the tensor to host memory first."
        )
    from ..tensor.storage import storage_of

    storage_of(self)  # NumPy may change it from now on; views made later share one version
    return self.to_numpy()


def _array(self: Tensor, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
    """Let NumPy take this tensor as an array."""
    if not isinstance(self.array, np.ndarray):
        raise DeviceError(f"a tensor on {self.device} is no NumPy array; use .cpu() first")
    return np.array(numpy(self), dtype=dtype, copy=copy)


def where(self: Tensor, condition: Tensor, other: Any) -> Tensor:
    """Return this tensor where condition holds, other elsewhere."""
    return OPS["where"].public(condition, self, other)  # type: ignore[no-any-return]


METHODS: dict[str, Any] = {
    "copy_": copy_,
    "fill_": fill_,
    "zero_": zero_,
    "where": where,
    "backward": backward,
    "numpy": numpy,
    "__array__": _array,
    "detach": detach,
    "t": movement.t,
    "reshape": movement.reshape,
    **pickling.METHODS,
}


def attach_methods() -> None:
    """Hang them on Tensor."""
    for name, method in METHODS.items():
        setattr(TensorMethods, name, method)
