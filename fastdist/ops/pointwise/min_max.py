"""Elementwise maximum and minimum of two tensors."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.dtypes import DType
from ...dispatch.pointwise import REFUSED, ZERO, pointwise
from ...tensor.tensor import Tensor
from ..refusals import floating_only

# Note [Gradients at ties]
# Where both operands of maximum are equal, each operand gets half of the gradient. In fmax the
# first operand gets the whole gradient. PyTorch makes the same choices, and models that were tuned
# with PyTorch may depend on these choices.


@pointwise(
    "maximum(input, other)",
    [
        "where(input == other, g / T(2), where(input < other, T(0), g))",
        "where(input == other, g / T(2), where(input > other, T(0), g))",
    ],
    numbers="nowhere",
    homes="function method",
)
def maximum(input: Tensor, other: Tensor) -> Tensor:
    """Return the larger of two elements; NaN if either is NaN. Equal elements share the gradient.

    Raises  NotImplementedError if an argument is complex; RuntimeError if the shapes do not
            broadcast

    Args:
        input: A real tensor; numbers of different dtypes are compared in the promoted dtype.
        other: The second tensor; it broadcasts with input.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the broadcast shape of input and other, in their promoted dtype.

    Example:
        >>> torch.maximum(torch.tensor([1, 5]), torch.tensor([3, 2]))
        tensor([3, 5])
    """


@pointwise(
    "minimum(input, other)",
    [
        "where(input == other, g / T(2), where(input > other, T(0), g))",
        "where(input == other, g / T(2), where(input < other, T(0), g))",
    ],
    numbers="nowhere",
    homes="function method",
)
def minimum(input: Tensor, other: Tensor) -> Tensor:
    """Return the smaller of two elements; NaN if either is NaN. Equal elements share the gradient.

    Raises  NotImplementedError if an argument is complex; RuntimeError if the shapes do not
            broadcast

    Args:
        input: A real tensor; numbers of different dtypes are compared in the promoted dtype.
        other: The second tensor; it broadcasts with input.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the broadcast shape of input and other, in their promoted dtype.

    Example:
        >>> torch.minimum(torch.tensor([1, 5]), torch.tensor([3, 2]))
        tensor([1, 2])
    """


@pointwise(
    "where(logical_or(input >= other, isnan(other)), input, other)",
    [
        "where(logical_or(input >= other, isnan(other)), g, T(0))",
        "where(logical_or(input >= other, isnan(other)), T(0), g)",
    ],
    numbers="nowhere",
    homes="function method",
)
def fmax(input: Tensor, other: Tensor) -> Tensor:
    """Return the larger of two elements; if one is NaN, return the other one."""


@pointwise(
    "where(logical_or(input <= other, isnan(other)), input, other)",
    [
        "where(logical_or(input <= other, isnan(other)), g, T(0))",
        "where(logical_or(input <= other, isnan(other)), T(0), g)",
    ],
    numbers="nowhere",
    homes="function method",
)
def fmin(input: Tensor, other: Tensor) -> Tensor:
    """Return the smaller of two elements; if one is NaN, return the other one."""


@pointwise(
    "where(input == T(0), values, maximum(sign(input), T(0)))",
    [REFUSED, REFUSED],
    numbers="nowhere",
    out="same",
)
def heaviside(input: Tensor, values: Tensor) -> Tensor:
    """Return 0 for negative input, 1 for positive input, and `values` where input is 0."""


@heaviside.refusal
def _(dtypes: Sequence[DType]) -> str | None:
    if len(set(dtypes)) == 1:
        return None
    return "heaviside is not yet implemented for tensors with different dtypes."


@pointwise(
    "nextafter(input, other)",
    ["where(input == other, T(0), g)", ZERO],
    dtype="number",
    numbers="nowhere",
)
def nextafter(input: Tensor, other: Tensor) -> Tensor:
    """Return the next floating-point number after input in the direction of `other`, or `other`
    where both are equal. The derivative by input is 1, or 0 where both are equal.
    """


nextafter.refusal(floating_only("nextafter_cpu"))
