"""To whole numbers: floor, ceil, round, trunc and the fraction that is left."""

from __future__ import annotations

from ..dispatch.pointwise import ZERO, pointwise
from ..tensor.tensor import Tensor


@pointwise("floor(input)", [ZERO])
def floor(input: Tensor) -> Tensor:
    """Return the largest whole number not above input; its gradient is 0."""


@pointwise("ceil(input)", [ZERO])
def ceil(input: Tensor) -> Tensor:
    """Return the smallest whole number not below input; its gradient is 0."""


@pointwise("round(input)", [ZERO])
def round(input: Tensor) -> Tensor:
    """Return the nearest whole number, the even one of two; its gradient is 0."""


@pointwise("trunc(input)", [ZERO])
def trunc(input: Tensor) -> Tensor:
    """Return input without its fraction; its gradient is 0."""


@pointwise("input - trunc(input)", ["T(1)"], dtype="number")
def frac(input: Tensor) -> Tensor:
    """Return the fraction of input, with its sign."""
