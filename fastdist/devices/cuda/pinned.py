"""Memory of the CPU in locked pages, which a GPU reads and writes while the program goes on."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from math import prod
from typing import Any, Final

import numpy as np

from .library import cupy
from .stream import CudaEvent, CudaStream

# Note [Pinned memory under way]
# A copy between pinned memory and a GPU is queued like a kernel, so the memory must outlive its
# Tensor until the stream has passed the copy: CuPy's pool would give it to the next caller, which
# may write at once. So the memory is held here with an event behind the copy, and released by the
# next allocation of pinned memory after that event has passed.
_under_way: Final[deque[tuple[CudaEvent, Any]]] = deque()  # append and popleft are atomic


class _Pinned:
    """The owner of pinned memory: what NumPy's arrays over it keep alive."""

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
    """Return an array in pinned memory of CuPy's pool; what it holds is left to chance.

    Raises  KernelError where the system locks no more pages, through device_errors
    """
    let_go_of_what_has_arrived()
    size = prod(shape) * dtype.itemsize
    if not size:
        return np.empty(shape, dtype)
    return np.asarray(_Pinned(size)).view(dtype).reshape(shape)


def is_pinned(array: np.ndarray[Any, Any]) -> bool:
    """Return whether an array of NumPy's lies in memory of pinned_empty."""
    owner: Any = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    return isinstance(owner, _Pinned)


def copied_in(array: np.ndarray[Any, Any], stream: CudaStream) -> Any:
    """Return an array of the current device that a stream copies pinned memory to.

    Thread  any; does not wait for the copy: see Note [Pinned memory under way]
    """
    made = cupy().empty(array.shape, array.dtype)
    if array.size:
        made.data.copy_from_host_async(_address_of(array), array.nbytes, stream.native)
    return made


def copied_out(array: Any, room: np.ndarray[Any, Any], stream: CudaStream) -> None:
    """Let a stream copy an array without gaps to pinned memory of its shape and dtype.

    Thread  any; does not wait for the copy: see Note [Pinned memory under way]
    """
    if array.size:
        array.data.copy_to_host_async(_address_of(room), array.nbytes, stream.native)


def _address_of(array: np.ndarray[Any, Any]) -> int:
    return int(array.__array_interface__["data"][0])


def hold_until(event: CudaEvent, array: Any) -> None:
    """Keep an array's memory until a stream has passed an event."""
    _under_way.append((event, array))


def let_go_of_what_has_arrived() -> None:
    """Forget memory whose copies are done; waits for nothing."""
    for _ in range(len(_under_way)):
        try:
            event, array = _under_way.popleft()
        except IndexError:
            return  # another thread was faster
        if not event.query():
            _under_way.append((event, array))


def forget_all() -> None:
    """Wait for the pending copies and release their memory, as the backend ends."""
    while _under_way:
        try:
            event, _array = _under_way.popleft()
        except IndexError:
            return  # another thread was faster
        event.wait_quietly()
