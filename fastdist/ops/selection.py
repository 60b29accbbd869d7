"""One of two values, by a condition."""

from __future__ import annotations

from typing import Any

from ..dispatch.batched_tensor import level_of, value_at
from ..dispatch.batching import pointwise as in_one_shape
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


@masked_fill.batches
def _(op: Any, operands: Any, attributes: Any, level: int) -> Any:
    input, mask, value = operands
    if level_of((value,)) < level:
        return in_one_shape(op, operands, attributes, level)
    found = where.public(mask, value.to(input.facts.dtype), input)  # a value has no axes
    return value_at(found, level)
