"""Sums, products, quotients and powers, element by element."""

from __future__ import annotations

from ..dispatch.pointwise import pointwise
from ..tensor.tensor import Tensor


@pointwise("input + alpha * other", ["T(1)", "alpha"])
def add(input: Tensor, other: Tensor, *, alpha: float = 1) -> Tensor:
    """Return input + alpha * other.

    Shape   (...), (...) -> broadcast
    """


@pointwise("input * other", ["other", "input"])
def mul(input: Tensor, other: Tensor) -> Tensor:
    """Return input * other.

    Shape   (...), (...) -> broadcast
    """
