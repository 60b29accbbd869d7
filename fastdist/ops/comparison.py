"""Comparisons and tests, element by element; the result is bool."""

from __future__ import annotations

from ..dispatch.pointwise import pointwise
from ..tensor.tensor import Tensor


@pointwise("input == other", dtype="bool", numbers="not first")
def eq(input: Tensor, other: Tensor) -> Tensor:
    """Return whether input == other."""


@pointwise("input != other", dtype="bool", numbers="not first")
def ne(input: Tensor, other: Tensor) -> Tensor:
    """Return whether input != other."""


@pointwise("input < other", dtype="bool", numbers="not first")
def lt(input: Tensor, other: Tensor) -> Tensor:
    """Return whether input < other."""


@pointwise("input <= other", dtype="bool", numbers="not first")
def le(input: Tensor, other: Tensor) -> Tensor:
    """Return whether input <= other."""


@pointwise("input > other", dtype="bool", numbers="not first")
def gt(input: Tensor, other: Tensor) -> Tensor:
    """Return whether input > other."""


@pointwise("input >= other", dtype="bool", numbers="not first")
def ge(input: Tensor, other: Tensor) -> Tensor:
    """Return whether input >= other."""


@pointwise("isnan(input)", dtype="bool")
def isnan(input: Tensor) -> Tensor:
    """Return whether input is NaN."""


@pointwise("isinf(input)", dtype="bool")
def isinf(input: Tensor) -> Tensor:
    """Return whether input is an infinity."""


@pointwise("isfinite(input)", dtype="bool")
def isfinite(input: Tensor) -> Tensor:
    """Return whether input is neither an infinity nor NaN."""


@pointwise("logical_and(isinf(input), input > T(0))", dtype="bool")
def isposinf(input: Tensor) -> Tensor:
    """Return whether input is +inf."""


@pointwise("logical_and(isinf(input), input < T(0))", dtype="bool")
def isneginf(input: Tensor) -> Tensor:
    """Return whether input is -inf."""


@pointwise("signbit(input)", dtype="bool")
def signbit(input: Tensor) -> Tensor:
    """Return whether input carries a minus sign, as -0.0 does."""


@pointwise("logical_not(input)", dtype="bool")
def logical_not(input: Tensor) -> Tensor:
    """Return whether input is 0."""


@pointwise("logical_and(input, other)", dtype="bool", numbers="nowhere")
def logical_and(input: Tensor, other: Tensor) -> Tensor:
    """Return whether neither input nor other is 0."""


@pointwise("logical_or(input, other)", dtype="bool", numbers="nowhere")
def logical_or(input: Tensor, other: Tensor) -> Tensor:
    """Return whether input or other is not 0."""


@pointwise("logical_xor(input, other)", dtype="bool", numbers="nowhere")
def logical_xor(input: Tensor, other: Tensor) -> Tensor:
    """Return whether exactly one of input and other is 0."""
