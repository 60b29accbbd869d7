"""The choice between two tensors by a condition."""

from __future__ import annotations

from typing import Any

from ...dispatch.composite import composite
from ...tensor.tensor import Tensor
from .masked import where as where_op


@composite(homes="function", known_as="")
def where(condition: Tensor, input: Any = None, other: Any = None, *, out: Any = None) -> Any:
    """Return input where condition is true, and other elsewhere. With condition alone, return the
    indices where it is true.

    Raises  TypeError if an argument is neither a tensor nor a number, or only one of input and
            other is given; RuntimeError if the shapes do not broadcast, or condition is neither
            bool nor uint8

    Args:
        condition: A tensor of bool, or of uint8 as in old programs: 0 is false. Without input and
            other, a tensor of any dtype.
        input: The values where condition is true, a tensor or a number; None: see Returns.
        other: The values elsewhere; None: see Returns.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the broadcast shape of condition, input and other, in the dtype to which input
        and other promote. With condition alone, a tuple of index tensors, as
        `nonzero(as_tuple=True)` returns.

    Example:
        >>> x = torch.tensor([-1.0, 2.0])
        >>> torch.where(x > 0, x, 0.0)
        tensor([0., 2.])
    """
    if input is None and other is None:
        return condition.nonzero(as_tuple=True)
    if input is None or other is None:
        raise TypeError("where(): give both input and other, or neither")
    return where_op.public(condition, input, other, out=out)
