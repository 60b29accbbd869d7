"""Division with a rounding_mode: true, floor or trunc."""

from __future__ import annotations

from typing import Any

from ...core.short_repr import short_repr
from ...dispatch.composite import composite
from ...dispatch.target import GivenOut
from ...tensor.promotion import result_dtype
from ...tensor.tensor import Tensor
from .arithmetic import add, floor_divide, floored_divide, fmod, trunc_divide
from .arithmetic import div as div_op


@composite(homes="function method inplace", known_as="")
def div(
    input: Any, other: Any, *, rounding_mode: str | None = None, out: GivenOut = None
) -> Tensor:
    """Return input / other; rounding_mode "floor" or "trunc" rounds the quotient to an integer.

    Raises  RuntimeError if the shapes do not broadcast, or rounding_mode is unknown; RuntimeError
            if integers are divided by 0 with a rounding_mode

    Args:
        input: The dividend, a tensor or a number.
        other: The divisor, a tensor or a number.
        rounding_mode: None for the true quotient, "trunc" to round toward 0, "floor" to round down.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the broadcast shape of input and other. For integers without a rounding_mode,
        the quotient has the default dtype.

    Example:
        >>> torch.div(torch.tensor([7, -7]), 2)
        tensor([ 3.5000, -3.5000])
        >>> torch.div(torch.tensor([7, -7]), 2, rounding_mode="floor")
        tensor([ 3, -4])
    """
    if rounding_mode is None:
        return div_op.public(input, other, out=out)
    if rounding_mode == "floor":
        return floored_divide.public(input, other, out=out)
    if rounding_mode != "trunc":
        raise RuntimeError(
            "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found "
            f"{short_repr(rounding_mode)}"
        )
    dtype = result_dtype([input, other])
    if dtype.is_floating_point:
        return trunc_divide.public(input, other, out=out)
    input, other = (o.to(dtype) if isinstance(o, Tensor) else o for o in (input, other))
    # fmod has the sign of input, so (input - fmod) / other is the quotient, rounded towards 0.
    rest = fmod(input, other)
    # -1 * rest is added, because input may be bool, and subtraction is not defined for bool.
    whole = add(input, rest, alpha=-1)
    return floor_divide.public(whole, other, out=out)
