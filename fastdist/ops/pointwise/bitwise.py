"""Ops on integers: bitwise operations, gcd and lcm."""

from __future__ import annotations

from ...dispatch.composite import composite
from ...dispatch.pointwise import pointwise
from ...dispatch.target import GivenOut, store_in_out
from ...tensor.tensor import Tensor
from .arithmetic import abs as abs_op
from .arithmetic import floor_divide
from .masked import where


@pointwise("bitwise_and(input, other)", dtype="integral")
def bitwise_and(input: Tensor, other: Tensor) -> Tensor:
    """Return the bitwise AND of input and other; for bools this is the logical AND."""


@pointwise("bitwise_or(input, other)", dtype="integral")
def bitwise_or(input: Tensor, other: Tensor) -> Tensor:
    """Return the bitwise OR of input and other; for bools this is the logical OR."""


@pointwise("bitwise_xor(input, other)", dtype="integral")
def bitwise_xor(input: Tensor, other: Tensor) -> Tensor:
    """Return the bitwise XOR of input and other; for bools this is the logical XOR."""


@pointwise("bitwise_not(input)", dtype="integral")
def bitwise_not(input: Tensor) -> Tensor:
    """Return the bitwise complement of input; for bools this is the logical NOT."""


@pointwise("bitwise_left_shift(input, other)", dtype="whole")
def bitwise_left_shift(input: Tensor, other: Tensor) -> Tensor:
    """Return input with its bits shifted left by `other` bits."""


@pointwise("bitwise_right_shift(input, other)", dtype="whole")
def bitwise_right_shift(input: Tensor, other: Tensor) -> Tensor:
    """Return input with its bits shifted right by `other` bits; the sign does not change."""


@pointwise("gcd(input, other)", dtype="whole", numbers="nowhere")
def gcd(input: Tensor, other: Tensor) -> Tensor:
    """Return the greatest common divisor of integers. The result is never negative."""


@composite(homes="function method inplace")
def lcm(input: Tensor, other: Tensor, *, out: GivenOut = None) -> Tensor:
    """Return the least common multiple of integers. The result is never negative. It is 0 if an
    operand is 0.
    """
    divisor = gcd(input, other)
    safe = where(divisor == 0, 1, divisor)
    result = abs_op(floor_divide(input, safe) * other)
    return store_in_out("lcm", out, result, (input, other), "cast", "apart")
