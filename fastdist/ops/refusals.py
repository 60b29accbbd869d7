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
    """Return a check of dtypes for ops whose results an integer dtype cannot hold.

    If no operand is floating, the check returns the error text of PyTorch's kernel.
    """

    def tell(dtypes: Sequence[DType]) -> str | None:
        met = reduce(promote, dtypes)
        if met.is_floating_point:
            return None
        return f'"{kernel}" not implemented for {WORDS[met]!r}: cast one to a floating dtype.'

    return tell


def no_bool(kernel: str) -> Callable[[Sequence[DType]], str | None]:
    """Return a check of dtypes that refuses operands if all are bool, with the error text of
    PyTorch's kernel.
    """

    def tell(dtypes: Sequence[DType]) -> str | None:
        if any(dtype is not bool_ for dtype in dtypes):
            return None
        return f"\"{kernel}\" not implemented for 'Bool': cast one with .to(fastdist.int64)."

    return tell


def no_bool_operand(words: str) -> Callable[[Sequence[DType]], str | None]:
    """Return a check of dtypes that refuses a bool operand, with PyTorch's text. In `words`, `{}`
    is replaced by a description of the operands.
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
    """Return `result`, cast to the dtype of `like`, as some ops of PyTorch do.

    Raises  RuntimeError if the cast is to a lower category, such as from floating to integer
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
    """Raise TypeError if `values`, the numbers that a caller passes as `argument`, is empty."""
    if not values:
        raise TypeError(f'{name}() missing 1 required positional arguments: "{argument}"')


def require_dtype_of_norm(layout: Layout, *parameters: Tensor | None) -> None:
    """Raise RuntimeError if a parameter of a normalization has a different dtype than the input.
    For inputs of half types, float32 parameters are allowed.
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
    """Raise NotImplementedError for complex tensors."""
    for tensor in tensors:
        dtype = tensor._layout.dtype
        if dtype.is_complex:
            raise NoKernelError(f'"{name}" not implemented for {WORDS[dtype]!r}: take its parts')
