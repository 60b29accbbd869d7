"""The angle of real numbers in the complex plane."""

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
    """Return 0 for non-negative numbers, pi for negative numbers, and NaN for NaN. The gradient
    is 0.
    """
