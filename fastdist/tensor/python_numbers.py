"""Tensor's conversions to NumPy arrays and Python numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.caller_warning import warn_caller
from ..core.device import CPU
from ..core.errors import NoDataError
from ..core.folded_frames import fold
from ..core.short_repr import short_repr
from ..devices.backend import backend_of
from .layout import Layout
from .printing import in_plain_numbers


class PythonNumbers:
    """A base class of Tensor, with the conversions."""

    __slots__ = ()
    _array: Any
    _edge: Any
    _layout: Layout

    def to_numpy(self) -> np.ndarray[Any, Any]:
        """Return the elements as a NumPy array. It shares the memory of a tensor on the CPU, and is
        a copy of a tensor on another device.

        Thread  waits until the device has computed the elements
        Raises  TypeError for a sparse tensor
        """
        if self._layout.is_sparse:
            self._array.__array__()
        if self._array.__class__ is np.ndarray:
            return self._array
        return backend_of(self._layout.device.type).to_numpy(self._array)

    def item(self) -> int | float | bool:
        """Return the only element as a Python number.

        Raises  RuntimeError if the tensor does not have exactly one element
        """
        try:
            layout = self._layout
            if layout.numel != 1:
                raise RuntimeError(
                    f"a Tensor with {layout.numel} elements cannot be converted to Scalar: its "
                    f"shape is {layout.shape}; index one element, or call tolist()"
                )
            if layout.is_sparse:
                return self._array.sum_of_entries()  # type: ignore[no-any-return]
            try:
                found: Any = self._array if layout.device is CPU else self.to_numpy()
            except NoDataError as error:
                unnamed = NoDataError("Tensor.item() cannot be called on meta tensors")
                raise (error if error.op else unnamed) from None
            return (in_plain_numbers(found) if layout.dtype.is_float8 else found).item()  # type: ignore[no-any-return]
        except Exception as error:
            fold(error)
            raise

    def tolist(self) -> Any:
        """Return the elements as nested lists of Python numbers.

        Returns:
            A list with one level for each axis; a number for a tensor without axes.

        Example:
            >>> torch.tensor([[1, 2], [3, 4]]).tolist()
            [[1, 2], [3, 4]]
        """
        try:
            found = self.to_numpy()
            return (in_plain_numbers(found) if self._layout.dtype.is_float8 else found).tolist()
        except Exception as error:
            fold(error)
            raise

    def __bool__(self) -> bool:
        try:
            if self._layout.numel != 1:
                what = "no values" if self._layout.numel == 0 else "more than one value"
                raise RuntimeError(
                    f"Boolean value of Tensor with {what} is ambiguous: its shape is "
                    f"{self._layout.shape}; ask any() or all() of it"
                )
            return bool(self.item())
        except Exception as error:
            fold(error)
            raise

    def __float__(self) -> float:
        try:
            return float(_real_number(self._only(), "double"))
        except Exception as error:
            fold(error)
            raise

    def __complex__(self) -> complex:
        try:
            return complex(self._only())
        except Exception as error:
            fold(error)
            raise

    def __int__(self) -> int:
        try:
            return int(_real_number(self._only(), "int64_t"))
        except Exception as error:
            fold(error)
            raise

    def _only(self) -> Any:
        if self._layout.numel != 1:
            raise ValueError(
                "only one element tensors can be converted to Python scalars: this one has shape "
                f"{self._layout.shape}"
            )
        if self._edge is not None:
            warn_caller(
                "Converting a tensor with requires_grad=True to a scalar may lead to unexpected "
                "behavior.\nConsider using tensor.detach() first.",
                once=True,
            )
        return self.item()

    def __index__(self) -> int:
        try:
            if self._layout.dtype.may_have_gradient or self._layout.numel != 1:
                raise TypeError(
                    "only integer tensors of a single element can be converted to an index"
                )
            return int(self.item())
        except Exception as error:
            fold(error)
            raise


def _real_number(value: Any, kind: str) -> Any:
    """Return a number, or the real part of a complex number.

    Raises  RuntimeError if the imaginary part is not 0
    """
    if not isinstance(value, complex):
        return value
    if value.imag:
        raise RuntimeError(
            f"value cannot be converted to type {kind} without overflow: {short_repr(value)}; "
            "take .real"
        )
    return value.real
