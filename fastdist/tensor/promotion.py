"""Type promotion: tensors with axes take precedence over 0-d tensors and numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core import dtypes
from ..core.dtypes import DType, bool_, complex_of, float32, float64, int64, promote
from ..core.errors import DTypeError
from ..core.folded_frames import folds
from ..core.short_repr import short_repr
from .constants import require_64_bits
from .layout import Layout
from .tensor import Tensor


class _Default:
    __slots__ = ("dtype",)

    def __init__(self) -> None:
        self.dtype = float32


default = _Default()


def get_default_dtype() -> DType:
    """Return the dtype of Python floats, and of new tensors that are made without `dtype`.

    Example:
        >>> torch.get_default_dtype()
        fastdist.float32
    """
    return default.dtype


def dtype_or_default(dtype: Any) -> DType:
    """Return the dtype that a user passed; None means the default dtype."""
    return default.dtype if dtype is None else dtypes.dtype_of(dtype)


@folds
def set_default_dtype(dtype: DType) -> None:
    """Make float16, float32 or float64 the default dtype, process-wide.

    Note    with the default float16, Python's complex numbers have the dtype complex64
    Raises  TypeError for a dtype that is not floating
    """
    if not isinstance(dtype, DType) or not dtype.is_floating_point:
        raise DTypeError(
            f"only floating-point types are supported as the default type, got {short_repr(dtype)}"
        )
    _ = dtype.numpy  # raises an error for a dtype that NumPy does not have
    default.dtype = dtype
    Layout.forget_routes()


def dtype_of_number(value: Any) -> DType:
    """Return the dtype that a Python or NumPy number has in an op.

    Raises  OverflowError for an integer that 64 bits cannot hold, TypeError for another type
    """
    if isinstance(value, bool):
        return bool_
    if isinstance(value, int):
        require_64_bits(value)
        return int64
    if isinstance(value, float):
        return default.dtype
    if isinstance(value, complex):
        return complex_of(default.dtype)
    if hasattr(value, "dtype"):
        found = dtypes.from_numpy(value.dtype)
        return default.dtype if found is float64 else found
    raise DTypeError(f"expected a number, got {type(value).__name__} {short_repr(value)}")


def result_dtype(operands: Sequence[Any]) -> DType:
    """Return the dtype to which tensors and numbers promote.

    A 0-d tensor or a number counts only if it is of a higher kind (bool < integer < floating) than
    the tensors with axes.
    """
    with_axes = zero_d = numbers = None
    for operand in operands:
        if isinstance(operand, Tensor):
            dtype = operand._layout.dtype
            if operand._layout.shape:
                with_axes = dtype if with_axes is None else promote(with_axes, dtype)
            else:
                zero_d = dtype if zero_d is None else promote(zero_d, dtype)
        else:
            dtype = dtype_of_number(operand)
            numbers = dtype if numbers is None else promote(numbers, dtype)
    found = _combine(_combine(with_axes, zero_d), numbers)
    assert found is not None, "an op without operands has no dtype"
    return found


def _combine(higher: DType | None, lower: DType | None) -> DType | None:
    if higher is None or lower is None:
        return lower if higher is None else higher
    if higher.category >= lower.category:
        return higher
    if higher.is_floating_point:
        return complex_of(higher)
    return lower if higher.is_bare else promote(higher, lower)


def can_cast(from_: DType, to: DType) -> bool:
    """Return whether a result of dtype `from_` may be stored in dtype `to`: the category of `to`
    must not be lower.
    """
    return from_.category <= to.category
