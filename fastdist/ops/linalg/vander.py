"""Vandermonde matrices."""

from __future__ import annotations

from typing import Any

from ...core.dtypes import int64
from ...core.errors import ShapeError
from ...dispatch.composite import composite
from ...tensor.tensor import Tensor
from ..create.ranges import arange


@composite(homes="function", node="flip")
def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """Return a matrix whose row i has the powers of x[i], in descending order by default."""
    if len(x._layout.shape) != 1:
        raise ShapeError("x must be a one-dimensional tensor.")
    count = x._layout.numel if N is None else N
    if count < 0:
        raise ShapeError(f"N must be non-negative, got {count}")
    powers = arange(count, device=x._layout.device)
    made: Any = x.unsqueeze(-1) ** (powers if increasing else powers.flip(0))
    return made if x._layout.dtype.may_have_gradient else made.to(int64)  # type: ignore[no-any-return]
