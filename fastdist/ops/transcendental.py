"""Exponentials, logarithms, roots and trigonometry, element by element."""

from __future__ import annotations

from ..dispatch.pointwise import pointwise
from ..tensor.tensor import Tensor


@pointwise("exp(input)", ["out"], dtype="floating")
def exp(input: Tensor) -> Tensor:
    """Return e to the power of input."""


@pointwise("neg(input)", ["T(-1)"], dtype="number")
def neg(input: Tensor) -> Tensor:
    """Return -input."""


@pointwise("input - alpha * other", ["T(1)", "-alpha"], dtype="number")
def sub(input: Tensor, other: Tensor, *, alpha: float = 1) -> Tensor:
    """Return input - alpha * other."""


@pointwise("where(condition, input, other)", [None, "where(condition, g, T(0))", "where(condition, T(0), g)"])
def where(condition: Tensor, input: Tensor, other: Tensor) -> Tensor:
    """Return input where condition holds, other elsewhere."""


@pointwise("input > other", dtype="bool")
def gt(input: Tensor, other: Tensor) -> Tensor:
    """Return whether input > other."""
