"""Converts tensors to a transport's arrays in CPU memory (device_memory.py: in GPU memory)."""

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
    """A tensor that a collective writes, with the array that a transport fills; see Target."""

    _array: Any

    def done(self) -> None:
        """Copy the array into the tensor if they do not share memory, and bump the tensor's
        version.
        """


class Memory(Protocol):
    """Converts tensors to 1-D arrays in one kind of memory, and computes with such arrays.

    Thread  the thread that runs the collective
    """

    @property
    def flat(self) -> Callable[[Tensor], Any]:
        """Return the elements of a tensor in C order, without a copy if possible."""

    @property
    def target(self) -> Callable[..., TargetArray]:
        """Return the Target of a tensor; with `reads=True`, its array has the tensor's elements."""

    @property
    def copy_back(self) -> Callable[[Any, Tensor], None]:
        """Copy an array into a tensor of the same size, and bump the tensor's version."""

    def empty(self, shape: int | tuple[int, ...], dtype: Any) -> Any:
        """Return an uninitialised array."""

    def join(self, parts: Sequence[Any]) -> Any:
        """Return a new array, the concatenation of the parts."""

    def copy(self, array: Any) -> Any:
        """Return a copy of an array."""

    def place(self, out: Any, array: Any) -> None:
        """Copy the elements of array into out."""

    def multiply(self, array: Any, factor: Any) -> Any:
        """Return a new array, the product with a number or with a tensor of one element."""

    def overlap(self, one: Any, other: Any) -> bool:
        """Return whether two arrays may share memory."""

    def address(self, array: Any) -> int:
        """Return the address of an array."""

    def op_of(self, how: Reduction) -> str:
        """Return the name that the transport uses for a reduction."""

    def divide(self, how: Reduction, array: Any, size: int) -> None:
        """If `how` is a mean that the transport does not compute, divide the sum over `size`
        members in place.
        """


class HostMemory:
    """CPU memory; its arrays are NumPy arrays."""

    flat = staticmethod(arrays.flat)
    target = arrays.Target
    copy_back = staticmethod(arrays.copy_back)

    def empty(self, shape: int | tuple[int, ...], dtype: Any) -> NDArray[Any]:
        """Return an uninitialised array."""
        return np.empty(shape, dtype)

    def join(self, parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Return a new array, the concatenation of the parts."""
        return np.concatenate(parts)

    def copy(self, array: NDArray[Any]) -> NDArray[Any]:
        """Return a copy of an array."""
        return array.copy()

    def place(self, out: NDArray[Any], array: NDArray[Any]) -> None:
        """Copy the elements of array into out."""
        out[...] = array

    def multiply(self, array: NDArray[Any], factor: Any) -> NDArray[Any]:
        """Return a new array, the product with a number or with a tensor of one element."""
        number = factor.item() if isinstance(factor, Tensor) else factor
        return array * np.asarray(number, array.dtype)  # type: ignore[no-any-return]

    def overlap(self, one: NDArray[Any], other: NDArray[Any]) -> bool:
        """Return whether two arrays may share memory."""
        return np.may_share_memory(one, other)

    def address(self, array: NDArray[Any]) -> int:
        """Return the address of an array."""
        return array.ctypes.data

    def op_of(self, how: Reduction) -> str:
        """Return the name that the transport uses for a reduction; for a mean, that of the sum."""
        return how.op

    def divide(self, how: Reduction, array: NDArray[Any], size: int) -> None:
        """If `how` is a mean, divide the sum over `size` members in place."""
        how.divide(array, size)


HOST: Final = HostMemory()


def memory_of(transport: Any) -> Memory:
    """Return the Memory of a transport: its own, or CPU memory."""
    return transport.memory if isinstance(transport, GroupingTransport) else HOST
