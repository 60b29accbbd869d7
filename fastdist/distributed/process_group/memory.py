"""The memory whose arrays a transport takes: the CPU's here, a GPU's in device_memory.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from ...tensor.tensor import Tensor
from . import arrays
from .carriers import GroupingTransport
from .reductions import Reduction


class TargetArray(Protocol):
    """A tensor that a collective writes, and the array that a transport fills; see Target."""

    _array: Any

    def done(self) -> None:
        """Place the numbers in the tensor, and count the change."""


class Memory(Protocol):
    """Turns tensors into arrays of one axis of some memory, and computes with such arrays.

    Thread  the one that carries out the collective
    """

    @property
    def flat(self) -> Callable[[Tensor], Any]:
        """Returns the numbers of a tensor in C order; its own memory where it can be."""

    @property
    def target(self) -> Callable[..., TargetArray]:
        """Called with a tensor, and `reads=True` if the array begins with its numbers."""

    @property
    def copy_back(self) -> Callable[[Any, Tensor], None]:
        """Places an array in a tensor of as many elements, and counts the change."""

    def empty(self, shape: int | tuple[int, ...], dtype: Any) -> Any:
        """Return an array of any numbers."""

    def join(self, parts: Sequence[Any]) -> Any:
        """Return a new array of the parts, one after the other."""

    def copy(self, array: Any) -> Any:
        """Return a new array with the same numbers."""

    def place(self, out: Any, array: Any) -> None:
        """Write the numbers of array into out."""

    def multiply(self, array: Any, factor: Any) -> Any:
        """Return a new array, multiplied by a number or by a tensor of one."""

    def overlap(self, one: Any, other: Any) -> bool:
        """Return whether two arrays may share memory."""

    def address(self, array: Any) -> int:
        """Return where an array begins."""

    def op_of(self, how: Reduction) -> str:
        """Return the reduction for the transport."""

    def divide(self, how: Reduction, array: Any, size: int) -> None:
        """Divide a sum over `size` members in place, if the mean is wanted and not computed yet."""


class HostMemory:
    """The memory of the CPU; its arrays are NumPy's."""

    flat = staticmethod(arrays.flat)
    target = arrays.Target
    copy_back = staticmethod(arrays.copy_back)

    def empty(self, shape: int | tuple[int, ...], dtype: Any) -> NDArray[Any]:
        """Return an array of any numbers."""
        return np.empty(shape, dtype)

    def join(self, parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Return a new array of the parts, one after the other."""
        return np.concatenate(parts)

    def copy(self, array: NDArray[Any]) -> NDArray[Any]:
        """Return a new array with the same numbers."""
        return array.copy()

    def place(self, out: NDArray[Any], array: NDArray[Any]) -> None:
        """Write the numbers of array into out."""
        out[...] = array

    def multiply(self, array: NDArray[Any], factor: Any) -> NDArray[Any]:
        """Return a new array, multiplied by a number or by a tensor of one."""
        number = factor.item() if isinstance(factor, Tensor) else factor
        return array * np.asarray(number, array.dtype)  # type: ignore[no-any-return]

    def overlap(self, one: NDArray[Any], other: NDArray[Any]) -> bool:
        """Return whether two arrays may share memory."""
        return np.may_share_memory(one, other)

    def address(self, array: NDArray[Any]) -> int:
        """Return where an array begins."""
        return array.ctypes.data

    def op_of(self, how: Reduction) -> str:
        """Return the reduction for the transport: a sum in place of a mean."""
        return how.op

    def divide(self, how: Reduction, array: NDArray[Any], size: int) -> None:
        """Divide a sum over `size` members in place, if the mean is wanted."""
        how.divide(array, size)


HOST: Final = HostMemory()


def memory_of(transport: Any) -> Memory:
    """Return the memory whose arrays a transport takes: the CPU's unless it has its own."""
    return transport.memory if isinstance(transport, GroupingTransport) else HOST
