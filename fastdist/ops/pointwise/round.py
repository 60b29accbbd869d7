"""Rounding to a number of decimals."""

from __future__ import annotations

from typing import Any

from ...core.errors import DTypeError
from ...dispatch.composite import composite
from ...dispatch.declaration import recorded_as
from ...dispatch.target import store_in_out
from ...tensor.tensor import Tensor
from .rounding import round as round_op


@composite(homes="function method inplace")
def round(input: Tensor, *, decimals: int = 0, out: Any = None) -> Tensor:
    """Return the nearest number with so many decimals, the even one of two."""
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
