"""Elementwise comparisons and tests; the result is bool."""

from __future__ import annotations

from ...dispatch.pointwise import pointwise
from ...tensor.tensor import Tensor


@pointwise("input == other", dtype="bool", numbers="not first", takes_complex=True)
def eq(input: Tensor, other: Tensor) -> Tensor:
    """Return whether elements are equal; NaN is not equal to anything.

    Raises  RuntimeError if the shapes do not broadcast

    Args:
        input: A tensor of any dtype; numbers of different dtypes are compared by value.
        other: A tensor or a number; it broadcasts with input.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of bool.

    Example:
        >>> torch.eq(torch.tensor([1, 2]), 2)
        tensor([False,  True])
    """


@pointwise("input != other", dtype="bool", numbers="not first", takes_complex=True)
def ne(input: Tensor, other: Tensor) -> Tensor:
    """Return whether elements differ; NaN differs from everything, including NaN.

    Args:
        input: A tensor of any dtype; numbers of different dtypes are compared by value.
        other: A tensor or a number; it broadcasts with input.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of bool.

    Example:
        >>> torch.ne(torch.tensor([1, 2]), 2)
        tensor([ True, False])
    """


@pointwise("input < other", dtype="bool", numbers="not first")
def lt(input: Tensor, other: Tensor | complex) -> Tensor:
    """Return whether input < other."""


@pointwise("input <= other", dtype="bool", numbers="not first")
def le(input: Tensor, other: Tensor) -> Tensor:
    """Return whether input <= other."""


@pointwise("input > other", dtype="bool", numbers="not first")
def gt(input: Tensor, other: Tensor) -> Tensor:
    """Return whether input > other."""


@pointwise("input >= other", dtype="bool", numbers="not first")
def ge(input: Tensor, other: Tensor | complex) -> Tensor:
    """Return whether input >= other."""


@pointwise("isnan(input)", dtype="bool", takes_complex=True, homes="function method")
def isnan(input: Tensor) -> Tensor:
    """Return whether input is NaN.

    Raises  TypeError if input is neither a tensor nor a number

    Args:
        input: A tensor of any dtype. A complex number is NaN if one of its parts is; integers are
            not.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of bool of the same shape.

    Example:
        >>> torch.isnan(torch.tensor([1.0, float("nan")]))
        tensor([False,  True])
    """


@pointwise("isinf(input)", dtype="bool", takes_complex=True, homes="function method")
def isinf(input: Tensor) -> Tensor:
    """Return whether input is inf or -inf.

    Raises  TypeError if input is neither a tensor nor a number

    Args:
        input: A tensor of any dtype. A complex number is infinite if one of its parts is.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of bool of the same shape.

    Example:
        >>> torch.isinf(torch.tensor([1.0, float("-inf")]))
        tensor([False,  True])
    """


@pointwise("isfinite(input)", dtype="bool", takes_complex=True, homes="function method")
def isfinite(input: Tensor) -> Tensor:
    """Return whether input is neither infinite nor NaN.

    Raises  TypeError if input is neither a tensor nor a number

    Args:
        input: A tensor of any dtype. A complex number is finite if both parts are; integers always
            are.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of bool of the same shape.

    Example:
        >>> torch.isfinite(torch.tensor([1.0, float("inf"), float("nan")]))
        tensor([ True, False, False])
    """


@pointwise(
    "logical_and(isinf(input), input > T(0))", dtype="bool", homes="function method", out="same"
)
def isposinf(input: Tensor) -> Tensor:
    """Return whether input is +inf."""


@pointwise(
    "logical_and(isinf(input), input < T(0))", dtype="bool", homes="function method", out="same"
)
def isneginf(input: Tensor) -> Tensor:
    """Return whether input is -inf."""


@pointwise("signbit(input)", dtype="bool", homes="function method", out="same")
def signbit(input: Tensor) -> Tensor:
    """Return whether the sign bit of each element is set, which includes -0.0."""


@pointwise("logical_not(input)", dtype="bool", takes_complex=True)
def logical_not(input: Tensor) -> Tensor:
    """Return whether each element is 0.

    Args:
        input: A tensor of any dtype. NaN is not 0.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of bool of the same shape.

    Example:
        >>> torch.logical_not(torch.tensor([1, 0]))
        tensor([False,  True])
    """


@pointwise("logical_and(input, other)", dtype="bool", numbers="nowhere", takes_complex=True)
def logical_and(input: Tensor, other: Tensor) -> Tensor:
    """Return whether the elements of input and other are both nonzero.

    Raises  RuntimeError if the shapes do not broadcast

    Args:
        input: A tensor of any dtype. NaN counts as nonzero.
        other: The second tensor; it broadcasts with input.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of bool.

    Example:
        >>> torch.logical_and(torch.tensor([1, 0]), torch.tensor([2, 3]))
        tensor([ True, False])
    """


@pointwise("logical_or(input, other)", dtype="bool", numbers="nowhere", takes_complex=True)
def logical_or(input: Tensor, other: Tensor) -> Tensor:
    """Return whether the element of input or the element of other is nonzero."""


@pointwise("logical_xor(input, other)", dtype="bool", numbers="nowhere", takes_complex=True)
def logical_xor(input: Tensor, other: Tensor) -> Tensor:
    """Return whether exactly one of the elements of input and other is nonzero."""
