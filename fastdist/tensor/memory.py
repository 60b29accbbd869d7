"""The whole memory of which a tensor uses a part: an allocation, or a mapped file."""

# Note [Memory of a tensor] A tensor does not reference its base. The tensor's NumPy or CuPy array
# references the base array, by the attribute `base`. The few functions that need the whole memory
# look it up through that attribute. An array that a user passed in may be one row of a matrix, and
# the tensor must not expose the rest of that matrix: then the Storage holds the array as the whole
# memory.

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from ..core.device import CPU, Device
from ..devices.backend import backend_of
from .layout import Layout
from .storage import BoundedStorage
from .tensor import Tensor

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


def root_of(tensor: Tensor) -> Any:
    """Return the raw array that spans the memory of which the tensor's array is a part."""
    storage = tensor._storage
    if storage is not None and storage.memory is not None:
        return storage.memory
    array = tensor._array
    if tensor._extra is not None and tensor._extra.base is not None:
        array = tensor._extra.base._array
    base = getattr(array, "base", None)
    while base is not None:
        # Skip other objects in the chain of bases: they only keep the memory alive.
        array = base if isinstance(base, type(tensor._array)) else array
        base = getattr(base, "base", None)
    return array


def bytes_of(array: Any) -> Bytes:
    """Return all bytes that a NumPy array spans, in their order in memory."""
    if array.flags.c_contiguous:
        flat: Bytes = array.reshape(-1).view(np.uint8)
        return flat
    if not array.size:
        return np.empty(0, np.uint8)
    low, high = byte_bounds(array)
    return np.asarray(_Span(array, low, high - low))


class _Span:
    """A NumPy array interface for a range of memory that `base` keeps alive."""

    def __init__(self, base: np.ndarray[Any, Any], address: int, nbytes: int) -> None:
        self.base = base
        self.__array_interface__ = {
            "version": 3,
            "shape": (nbytes,),
            "typestr": "|u1",
            "data": (address, not base.flags.writeable),
        }


def flat_of(tensor: Tensor) -> Any:
    """Return the tensor's whole memory as a raw array with one axis. On the CPU it consists of
    bytes, and on other devices of the elements of the root array.
    """
    root = root_of(tensor)
    if isinstance(root, np.ndarray):
        return bytes_of(root)
    itemsize = root.dtype.itemsize
    count = sum((n - 1) * (s // itemsize) for n, s in zip(root.shape, root.strides, strict=True))
    count = count + 1 if root.size else 0
    if not count:
        return root.reshape((0,))
    backend = backend_of(tensor._layout.device.type)
    return backend.as_strided(root, (count,), (itemsize,))


def address_of_memory(tensor: Tensor) -> int:
    """Return the address of the tensor's whole memory."""
    root = root_of(tensor)
    if isinstance(root, np.ndarray):
        return int(byte_bounds(root)[0])
    return backend_of(tensor._layout.device.type).data_ptr(root)


def memory_and_offset(tensor: Tensor) -> tuple[Any, int, int]:
    """Return `flat_of(tensor)`, the address of that memory, and the tensor's storage_offset."""
    array = tensor._array
    is_alone = tensor._storage is None and array.__class__ is np.ndarray and array.base is None
    if is_alone and array.flags.c_contiguous:
        return array.reshape(-1).view(np.uint8), array.ctypes.data, 0
    return flat_of(tensor), address_of_memory(tensor), storage_offset(tensor)


def storage_offset(self: Tensor) -> int:
    """Return the number of elements from the start of the whole memory to the tensor's start."""
    array, storage = self._array, self._storage
    is_whole = array.__class__ is np.ndarray and array.base is None
    if is_whole and (storage is None or storage.memory is None):
        return 0
    if self._layout.is_sparse or (not self._layout.numel and root_of(self) is self._array):
        return 0
    address = backend_of(self._layout.device.type).data_ptr(self._array)
    return (address - address_of_memory(self)) // self._layout.dtype.itemsize


def view_at(
    flat: Any,
    dtype: np.dtype[Any],
    device: Device,
    offset: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
) -> Any:
    """Return a raw array over flat memory; `offset` and `strides` count elements of `dtype`.

    Note    the caller has checked that the array is within the memory
    """
    steps = [stride * dtype.itemsize for stride in strides]
    if device is CPU:
        array: np.ndarray[Any, Any] = np.ndarray(shape, dtype, flat, offset * dtype.itemsize, steps)
        if not flat.flags.writeable or any(
            n > 1 and s == 0 for n, s in zip(shape, strides, strict=True)
        ):
            array.flags.writeable = False  # read-only memory, or elements that share an address
        return array
    if not all(shape):
        return backend_of(device.type).empty(shape, dtype, device.index)
    array = flat if flat.dtype == dtype else flat.view(dtype)
    return backend_of(device.type).as_strided(array, shape, steps, offset * dtype.itemsize)


def bound(tensor: Tensor, memory: Any) -> Tensor:
    """Give the tensor a storage whose whole memory is `memory`; return the tensor."""
    tensor._storage = BoundedStorage(memory)
    return tensor


def reach(shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """Return the number of elements that a tensor with these strides spans, gaps included."""
    if 0 in shape:
        return 0
    return 1 + sum([(n - 1) * s for n, s in zip(shape, strides, strict=True)])


def empty_in_layout(layout: Layout) -> Any:
    """Return an uninitialised raw array with this layout."""
    backend = backend_of(layout.device.type)
    count = reach(layout.shape, layout.strides)
    room = backend.empty((count,), layout.dtype.numpy, layout.device.index)
    array = backend.as_strided(room, layout.shape, layout.steps)
    if isinstance(array, np.ndarray) and not array.flags.writeable:
        array.flags.writeable = True  # elements that share an address always get equal values
    return array
