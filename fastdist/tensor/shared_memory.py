"""Tensors in shared memory: how they are moved there and sent to other processes."""

# share_memory_() moves a whole allocation, so that views still see writes to the tensor, from this
# process and from other processes. Tensors do not record all tensors in the same allocation:
# that would slow down every view op. So each call searches all living tensors for those (except
# tensors that gc.freeze() has hidden). NumPy arrays that users hold keep the old memory.
#
# Queues, pipes and arguments of multiprocessing share only tensors that are shared already, and
# copy all other tensors. PyTorch instead moves every tensor that it sends through a queue to shared
# memory. In fastdist, a worker may put results on a queue and end before another process reads the
# results.

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
from ..core.folded_frames import folds
from ..system.shared_block import Bytes, address_of, block_of, make_parts
from .tensor import Tensor


class Span(NamedTuple):
    """The range of addresses of a whole allocation."""

    start: int
    end: int


@folds
def share_memory_(self: Tensor) -> Tensor:
    """Move this tensor, in place, to memory that other processes can share; return the tensor.

    If the tensor, or a view of it, is later sent to a `fastdist.multiprocessing` process, queue or
    pipe, the receiver's tensor uses the same memory. Tensors that are not shared are copied when
    they are sent. `pickle`, `copy.deepcopy` and `clone` still copy. A tensor that is already shared
    keeps its memory.

    Device  cpu, on Linux only
    Thread  only while no other thread uses the memory
    Raises  DeviceError for another device; SharedMemoryError where the system has no shared memory
    Note    existing views are moved too, and existing NumPy arrays are not; the call searches all
            living objects. As in PyTorch, `.grad` is not sent: each process has a separate `.grad`.
            Each call keeps one file descriptor (two before Python 3.13) until the memory is freed;
            `Module.share_memory` makes one call for all its tensors. If the tensor is sent through
            a queue or pipe, the sender must not end before the receiver has received the tensor
    """
    share([self])
    return self


def is_shared(self: Tensor) -> bool:
    """Return whether other processes can share this tensor's memory. This is true after a call of
    share_memory_() on the tensor or its base, in this process or in the process that sent it.
    """
    return block_of(self._array) is not None


def share(tensors: Iterable[Tensor]) -> None:
    """Move tensors, and all other tensors in the same memory, into one shared block.

    Raises  the errors of share_memory_; after an error, no tensor has moved
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
    # `roots` keeps the old memory alive until all tensors have moved: otherwise the addresses of
    # memory that is freed earlier could be reused.
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
                # The storage must not keep the old memory: the moved arrays use the new memory.
                storage.memory = parts[index]


def _root(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the array of which `array` is a view, directly or through other views."""
    root, base = array, array.base
    while base is not None:
        root = base if isinstance(base, np.ndarray) else root
        base = getattr(base, "base", None)
    return root


def _span(array: np.ndarray[Any, Any]) -> Span:
    start = address_of(array)
    return Span(*byte_bounds(array)) if array.size else Span(start, start)


def _joined(spans: Iterable[Span]) -> list[Span]:
    """Return the spans in the order of their starts; overlapping spans are merged."""
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
    # Objects are selected by type(), because `__class__` of another library's object may run code.
    # Subclasses with a property `_array` are excluded: they represent several tensors, or have no
    # values.
    kinds = {kind for kind in kinds if kind._array is Tensor._array}
    tensors = [one for one in gc.get_objects() if type(one) in kinds]
    # A tensor that another thread is creating has no array yet.
    return [one for one in tensors if isinstance(getattr(one, "_array", None), np.ndarray)]


def _placed(array: np.ndarray[Any, Any], part: Bytes, start: int) -> np.ndarray[Any, Any]:
    """Return the view of the new memory `part` that replaces `array`. The old memory of `array`
    began at the address `start`.
    """
    offset = address_of(array) - start if array.size else 0
    placed: np.ndarray[Any, Any] = np.ndarray(array.shape, array.dtype, part, offset, array.strides)
    placed.flags.writeable = array.flags.writeable
    return placed


METHODS = {"share_memory_": share_memory_, "is_shared": is_shared}
