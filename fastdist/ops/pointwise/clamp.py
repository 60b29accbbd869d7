"""Clamping of elements to a range."""

from __future__ import annotations

from typing import Any

from ...dispatch.composite import composite
from ...dispatch.op import OPS
from ...dispatch.pointwise import pointwise
from ...dispatch.signature import ArgumentError
from ...dispatch.target import GivenOut, store_in_out
from ...tensor.methods import Number
from ...tensor.promotion import result_dtype
from ...tensor.tensor import Tensor

# Bounds of these common types need no further checks, which saves time for small tensors.
_PLAIN = frozenset({float, int, type(None)})


@composite(homes="function method inplace", known_as="")
def clamp(input: Tensor, min: Any = None, max: Any = None, *, out: GivenOut = None) -> Tensor:
    """Return input limited to the range from min to max. Both bounds may be numbers or tensors, and
    one may be None.

    Raises  RuntimeError if both bounds are None

    Args:
        input: A real tensor of any shape. NaN stays NaN.
        min: The lower bound; None means no lower bound.
        max: The upper bound; None means no upper bound. Where max is below min, the result is max.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.clamp(torch.tensor([-2.0, 0.5, 3.0]), min=0, max=1)
        tensor([0.0000, 0.5000, 1.0000])
    """
    if min is None and max is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    is_plain = min.__class__ in _PLAIN and max.__class__ in _PLAIN
    if not is_plain:
        min, max = _counted_alike(min, max), _counted_alike(max, min)
    if not is_plain and (isinstance(min, Tensor) or isinstance(max, Tensor)):
        result = _between_tensors(input, min, max)
    elif min is None:
        result = clamp_below(input, max)
    elif max is None:
        result = clamp_above(input, min)
    else:
        result = clamp_between(input, min, max)
    if out is None:
        return result  # type: ignore[no-any-return]
    return store_in_out("clamp", out, result, (input, min, max), "cast", "apart")


def _between_tensors(input: Tensor, min: Any, max: Any) -> Any:
    if isinstance(min, int | float) or isinstance(max, int | float):
        raise ArgumentError(
            "clamp() received an invalid combination of arguments: min is "
            f"{type(min).__name__}, max {type(max).__name__}; give two numbers or two Tensors"
        )
    result: Any = input
    if min is not None and max is not None:
        dtype = result_dtype([input, min, max])  # the common dtype of all three tensors
        result = input if dtype is input._layout.dtype else input.to(dtype)
    if min is not None:
        result = _bounded("clamp_above_tensor", result, min)
    if max is not None:
        result = _bounded("clamp_below_tensor", result, max)
    return result


def _counted_alike(bound: Any, other: Tensor | complex) -> Any:
    """Return `bound`; a 0-d tensor without a gradient becomes a number if `other` is a number."""
    if isinstance(bound, Tensor) and not bound._layout.shape and bound._edge is None:
        return bound.item() if isinstance(other, int | float) else bound
    return bound


def _bounded(name: str, input: Tensor, bound: Any) -> Tensor:
    return OPS[name](input, bound)  # type: ignore[no-any-return]


@composite(homes="function method inplace", node="clamp_min")
def clamp_min(input: Tensor, min: Tensor | Number | None, *, out: GivenOut = None) -> Tensor:
    """Return the larger of each element and the bound `min`.

    Raises  NotImplementedError if input is complex; RuntimeError if the shapes do not broadcast

    Args:
        input: A real tensor of any shape. NaN stays NaN.
        min: The lower bound, a number or a tensor.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.clamp_min(torch.tensor([-1.0, 2.0]), 0)
        tensor([0., 2.])
    """
    return clamp(input, min, None, out=out)


@composite(homes="function method inplace", node="clamp_max")
def clamp_max(input: Tensor, max: Tensor | Number | None, *, out: GivenOut = None) -> Tensor:
    """Return the smaller of each element and the bound `max`."""
    return clamp(input, None, max, out=out)


@pointwise(
    "minimum(maximum(input, lower), upper)",
    ["where(logical_and(input >= lower, input <= upper), g, T(0))"],
    dtype="number",
    homes="nowhere",
    known_as="clamp.1",
    exact="",  # bounds are rounded to the dtype of the elements
)
def clamp_between(input: Tensor, lower: float, upper: float) -> Tensor:
    """Return input clamped to the range from lower to upper."""


@pointwise(
    "maximum(input, bound)",
    ["where(input >= bound, g, T(0))"],
    dtype="number",
    homes="nowhere",
    known_as="clamp.1",
    exact="",  # the bound is rounded to the dtype of the elements
)
def clamp_above(input: Tensor, bound: float) -> Tensor:
    """Return the maximum of input and bound."""


@pointwise(
    "minimum(input, bound)",
    ["where(input <= bound, g, T(0))"],
    dtype="number",
    homes="nowhere",
    known_as="clamp.1",
    exact="",  # the bound is rounded to the dtype of the elements
)
def clamp_below(input: Tensor, bound: float) -> Tensor:
    """Return the minimum of input and bound."""


@pointwise(
    "maximum(input, bound)",
    ["where(input >= bound, g, T(0))", "where(input < bound, g, T(0))"],
    homes="nowhere",
    known_as="clamp",
)
def clamp_above_tensor(input: Tensor, bound: Tensor) -> Tensor:
    """Return the maximum of input and bound; where both are equal, input gets the gradient."""


@pointwise(
    "minimum(input, bound)",
    ["where(input <= bound, g, T(0))", "where(input > bound, g, T(0))"],
    homes="nowhere",
    known_as="clamp",
)
def clamp_below_tensor(input: Tensor, bound: Tensor) -> Tensor:
    """Return the minimum of input and bound; where both are equal, input gets the gradient."""
