"""One of two values, by a condition."""

from __future__ import annotations

from ..dispatch.pointwise import pointwise
from ..tensor.tensor import Tensor


@pointwise(
    "where(condition, input, other)",
    [None, "where(condition, g, T(0))", "where(condition, T(0), g)"],
    takes_complex=True,
    homes="function",
)
def where(condition: Tensor, input: Tensor, other: Tensor) -> Tensor:
    """Return input where condition holds, other elsewhere."""


@pointwise(
    "where(mask, value, input)",
    ["where(mask, T(0), g)", None, "where(mask, g, T(0))"],
    dtype="first",
    takes_complex=True,
)
def masked_fill(input: Tensor, mask: Tensor, value: Tensor) -> Tensor:
    """Return input with value (a number or a 0-d tensor) where mask holds."""
