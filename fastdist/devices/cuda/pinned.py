"""Pinned CPU memory (page-locked), which a GPU can read and write asynchronously."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from math import prod
from typing import Any, Final

import numpy as np

from .library import cupy
from .stream import CudaEvent, CudaStream

# Note [Pinned memory under way]
# A copy between pinned memory and a GPU is queued like a kernel, so the memory must stay allocated
# until the stream has run the copy, even if its Tensor is deleted before. CuPy's pool would give
# the memory of a deleted Tensor to the next caller, which may write to it immediately. So this
# deque keeps the memory, with an event after the copy. When pinned memory is allocated later, the
# memory of all events that are complete is released.
_under_way: Final[deque[tuple[CudaEvent, Any]]] = deque()  # append and popleft are atomic


class _Pinned:
    """The owner of pinned memory. NumPy arrays on this memory keep the owner alive."""

    __slots__ = ("__array_interface__", "_memory")

    def __init__(self, size_bytes: int) -> None:
        self._memory = cupy().cuda.alloc_pinned_memory(size_bytes)
        self.__array_interface__ = {
            "version": 3,
            "shape": (size_bytes,),
            "typestr": "|u1",
            "data": (self._memory.ptr, False),
        }


def pinned_empty(shape: Sequence[int], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Return an uninitialized array in pinned memory of CuPy's pool.

    Raises  KernelError, through device_errors, if the system can lock no more pages
    """
    let_go_of_what_has_arrived()
    size = prod(shape) * dtype.itemsize
    if not size:
        return np.empty(shape, dtype)
    return np.asarray(_Pinned(size)).view(dtype).reshape(shape)


def is_pinned(array: np.ndarray[Any, Any]) -> bool:
    """Return whether a NumPy array uses memory that `pinned_empty` allocated."""
    owner: Any = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    return isinstance(owner, _Pinned)


def copied_in(array: np.ndarray[Any, Any], stream: CudaStream) -> Any:
    """Queue a copy of a pinned array to a new array on the current device; return the new array.

    Thread  any; does not wait for the copy: see Note [Pinned memory under way]
    """
    made = cupy().empty(array.shape, array.dtype)
    if array.size:
        made.data.copy_from_host_async(_address_of(array), array.nbytes, stream.native)
    return made


def copied_out(array: Any, room: np.ndarray[Any, Any], stream: CudaStream) -> None:
    """Queue a copy of a contiguous array to pinned memory of the same shape and dtype.

    Thread  any; does not wait for the copy: see Note [Pinned memory under way]
    """
    if array.size:
        array.data.copy_to_host_async(_address_of(room), array.nbytes, stream.native)


def _address_of(array: np.ndarray[Any, Any]) -> int:
    return int(array.__array_interface__["data"][0])


def hold_until(event: CudaEvent, array: Any) -> None:
    """Keep an array alive until an event is complete."""
    _under_way.append((event, array))


def let_go_of_what_has_arrived() -> None:
    """Release arrays whose copies are done; does not wait."""
    for _ in range(len(_under_way)):
        try:
            event, array = _under_way.popleft()
        except IndexError:
            return  # another thread has taken the last entry
        if not event.query():
            _under_way.append((event, array))


def forget_all() -> None:
    """Wait for pending copies and release their memory; called when the backend shuts down."""
    while _under_way:
        try:
            event, _array = _under_way.popleft()
        except IndexError:
            return  # another thread has taken the last entry
        event.wait_quietly()
