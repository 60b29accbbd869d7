"""Errors of pointwise ops for dtypes that PyTorch's kernels do not support."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from ..core.dtypes import WORDS, DType, bool_, promote
from ..core.errors import DTypeError, NoKernelError
from ..core.short_repr import short_repr
from ..tensor.layout import Layout
from ..tensor.promotion import can_cast
from ..tensor.tensor import Tensor


def floating_only(kernel: str) -> Callable[[Sequence[DType]], str | None]:
    """Return a check that requires a floating operand, and otherwise returns the error text of
    PyTorch's kernel.

    An integer dtype could not hold the result.
    """

    def tell(dtypes: Sequence[DType]) -> str | None:
        met = reduce(promote, dtypes)
        if met.is_floating_point:
            return None
        return f'"{kernel}" not implemented for {WORDS[met]!r}: cast one to a floating dtype.'

    return tell


def no_bool(kernel: str) -> Callable[[Sequence[DType]], str | None]:
    """Return a check that refuses operands if all are bool, with the error text of PyTorch's
    kernel.
    """

    def tell(dtypes: Sequence[DType]) -> str | None:
        if any(dtype is not bool_ for dtype in dtypes):
            return None
        return f"\"{kernel}\" not implemented for 'Bool': cast one with .to(fastdist.int64)."

    return tell


def no_bool_operand(words: str) -> Callable[[Sequence[DType]], str | None]:
    """Return a check that refuses a bool operand, with PyTorch's text. In `words`, `{}` is replaced
    by a description of the operands.
    """

    def tell(dtypes: Sequence[DType]) -> str | None:
        if bool_ not in dtypes:
            return None
        what = words.format(
            "two bool tensors" if list(dtypes) == [bool_, bool_] else "a bool tensor"
        )
        return f"{what}; use logical_* or bitwise_* ops, or cast with .to(fastdist.int64)."

    return tell


def require_floating_inputs(kernel: str, *tensors: Tensor) -> None:
    """Raise NotImplementedError for integer tensors, which PyTorch's kernel does not support."""
    for tensor in tensors:
        dtype = tensor._layout.dtype
        if not dtype.is_floating_point:
            raise NoKernelError(
                f'"{kernel}" not implemented for {WORDS[dtype]!r}: cast it with .float()'
            )


def as_dtype_of(like: Tensor, result: Tensor) -> Any:
    """Return result in the dtype of `like`, in which some ops of PyTorch allocate their result.

    Raises  RuntimeError if that would be a cast to a lower category, such as floating to integer
    """
    found, wanted = result._layout.dtype, like._layout.dtype
    if found is wanted:
        return result
    if not can_cast(found, wanted):
        raise DTypeError(
            f"result type {WORDS[found]} can't be cast to the desired output type "
            f"{WORDS[wanted]}: cast what is {wanted.name} with .to(fastdist.{found.name})"
        )
    return result.to(wanted)


def require_given(name: str, argument: str, values: tuple[Any, ...]) -> None:
    """Raise TypeError if an argument that takes several numbers is missing; values holds the
    numbers.
    """
    if not values:
        raise TypeError(f'{name}() missing 1 required positional arguments: "{argument}"')


def require_dtype_of_norm(layout: Layout, *parameters: Tensor | None) -> None:
    """Raise RuntimeError if a parameter of a norm has a different dtype than its input. float32
    parameters are allowed for inputs of half types.
    """
    dtype = layout.dtype
    for one in parameters:
        found = None if one is None else one._layout.dtype
        if found not in (None, dtype, dtype.computes_in):
            raise DTypeError(
                "mixed dtype (CPU): all inputs must share same datatype.: input is "
                f"{short_repr(dtype)}, a parameter {short_repr(found)}; cast one with .to()"
            )


def refuse_complex(name: str, *tensors: Tensor) -> None:
    """Raise NoKernelError for complex tensors."""
    for tensor in tensors:
        dtype = tensor._layout.dtype
        if dtype.is_complex:
            raise NoKernelError(f'"{name}" not implemented for {WORDS[dtype]!r}: take its parts')
