"""The choice between two tensors by a condition."""

from __future__ import annotations

from typing import Any

from ...dispatch.composite import composite
from ...tensor.tensor import Tensor
from .masked import where as where_op


@composite(homes="function", known_as="")
def where(condition: Tensor, input: Any = None, other: Any = None, *, out: Any = None) -> Any:
    """Return input where condition holds, other elsewhere; of condition alone, where it holds."""
    if input is None and other is None:
        return condition.nonzero(as_tuple=True)
    if input is None or other is None:
        raise TypeError("where(): give both input and other, or neither")
    return where_op.public(condition, input, other, out=out)
