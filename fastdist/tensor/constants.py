"""Python numbers as cached 0-d tensors: `x * 2` must not cost more than `x * y`."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ..core.device import CPU
from ..core.dtypes import DType, bool_, float32, float64, float_limits, int32, int64
from ..core.errors import DTypeError
from ..core.short_repr import short_repr
from ..kernels.cpu import float8
from .layout import Layout
from .tensor import Tensor, wrap

NUMBERS = frozenset({int, float})
_LIMIT = 1024
# The smallest integer that an op accepts with a tensor, and the first one that is too large. They
# are floats: Python compares a number with a float exactly, and faster than with a large integer.
_LEAST, _BEYOND = -(2.0**63), 2.0**64
_INFINITE = (math.inf, -math.inf)
_cache: dict[tuple[Any, ...], Tensor] = {}


def constant(value: Any, like: Tensor, exact: bool = False, may_be_negative: bool = True) -> Any:
    """Return `value` as a 0-d tensor of the dtype of `like`, or `value` itself if the general path
    must handle it. For half types the 0-d tensor has a wider dtype.
    See Note [Numbers next to half types].

    A floating dtype accepts any number without promotion. An integer dtype accepts the integers in
    its range. NaN is never cached, because a look-up would not find it.
    """
    dtype = like._layout.dtype
    found = _cache.get((value, dtype, exact))
    if found is not None:
        return found
    if not dtype.may_have_gradient:
        return _whole(value, dtype) if may_be_negative or value >= 0 else value
    if value == 0:
        # 0.0 == -0.0, but the two need separate keys.
        key: tuple[Any, ...] = (math.copysign(1.0, value), None, dtype, exact)
    elif value != value:
        return value
    elif _LEAST <= value < _BEYOND or value in _INFINITE:
        key = (value, dtype, exact)
    elif value.__class__ is int:
        return value  # the general path refuses it
    else:
        # The key contains the class: an equal integer of 70 bits must not find this entry.
        key = (value, float, dtype, exact)
        found = _cache.get(key)
        if found is not None:
            return found
    return _remember(value, dtype, key, exact=exact)


def _whole(value: Any, dtype: DType) -> Any:
    found = _cache.get((value, value.__class__, dtype))
    if found is not None:
        return found
    if value.__class__ is not int or dtype is bool_ or not fits(value, dtype.numpy):
        return value
    if value < 0 and dtype.numpy.kind == "u":
        return value  # it wraps around in computations with integers, but not in a quotient
    return _remember(value, dtype, (value, int, dtype))


def _remember(value: Any, dtype: DType, key: tuple[Any, ...], *, exact: bool = False) -> Any:
    if dtype.is_float8:
        return value  # the general path computes in float32, or raises an error
    found = _cache.get(key)
    if found is not None:
        return found
    try:
        with np.errstate(all="ignore"):
            array = np.asarray(value, np.float64 if dtype.may_have_gradient else None).astype(
                (dtype.computes_in if exact else dtype).numpy
            )
    except OverflowError:
        return value  # the general path raises the error
    if not _holds(dtype, value):
        return value
    if len(_cache) >= _LIMIT:
        _cache.clear()
    made = _cache[key] = tensor_of_number(value, array, dtype)
    return made


def tensor_of_number(value: Any, array: Any, dtype: DType) -> Tensor:
    """Return the tensor that represents `value` in ops with tensors of `dtype`; `array` holds the
    value.
    """
    wide = dtype.computes_in
    # A loop reads a single float16 or bfloat16 number more slowly than a float32 number.
    array = array.astype(wide.numpy, copy=False)
    array.flags.writeable = False  # hooks recognize a constant by this flag
    made = wrap(array, Layout.of_number(wide) if dtype.is_half else Layout.of(dtype, CPU, ()))
    made._made_of = value  # type: ignore[attr-defined]
    return made


def number_of(tensor: Tensor) -> Any:
    """Return the number that a tensor of this module represents; None for any other tensor."""
    return getattr(tensor, "_made_of", None)


def is_rounded_by_half(tensor: Tensor) -> bool:
    """Return whether a tensor is 0-d and has a floating dtype wider than the half types."""
    dtype = tensor._layout.dtype
    is_wider = not tensor._layout.shape and dtype.may_have_gradient and not dtype.is_half
    return is_wider and not _is_wider_number(tensor)


def with_numbers(operands: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return `operands` with numbers instead of those constant tensors that are wider than half
    types. If no other operand is a tensor, return `operands` unchanged.
    """
    wider = [isinstance(o, Tensor) and _is_wider_number(o) for o in operands]
    tensors = [isinstance(o, Tensor) for o in operands]
    if wider == tensors or not any(wider):
        return operands
    pairs = zip(operands, wider, strict=True)
    return tuple([one._array.item() if is_wider else one for one, is_wider in pairs])


def _is_wider_number(tensor: Tensor) -> bool:
    layout = tensor._layout
    return not layout.shape and layout is Layout.of_number(layout.dtype)


