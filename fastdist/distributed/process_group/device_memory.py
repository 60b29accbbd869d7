"""Converts tensors on one GPU to arrays for a transport that takes GPU memory."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final

import numpy as np

from fastdist.core.errors import DeviceError
from fastdist.language.scalar import parse

from ...core.device import CPU, Device
from ...devices.backend import backend_of
from ...tensor.storage import storage_of
from ...tensor.tensor import Tensor
from .reductions import Reduction

_MULTIPLY: Final = parse("x * y", ("x", "y"))
# GPU transports have no bitwise reductions. Booleans are bytes of 0 and 1, where the maximum is OR.
_OF_BOOL: Final = {"bor": "max", "band": "min"}


class DeviceMemory:
    """Implements Memory for one GPU. No method waits for the GPU.

    Work is queued on the current stream, which is `stream` while a collective starts. The work uses
    tensors that were allocated on other streams. The allocator does not reuse their memory until
    `stream` has done this work. During a graph capture the allocator cannot record such a use, so
    `kept` holds the arrays until a caller waits for the Work.
    """

    def __init__(self, device: Device, stream: Any) -> None:
        self.device, self.stream = device, stream
        self.backend: Any = backend_of(device.type)
        self.kept: list[Any] = []
        self.is_captured = False

    def flat(self, tensor: Tensor) -> Any:
        """Return the elements of a tensor in C order, without a copy if possible."""
        return self.backend.packed(self.own(tensor)).reshape(-1)

    def own(self, tensor: Tensor) -> Any:
        """Return a tensor's array, and keep its memory until the stream has used it.

        Raises  RuntimeError if the tensor is on another device
        """
        device = tensor._layout.device
        if device != self.device:
            raise RuntimeError(
                f"Expected all tensors of a collective to be on one device, {self.device}, but got "
                f"one on {device}; copy it there first"
            )
        array = tensor._array
        if self.is_captured:
            self.kept.append(array)
            return array
        try:
            self.backend.record_stream(array, self.stream)
        except DeviceError:
            # The memory belongs to another library, which does not wait for this stream.
            self.kept.append(array)
        return array

    def target(self, tensor: Tensor, *, reads: bool) -> DeviceTarget:
        """Return a target: a tensor that a collective writes, with the array to fill."""
        return DeviceTarget(self, tensor, reads=reads)

    def copy_back(self, array: Any, tensor: Tensor) -> None:
        """Copy an array into a tensor of the same size, and increment the tensor's version."""
        self.backend.copy_into(self.own(tensor), array.reshape(tensor._layout.shape))
        (tensor._storage or storage_of(tensor)).bump()

    def empty(self, shape: int | tuple[int, ...], dtype: Any) -> Any:
        """Return an uninitialised array."""
        sizes = (shape,) if isinstance(shape, int) else shape
        return self.backend.empty(sizes, np.dtype(dtype), self.device.index)

    def join(self, parts: Sequence[Any]) -> Any:
        """Return a new array: the concatenation of `parts`."""
        room = self.empty(sum(part.size for part in parts), parts[0].dtype)
        begin = 0
        for part in parts:
            self.place(room[begin : begin + part.size], part)
            begin += part.size
        return room

    def copy(self, array: Any) -> Any:
        """Return a copy of an array."""
        room = self.empty(array.shape, array.dtype)
        self.place(room, array)
        return room

    def place(self, out: Any, array: Any) -> None:
        """Copy the elements of `array` into `out`."""
        if prod(out.shape):
            self.backend.copy_into(out, array)

    def multiply(self, array: Any, factor: Any) -> Any:
        """Return a new array: `array` times `factor`, a number or a tensor of one element."""
        room = self.empty(array.shape, array.dtype)
        if isinstance(factor, Tensor) and factor._layout.device is not CPU:
            other = self.backend.expand(self.own(factor).reshape(1), array.shape)
        else:
            number = factor.item() if isinstance(factor, Tensor) else factor
            other = np.asarray(number, array.dtype)
        self.backend.pointwise(_MULTIPLY, [array, other], room)
        return room

    def overlap(self, one: Any, other: Any) -> bool:
        """Return whether two contiguous arrays share memory."""
        begin, start = one.data.ptr, other.data.ptr
        return bool(begin < start + other.nbytes and start < begin + one.nbytes)

    def address(self, array: Any) -> int:
        """Return the address of an array."""
        return int(array.data.ptr)

    def op_of(self, how: Reduction) -> str:
        """Return the transport's name of a reduction, which may be a mean ("avg")."""
        if how.is_mean:
            return "avg"
        return _OF_BOOL.get(how.op, how.op) if how.seen_as == np.uint8 else how.op

    def divide(self, how: Reduction, array: Any, size: int) -> None:
        """Do nothing: the transport has divided already if the reduction is a mean."""


class DeviceTarget:
    """A tensor on a GPU that a collective writes, with the array that the transport fills."""

    __slots__ = ("_array", "_destination", "_memory", "_tensor")

    def __init__(self, memory: DeviceMemory, tensor: Tensor, *, reads: bool) -> None:
        self._memory, self._tensor = memory, tensor
        array = memory.own(tensor)
        # None if the transport fills the tensor's own memory.
        self._destination: Any = None
        if array.flags.c_contiguous:
            self._array = array.reshape(-1)
            return
        self._destination = array
        if reads:
            self._array = memory.backend.packed(array).reshape(-1)
        else:
            self._array = memory.empty(tensor._layout.numel, tensor._layout.dtype.numpy)

    def done(self) -> None:
        """Copy the array into the tensor if they do not share memory, and increment the tensor's
        version.
        """
        tensor = self._tensor
        if self._destination is not None:
            made = self._array.reshape(tensor._layout.shape)
            self._memory.backend.copy_into(self._destination, made)
        (tensor._storage or storage_of(tensor)).bump()
