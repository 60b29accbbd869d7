"""Rounding to integers: floor, ceil, round, trunc and frac."""

from __future__ import annotations

from ...dispatch.pointwise import ZERO, pointwise
from ...tensor.tensor import Tensor
from ..refusals import floating_only, no_bool


@pointwise("floor(input)", [ZERO])
def floor(input: Tensor) -> Tensor:
    """Return each element rounded down to an integer; the gradient is 0.

    Raises  NotImplementedError if input is bool or complex

    Args:
        input: A real tensor of any dtype but bool. The dtype is kept, so integers are unchanged.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.floor(torch.tensor([1.8, -1.2]))
        tensor([ 1., -2.])
    """


floor.refusal(no_bool("floor_vml_cpu"))


@pointwise("ceil(input)", [ZERO])
def ceil(input: Tensor) -> Tensor:
    """Return each element rounded up to an integer; the gradient is 0.

    Raises  NotImplementedError if input is bool or complex

    Args:
        input: A real tensor of any dtype but bool. The dtype is kept, so integers are unchanged.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.ceil(torch.tensor([1.2, -1.2]))
        tensor([ 2., -1.])
    """


ceil.refusal(no_bool("ceil_vml_cpu"))


@pointwise("round(input)", [ZERO])
def round(input: Tensor) -> Tensor:
    """Return the nearest integer, or the even one of two equally near; the gradient is 0."""


round.refusal(no_bool("round_vml_cpu"))


@pointwise("trunc(input)", [ZERO])
def trunc(input: Tensor) -> Tensor:
    """Return input rounded towards 0; the gradient is 0."""


trunc.refusal(no_bool("trunc_vml_cpu"))


@pointwise("input - trunc(input)", ["T(1)"], dtype="number")
def frac(input: Tensor) -> Tensor:
    """Return the fractional part of each element; it has the sign of the element."""


frac.refusal(floating_only("frac_cpu"))
