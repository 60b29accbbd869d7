"""Rounding to a number of decimals."""

from __future__ import annotations

from ...core.errors import DTypeError
from ...dispatch.composite import composite
from ...dispatch.declaration import recorded_as
from ...dispatch.target import GivenOut, store_in_out
from ...tensor.tensor import Tensor
from .rounding import round as round_op


@composite(homes="function method inplace")
def round(input: Tensor, *, decimals: int = 0, out: GivenOut = None) -> Tensor:
    """Return each element rounded to a number of decimals; ties are rounded to the even neighbour.

    Raises  NotImplementedError if input is bool or complex

    Args:
        input: A real tensor of any dtype but bool; with decimals other than 0, a floating-point
            tensor.
        decimals: The number of decimals; -1 rounds to tens, -2 to hundreds, and so on.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.round(torch.tensor([0.5, 1.5, 2.345]), decimals=0)
        tensor([0., 2., 2.])
    """
    if decimals == 0:
        return round_op.public(input, out=out)
    if not input._layout.dtype.is_floating_point:
        raise DTypeError("round: decimals are for floating tensors")
    scale = 10.0 ** abs(decimals)
    if decimals > 0:
        rounded = round_op(input * scale) / scale
    else:
        rounded = round_op(input / scale) * scale
    rounded = recorded_as("RoundBackward1", rounded, ())
    return store_in_out("round", out, rounded, (input,), "cast", "apart")
