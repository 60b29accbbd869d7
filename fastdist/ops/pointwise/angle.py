"""The angle of real numbers, as numbers of the complex plane."""

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
    """Return 0 for non-negative numbers, pi for negative ones, and NaN for NaN; the
    gradient is 0.
    """
