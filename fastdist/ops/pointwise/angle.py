"""The angle of real numbers, seen as complex ones."""

from __future__ import annotations

from ...dispatch.pointwise import ZERO, pointwise
from ...tensor.tensor import Tensor


@pointwise(
    "where(input < T(0), T(3.141592653589793), where(input == input, T(0), input))",
    [ZERO],
    dtype="floating",
    homes="function method",
)
def angle(input: Tensor) -> Tensor:
    """Return 0 for numbers from 0 on, pi for those below, NaN for NaN; its gradient is 0."""