def as_operand(value: Any, dtype: DType) -> np.ndarray[Any, Any]:
    """Return a number as a 0-d NumPy array of `dtype`; every backend accepts this as a scalar.

    Raises  OverflowError for an integer that 64 bits cannot hold, TypeError for another type
    """
    if value.__class__ not in _PYTHON:
        value = _number_of(value)
        if isinstance(value, complex) and not dtype.is_complex:
            raise not_held(value, dtype)
    if value.__class__ is int:
        require_64_bits(value)
    with np.errstate(all="ignore"):
        array = np.asarray(value)
        return float8.rounded(array, dtype.numpy) if dtype.is_float8 else array.astype(dtype.numpy)


def require_64_bits(value: int) -> None:
    """Raise OverflowError for an integer that fits neither in int64 nor in uint64. PyTorch does not
    accept such an integer in an op with a tensor of any dtype.
    """
    if _LEAST <= value < _BEYOND:
        return
    found = "int too big to convert" if value > 0 else "can't convert negative int to unsigned"
    raise OverflowError(
        f"{found}: an int of {value.bit_length()} bits; a number next to a tensor is in -2**63 "
        "... 2**64 - 1, or is a float"
    )


def held(value: Any, dtype: DType) -> np.ndarray[Any, Any]:
    """Return as_operand(value, dtype), for a number that will be stored as an element.

    Raises  RuntimeError for a number outside the range of dtype
    """
    array = as_operand(value, dtype)
    require_held(value, dtype)
    return array


def placed(value: Any, dtype: DType) -> np.ndarray[Any, Any]:
    """Return held(value, dtype), except that half types round to inf. PyTorch rounds in this way
    where it first makes a tensor of the number, as in `x[0] = value`.
    """
    return (as_operand if dtype.is_half else held)(value, dtype)


def require_held(value: Any, dtype: DType) -> None:
    """Raise RuntimeError for a number outside the range of `dtype`, even if it would round to a
    number in the range.

    Raises  OverflowError for an integer that 64 bits cannot hold
    """
    if value.__class__ not in _PYTHON:
        value = _number_of(value)
    if value.__class__ is int:
        require_64_bits(value)
    if not _holds(dtype, value):
        raise not_held(value, dtype)


def not_held(value: Any, dtype: DType) -> RuntimeError:
    """Return the error for a number outside the range of dtype."""
    return RuntimeError(
        f"value cannot be converted to type {dtype.name} without overflow: {short_repr(value)}"
    )


def _holds(dtype: DType, value: Any) -> bool:
    """Return whether a number, rounded to dtype, is in the range of dtype."""
    if isinstance(value, bool) or dtype is bool_:
        return True
    if dtype.is_float8:
        return True  # casts to float8 saturate
    if dtype.may_have_gradient:
        most = _most(dtype)
        if value.__class__ is float and -most <= value <= most:
            return True
        return not (most < abs(value.real) < math.inf or most < abs(value.imag) < math.inf)
    return math.isfinite(value) and fits(value, dtype.numpy)


@functools.cache
def _most(dtype: DType) -> float:
    return float(float_limits(dtype.to_real()).max)


def fits(values: Any, dtype: np.dtype[Any]) -> bool:
    """Return whether `values`, a finite number or an array, are in the range of an integer dtype.
    As in PyTorch, numbers with a fraction are checked before they are truncated.

    Note    negative integers wrap around in uint8, as in PyTorch; negative fractions do not
    """
    limits, given = np.iinfo(dtype), getattr(values, "dtype", None)
    is_whole = isinstance(values, int) if given is None else given.kind != "f"
    low = -limits.max if dtype.kind == "u" and is_whole else limits.min
    # For a floating array, NumPy may round limits.max up to limits.max + 1, which is too large.
    return bool(np.all((values >= low) & (values <= limits.max) & (values < limits.max + 1)))


_PYTHON = frozenset({int, float, bool})


def _number_of(value: Any) -> Any:
    if isinstance(value, Tensor) and value._layout.numel == 1:
        return value.item()
    if (
        isinstance(value, np.generic | np.ndarray)
        and value.dtype.kind in "biufc"
        and not value.ndim
    ):
        return value
    if isinstance(value, int | float | complex):
        return value
    raise DTypeError(f"expected a number, got {type(value).__name__} {short_repr(value)}")


def is_plain_number(value: Any, dtype: DType) -> bool:
    """Return whether `value` is a small Python number that NumPy stores in `dtype` with the same
    result as PyTorch. Only dtypes of 4 or 8 bytes qualify; a float may be rounded.
    """
    kind = value.__class__
    if kind is float:
        # NaN and infinite numbers are excluded too.
        return dtype.is_floating_point and dtype.itemsize > 2 and -1e30 < value < 1e30
    return kind is int and dtype in _WIDE and -_SMALL < value < _SMALL


_SMALL = 1 << 31
_WIDE = frozenset({float32, float64, int32, int64})
