"""Tensors in shared memory: moving them there, and sending them to other processes."""

# share_memory_() moves everything that one allocation holds, so that views still see writes to the
# tensor, from this process and from others. No tensor tracks its views during a call: that would
# cost every view. So all tensors in the memory are found once per share, among all living tensors
# (except those that gc.freeze() has hidden). NumPy arrays that users hold keep the old memory.
#
# Only shared tensors are sent as shared, by any means of multiprocessing; all others are copied.
# PyTorch moves every tensor that it sends through a queue; here a worker that puts its results
# there may end before they are read.

from __future__ import annotations

import ctypes
import gc
from bisect import bisect_right
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.array_utils import byte_bounds

from ..core.device import CPU
from ..core.errors import DeviceError
from ..system.shared_block import Bytes, address_of, block_of, make_parts
from .tensor import Tensor


class Span(NamedTuple):
    """Addresses of memory: all of one allocation."""

    start: int
    end: int


def share_memory_(self: Tensor) -> Tensor:
    """Move this tensor's memory, in place, to where other processes can share it; return the
    tensor.

    A tensor that is then sent to a `fastdist.multiprocessing` process, or put on a queue or pipe of
    it, has the same memory there, and so have its views; every other tensor that is sent is a copy.
    `pickle`, `copy.deepcopy` and `clone` copy as ever. A tensor that is shared already keeps its
    memory.

    Device  cpu; Linux alone
    Thread  only while no other thread uses the memory
    Raises  DeviceError for another device; SharedMemoryError where the system has no such memory
    Note    views made before move along, NumPy arrays do not; looks through all living objects.
            `.grad` is not sent, as in PyTorch: each process has its own. Each call holds one
            descriptor (two before Python 3.13) until the memory is free; `Module.share_memory` is
            one call. Through a queue or pipe, the sender must live until the receiver has it
    """
    share([self])
    return self


def is_shared(self: Tensor) -> bool:
    """Return whether other processes can share this tensor's memory: whether share_memory_() was
    called on it or its base, here or in the process that sent it.
    """
    return block_of(self._array) is not None


def share(tensors: Iterable[Tensor]) -> None:
    """Move tensors, and all others in the same memory, into one shared block.

    Raises  as share_memory_; then nothing has moved
    """
    tensors = list(tensors)
    for tensor in tensors:
        if tensor._layout.is_sparse:
            raise NotImplementedError(
                "Cannot access storage of SparseTensorImpl: share_memory_() its _indices() and "
                "_values(), and make it of them where it arrives"
            )
        if tensor._layout.device is not CPU:
            raise DeviceError(
                f"share_memory: only memory of the CPU can be shared among processes, and this "
                f"tensor is on {tensor.device}; share tensor.cpu()"
            )
    alone = [tensor for tensor in tensors if block_of(tensor._array) is None]
    if not alone:
        return
    # Kept until all have moved: memory that is freed earlier might already be reused.
    roots = [_root(tensor._array) for tensor in alone]
    spans = _joined(map(_span, roots))
    parts = make_parts(end - start for start, end in spans)
    for (start, end), part in zip(spans, parts, strict=True):
        ctypes.memmove(address_of(part), start, end - start)
    starts = [span.start for span in spans]
    for tensor in (*_living(), *alone):
        array = tensor._array
        # An empty array belongs to its memory.
        place = _span(array if array.size else _root(array))
        index = bisect_right(starts, place.start) - 1
        if index >= 0 and place.end <= spans[index].end:
            tensor._array = _placed(array, parts[index], starts[index])
            storage = tensor._storage
            if storage is not None and storage.memory is not None:
                # It named the old memory; the moved arrays reference the new one.
                storage.memory = parts[index]


def _root(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the array whose memory this one is a view of."""
    root, base = array, array.base
    while base is not None:
        root = base if isinstance(base, np.ndarray) else root
        base = getattr(base, "base", None)
    return root


def _span(array: np.ndarray[Any, Any]) -> Span:
    start = address_of(array)
    return Span(*byte_bounds(array)) if array.size else Span(start, start)


def _joined(spans: Iterable[Span]) -> list[Span]:
    """Return the spans in order, with overlapping ones merged."""
    joined: list[Span] = []
    for span in sorted(spans):
        if joined and (span.start < joined[-1].end or span.start == joined[-1].start):
            joined[-1] = Span(joined[-1].start, max(joined[-1].end, span.end))
        else:
            joined.append(span)
    return joined


def _living() -> list[Tensor]:
    """Return all tensors of this process whose memory is NumPy's."""
    kinds, found = {Tensor}, [Tensor]
    while found:
        found = [kind for known in found for kind in known.__subclasses__()]
        kinds.update(found)
    # Compared by exact type, because `__class__` of another library's object may run code. An
    # object that represents several tensors, or has no values, has a property in array's place.
    kinds = {kind for kind in kinds if kind._array is Tensor._array}
    tensors = [one for one in gc.get_objects() if type(one) in kinds]
    # A tensor that another thread is creating has no array yet.
    return [one for one in tensors if isinstance(getattr(one, "_array", None), np.ndarray)]


def _placed(array: np.ndarray[Any, Any], part: Bytes, start: int) -> np.ndarray[Any, Any]:
    """Return the part of the new memory that replaces array, whose memory began at start."""
    offset = address_of(array) - start if array.size else 0
    placed: np.ndarray[Any, Any] = np.ndarray(array.shape, array.dtype, part, offset, array.strides)
    placed.flags.writeable = array.flags.writeable
    return placed


METHODS = {"share_memory_": share_memory_, "is_shared": is_shared}
