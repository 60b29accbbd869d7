"""Converts tensors to the arrays that a transport accepts, and back."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastdist.core.errors import CollectiveArgumentError, GraphError

from ...core.device import CPU
from ...devices.backend import backend_of
from ...graph.lazy_conj_neg import LazyConjNeg
from ...graph.tensor_tangents import levels_of
from ...tensor.storage import storage_of
from ...tensor.tensor import Tensor
from ...tensor.writable import require_writable


def flat(tensor: Tensor) -> NDArray[Any]:
    """Return the elements of a tensor in C order as a 1-D array, without a copy if possible."""
    array = tensor._array if tensor._layout.device is CPU else tensor.to_numpy()
    if array.flags.c_contiguous:
        return array.reshape(-1)
    return np.ascontiguousarray(array).reshape(-1)


def settle(tensor: Tensor | None) -> None:
    """Wait until the calling thread's stream on a tensor's device has finished its work.

    The group's thread reads and writes tensors on a different stream than the callers.
    """
    if tensor is not None and (device := tensor._layout.device) is not CPU:
        backend_of(device.type).current_stream(device.index).synchronize()


class Target:
    """A tensor that a collective writes, with the 1-D array that the transport fills.

    The array is the tensor's own memory if this memory is contiguous and on the CPU. If the
    collective fails, the transport leaves the array unchanged, and `done` is not called.
    """

    __slots__ = ("_array", "_is_own", "_tensor")

    def __init__(self, tensor: Tensor, *, reads: bool) -> None:
        self._tensor = tensor
        array: Any = tensor._array if tensor._layout.device is CPU else None
        self._is_own = array.__class__ is np.ndarray and array.flags.c_contiguous
        if self._is_own:
            self._array: NDArray[Any] = array.reshape(-1)
        elif reads:
            source = tensor.to_numpy() if array is None else array
            self._array = np.array(source, order="C").reshape(-1)
        else:
            self._array = np.empty(tensor._layout.numel, tensor._layout.dtype.numpy)

    def done(self) -> None:
        """Copy the array into the tensor if they do not share memory, and increment the tensor's
        version.
        """
        tensor = self._tensor
        if not self._is_own:
            layout = tensor._layout
            backend = backend_of(layout.device.type)
            array: Any = self._array.reshape(layout.shape)
            if layout.device is not CPU:
                array = backend.from_numpy(array, layout.device.index)
            backend.copy_into(tensor._array, array)
            # Code that reads the tensor may use a different stream than this thread.
            settle(tensor)
        (tensor._storage or storage_of(tensor)).bump()


def copy_back(array: NDArray[Any], tensor: Tensor) -> None:
    """Copy a 1-D array into a tensor of the same size, and increment the tensor's version."""
    target = Target(tensor, reads=False)
    target._array[...] = array
    target.done()


def require_readable(what: str, name: str, tensor: Any) -> None:
    """Raise unless an argument is a tensor whose elements a collective can send.

    Raises  TypeError if the argument is not a tensor, or is sparse; GraphError if the tensor has a
            tangent of forward mode
    """
    if not isinstance(tensor, Tensor):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type torch.Tensor but got "
            f"{type(tensor)} instead."
        )
    if tensor._layout.is_sparse:
        raise TypeError(
            f"{what}: No support for sparse tensors. `{name}` is one: call to_dense(), or send its "
            "indices() and values()"
        )
    if tensor._extra is not None and levels_of((tensor,)):
        raise GraphError(
            f"{what}: `{name}` is a dual tensor, and the collective would not carry its tangent: "
            "unpack it with forward_ad.unpack_dual(), and call the collective for both parts"
        )


def require_target(what: str, name: str, tensor: Any) -> None:
    """Raise unless an argument is a tensor into which a collective can write.

    Raises  TypeError or GraphError as require_readable does; CollectiveArgumentError if the tensor
            is a lazily conjugated or negated view; RuntimeError if elements of the tensor share
            memory, or it is read-only
    """
    require_readable(what, name, tensor)
    if tensor.__class__ is LazyConjNeg:
        change = "conjugated" if tensor.is_conj() else "negated"
        raise CollectiveArgumentError(
            f"{what}: `{name}` is a {change} view whose numbers are not in memory: call "
            "resolve_conj(), resolve_neg() or clone(), and give the result"
        )
    require_writable(tensor)


def require_tensors(what: str, name: str, tensors: Any, check: Any = require_readable) -> None:
    """Raise unless an argument is a list or tuple of tensors."""
    if not isinstance(tensors, list | tuple):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor] "
            f"but got {type(tensors)} instead."
        )
    for index, tensor in enumerate(tensors):
        if not isinstance(tensor, Tensor):
            raise TypeError(
                f"Invalid function argument. Expected parameter `{name}` of type "
                f"List[torch.Tensor] but got {type(tensors)} with elements of type "
                f"{[type(one) for one in tensors]}."
            )
        check(what, f"{name}[{index}]", tensor)


def require_one_dtype(*tensors: Tensor) -> None:
    """Raise CollectiveArgumentError unless all tensors have the same dtype."""
    for index, (one, other) in enumerate(itertools.pairwise(tensors)):
        if one._layout.dtype is not other._layout.dtype:
            raise CollectiveArgumentError(
                f"invalid tensor type at index {index + 1} (expected {one._layout.dtype}, got "
                f"{other._layout.dtype}). Invalid usage of tensors with different dtypes. "
                f"Found {one._layout.dtype} and {other._layout.dtype}"
            )


def require_alike(what: str, tensors: Sequence[Tensor]) -> None:
    """Raise CollectiveArgumentError if there are no tensors, or layouts, dtypes or sizes differ."""
    if not tensors:
        raise CollectiveArgumentError(f"{what}: requires non-empty tensor list")
    first = tensors[0]._layout
    for index, one in enumerate(tensors):
        if one._layout.is_sparse != first.is_sparse:
            raise CollectiveArgumentError(
                f"{what}: invalid tensor layout at index {index}: dense and sparse tensors are in "
                "one list"
            )
        if one._layout.shape != first.shape:
            raise CollectiveArgumentError(
                f"{what}: invalid tensor size at index {index} (expected {tuple(first.shape)}, "
                f"got {tuple(one._layout.shape)})"
            )
    require_one_dtype(*tensors)


# Caches the results of `agreed_text` by layout and `more`; the cache is cleared when it is large.
_texts: dict[tuple[Any, str], str] = {}


def agreed_text(tensor: Tensor, more: str = "") -> str:
    """Return a text that must be equal on all members, such as "float32 of shape (2, 3), sum"."""
    key = tensor._layout, more
    text = _texts.get(key)
    if text is None:
        if len(_texts) > 1024:
            _texts.clear()
        layout = tensor._layout
        text = f"{layout.dtype.name} of shape {layout.shape}{', ' if more else ''}{more}"
        _texts[key] = text
    return text
