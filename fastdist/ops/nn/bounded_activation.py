"""Activations whose arguments are validated: celu and hardtanh."""

from __future__ import annotations

from ...core.dtypes import bool_, int64
from ...core.errors import DTypeError
from ...dispatch.composite import composite
from ...tensor.constants import held
from ...tensor.tensor import Tensor
from .activation import celu as celu_op
from .activation import hardtanh as hardtanh_op


@composite(homes="function functional")
def celu(input: Tensor, alpha: float = 1.0) -> Tensor:
    """Return input where it is positive, and alpha * (exp(input / alpha) - 1) elsewhere.

    Raises  RuntimeError if alpha is 0
    """
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    return celu_op(input, alpha=alpha)


@composite(homes="functional")
def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """Return input clamped to the range from min_val to max_val. If input has an integer dtype,
    both bounds are truncated first.

    Dtype   any but bool -> the same
    Raises  ValueError if min_val is larger than max_val, RuntimeError for bounds outside of the
            range of an integer dtype
    """
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    dtype = input._layout.dtype
    if not dtype.is_floating_point and dtype is not bool_:
        bounds = [held(bound, int64).item() for bound in (min_val, max_val)]
        if dtype.numpy.kind == "u" and bounds[0] < 0:
            raise DTypeError(
                "cannot do hardtanh on an unsigned type with negative limits: cast with .int()"
            )
        min_val, max_val = [held(bound, dtype).item() for bound in bounds]
    return hardtanh_op(input, min_val=min_val, max_val=max_val)
