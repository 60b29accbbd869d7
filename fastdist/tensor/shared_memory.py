"""Tensors in shared memory: how they are moved there and sent to other processes."""

# share_memory_() moves a whole allocation, so that views still see writes to the tensor, from this
# process and from others. Tensors do not track their views: that would slow down every view op. So
# each call searches all living tensors for tensors in the same allocation (except tensors that
# gc.freeze() has hidden). NumPy arrays that users hold keep the old memory.
#
# Queues, pipes and arguments of multiprocessing share only tensors that are shared already, and
# copy all others. PyTorch instead moves every tensor that it sends through a queue to shared
# memory. Here a worker that puts its results on a queue may end before they are read.

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
    """The range of addresses of a whole allocation."""

    start: int
    end: int


def share_memory_(self: Tensor) -> Tensor:
    """Move this tensor's memory, in place, to where other processes can share it; return the
    tensor.

    If the tensor, or a view of it, is then sent to a `fastdist.multiprocessing` process, queue or
    pipe, the receiver's tensor uses the same memory. Other tensors are copied when they are sent.
    `pickle`, `copy.deepcopy` and `clone` still copy. A tensor that is already shared keeps its
    memory.

    Device  cpu, on Linux only
    Thread  only while no other thread uses the memory
    Raises  DeviceError for another device; SharedMemoryError where the system has no shared memory
    Note    views that exist already are moved too, NumPy arrays are not; the call searches all
            living objects. `.grad` is not sent, as in PyTorch: each process has its own. Each call
            holds one file descriptor (two before Python 3.13) until the memory is freed;
            `Module.share_memory` needs one call for all its tensors. If the tensor is sent through
            a queue or pipe, the sender must live until the receiver has it
    """
    share([self])
    return self


def is_shared(self: Tensor) -> bool:
    """Return whether other processes can share this tensor's memory. This is true
    after share_memory_() was called on it or its base, here or in the process that sent it.
    """
    return block_of(self._array) is not None


def share(tensors: Iterable[Tensor]) -> None:
    """Move tensors, and all other tensors in the same memory, into one shared block.

    Raises  the errors of share_memory_; no tensor has moved then
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
    # Keeps the old memory until all tensors have moved: freed addresses might be reused before.
    roots = [_root(tensor._array) for tensor in alone]
    spans = _joined(map(_span, roots))
    parts = make_parts(end - start for start, end in spans)
    for (start, end), part in zip(spans, parts, strict=True):
        ctypes.memmove(address_of(part), start, end - start)
    starts = [span.start for span in spans]
    for tensor in (*_living(), *alone):
        array = tensor._array
        # An empty array has no addresses, so its root is looked up.
        place = _span(array if array.size else _root(array))
        index = bisect_right(starts, place.start) - 1
        if index >= 0 and place.end <= spans[index].end:
            tensor._array = _placed(array, parts[index], starts[index])
            storage = tensor._storage
            if storage is not None and storage.memory is not None:
                # The storage held the old memory. The moved arrays reference the new memory.
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
    """Return all tensors of this process whose memory is a NumPy array."""
    kinds, found = {Tensor}, [Tensor]
    while found:
        found = [kind for known in found for kind in known.__subclasses__()]
        kinds.update(found)
    # Compared by exact type, because `__class__` of another library's object may run code.
    # Subclasses that represent several tensors, or have no values, have a property in place of
    # `_array`.
    kinds = {kind for kind in kinds if kind._array is Tensor._array}
    tensors = [one for one in gc.get_objects() if type(one) in kinds]
    # A tensor that another thread is creating has no array yet.
    return [one for one in tensors if isinstance(getattr(one, "_array", None), np.ndarray)]


def _placed(array: np.ndarray[Any, Any], part: Bytes, start: int) -> np.ndarray[Any, Any]:
    """Return the part of the new memory that replaces array; its old memory began at start."""
    offset = address_of(array) - start if array.size else 0
    placed: np.ndarray[Any, Any] = np.ndarray(array.shape, array.dtype, part, offset, array.strides)
    placed.flags.writeable = array.flags.writeable
    return placed


METHODS = {"share_memory_": share_memory_, "is_shared": is_shared}
