"""Checks that raise an error if a condition is False: `_assert`, `_check` and related functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.dtypes import bool_
from ..interpreters.torch_function import overridable
from ..tensor.tensor import Tensor

_Message = Callable[[], object] | None


@overridable
def _assert(condition: Any, message: str) -> None:
    """Raise AssertionError with the message if the condition is False."""
    assert condition, message


def _check_with(error_type: type[Exception], cond: Any, message: _Message = None) -> None:
    """Raise an error of the given type if the condition is False.

    Raises  TypeError if the condition is a tensor, or the message is not a function

    Args:
        error_type: The error's class.
        cond: A bool.
        message: A function that returns the error's text.
    """
    if isinstance(cond, Tensor):
        raise TypeError(
            "cond must be a bool, but got a Tensor. For tensor conditions, use "
            "torch._check_tensor_all() to assert that all elements are true."
        )
    if cond:
        return
    if message is None:
        raise error_type("Expected cond to be True, but got False.")
    if not callable(message):
        raise TypeError("message must be a callable")
    raise error_type(str(message()))


def _check(cond: Any, message: _Message = None) -> None:
    """Raise RuntimeError if the condition is False: see _check_with."""
    _check_with(RuntimeError, cond, message)


def _check_index(cond: Any, message: _Message = None) -> None:
    """Raise IndexError if the condition is False: see _check_with."""
    _check_with(IndexError, cond, message)


def _check_value(cond: Any, message: _Message = None) -> None:
    """Raise ValueError if the condition is False: see _check_with."""
    _check_with(ValueError, cond, message)


def _check_type(cond: Any, message: _Message = None) -> None:
    """Raise TypeError if the condition is False: see _check_with."""
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond: Any, message: _Message = None) -> None:
    """Raise NotImplementedError if the condition is False: see _check_with."""
    _check_with(NotImplementedError, cond, message)


def _check_is_size(i: Any, message: _Message = None, *, max: int | None = None) -> None:
    """Raise RuntimeError if a number is negative or above the maximum."""
    _check(i >= 0, message)
    _check(max is None or i <= max, message)


def _check_tensor_all_with(
    error_type: type[Exception], cond: Tensor, message: _Message = None
) -> None:
    """Raise an error of the given type if an element of a tensor is False.

    Raises  TypeError if the condition is not a tensor of bool

    Args:
        error_type: The error's class.
        cond: A tensor of bool.
        message: A function that returns the error's text.
    """
    if not isinstance(cond, Tensor):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    if cond.dtype is not bool_:
        raise TypeError(f"cond tensor must have dtype torch.bool, but got {cond.dtype}")
    _check_with(error_type, bool(cond.all().item()), message)


def _check_tensor_all(cond: Tensor, message: _Message = None) -> None:
    """Raise RuntimeError if an element of a tensor is False: see _check_tensor_all_with."""
    _check_tensor_all_with(RuntimeError, cond, message)


def _assert_async(
    input: Tensor, assert_msg: str = "Expected Tensor with single nonzero value, but got zero"
) -> None:
    """Raise RuntimeError with the message if a one-element tensor is 0; this waits for a GPU."""
    if not input.item():
        raise RuntimeError(assert_msg)
