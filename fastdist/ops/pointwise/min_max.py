"""The larger or smaller of two tensors, element by element."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.dtypes import DType
from ...dispatch.pointwise import REFUSED, ZERO, pointwise
from ...tensor.tensor import Tensor
from ..refusals import floating_only

# Note [Gradients at ties]
# Where both operands of maximum are equal, each gets half of the gradient; fmax gives all of it to
# the first. Both are PyTorch's choices, and code that was tuned with one of them notices the other.


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
    """Return the larger of each two elements; NaN if either is. Equal ones share the gradient.

    Args:
        input: The tensor.
        other: The second tensor; it broadcasts with input.

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
    """Return the smaller of each two elements; NaN if either is. Equal ones share the gradient.

    Args:
        input: The tensor.
        other: The second tensor; it broadcasts with input.

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
    """Return the larger one; where one is NaN, the other."""


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
    """Return the smaller one; where one is NaN, the other."""


@pointwise(
    "where(input == T(0), values, maximum(sign(input), T(0)))",
    [REFUSED, REFUSED],
    numbers="nowhere",
    out="same",
)
def heaviside(input: Tensor, values: Tensor) -> Tensor:
    """Return 0 below zero, 1 above it, and values at zero."""


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
    """Return the floating-point number next to input on the way to other, which it is if both are
    equal: then it has no gradient, else input's is 1.
    """


nextafter.refusal(floating_only("nextafter_cpu"))
