"""PyTorch's nn.functional: activations, losses, normalisation and layers as functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.caller_warning import warn_caller as _warn_caller
from ..core.folded_frames import fold as _fold
from ..core.torch_function import NOT_TAKEN as _NOT_TAKEN
from ..core.torch_function import offer as _offer
from ..dispatch.declaration import recorded_as as _recorded_as
from ..graph.modes import modes as _modes
from ..interpreters.torch_function import overridable as _offering
from ..namespace.load import FUNCTIONAL_NAMES
from ..tensor.axes import normalize_axis as _normalize_axis
from ..tensor.tensor import Tensor

_ops: dict[str, Callable[..., Tensor]] = FUNCTIONAL_NAMES
# These functions are used unchanged. Each function defined below does more than call one of them.
globals().update(_ops)


@_offering
def rrelu_(
    input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False
) -> Tensor:
    """Compute rrelu(input) in place."""
    return _ops["rrelu"](input, lower, upper, training, inplace=True)


@_offering
def glu(input: Tensor, dim: int = -1) -> Tensor:
    """Return the first half of input along dim times the sigmoid of the second half.

    Raises  RuntimeError if the length of dim is odd
    """
    if not input.dim():
        raise RuntimeError("glu does not support scalars because halving size must be even")
    n = input.shape[_normalize_axis("glu", dim, input.dim())]
    if n % 2:
        raise RuntimeError(
            f"Halving dimension must be even, but dimension {dim % input.dim()} is size {n}"
        )
    found = input.narrow(dim, 0, n // 2) * _ops["sigmoid"](input.narrow(dim, n // 2, n // 2))
    return _recorded_as("GluBackward0", found, ())


def _softmax_dim(name: str, input: Tensor, dim: int | None) -> int:
    """Return dim; if dim is None, warn as PyTorch does, and return the axis that PyTorch uses."""
    if dim is not None:
        return dim
    _warn_caller(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include "
        "dim=X as an argument."
    )
    return 0 if input.dim() in (0, 1, 3) else 1


def softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """Return exp(input) divided by the sum of exp(input) along dim, without overflow.

    Raises  IndexError if dim is out of range; NotImplementedError if input is not floating-point,
            and dtype is None

    Args:
        input: A floating-point tensor; integers need dtype. A slice with NaN or inf, or of -inf
            alone, gives NaN.
        dim: The axis along which the result sums to 1; if None, axis 0 or 1 is chosen, with a
            warning.
        dtype: The dtype of the computation and the result; input's dtype if None.

    Example:
        >>> F.softmax(torch.tensor([1.0, 2.0, 3.0]), dim=0)
        tensor([0.0900, 0.2447, 0.6652])
    """
    try:
        if input.__class__ not in _modes.plain:
            found = _offer(softmax, (input,), {"dim": dim, "_stacklevel": 3, "dtype": dtype})
            if found is not _NOT_TAKEN:
                return found  # type: ignore[no-any-return]
        return _ops["softmax"](input, _softmax_dim("softmax", input, dim), dtype)
    except Exception as error:
        _fold(error)
        raise


def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """Return log(softmax(input)) along dim, without overflow.

    Raises  IndexError if dim is out of range; NotImplementedError if input is not floating-point,
            and dtype is None

    Args:
        input: A floating-point tensor; integers need dtype. A slice with NaN or inf, or of -inf
            alone, gives NaN.
        dim: The axis along which the exponentials of the result sum to 1; if None, axis 0 or 1 is
            chosen, with a warning.
        dtype: The dtype of the computation and the result; input's dtype if None.

    Example:
        >>> F.log_softmax(torch.tensor([1.0, 2.0]), dim=0)
        tensor([-1.3133, -0.3133])
    """
    try:
        if input.__class__ not in _modes.plain:
            found = _offer(log_softmax, (input,), {"dim": dim, "_stacklevel": 3, "dtype": dtype})
            if found is not _NOT_TAKEN:
                return found  # type: ignore[no-any-return]
        return _ops["log_softmax"](input, _softmax_dim("log_softmax", input, dim), dtype)
    except Exception as error:
        _fold(error)
        raise


# PyTorch's numbers for the modes of grid_sampler.
GRID_SAMPLE_INTERPOLATION_MODES: dict[str, int] = {"bilinear": 0, "nearest": 1, "bicubic": 2}
GRID_SAMPLE_PADDING_MODES: dict[str, int] = {"zeros": 0, "border": 1, "reflection": 2}


@_offering
def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """Return the 1-D convolution of input along its first axis, time.

    Shape   (time, batch, in), (width, in, out), (out,) -> (time + 2 pad - width + 1, batch, out)
    """
    for name, one, ndim in (("Input", input, 3), ("Weight", weight, 3), ("Bias", bias, 1)):
        if one.dim() != ndim:
            raise RuntimeError(f"{name} must have {ndim} dims: time, batch, in_channel")
    rows: Any = _ops["conv1d"](input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad)
    return rows.permute(2, 0, 1)  # type: ignore[no-any-return]


@_offering
def softmin(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """Return the softmax of -input along dim."""
    return _ops["softmax"](-input, _softmax_dim("softmin", input, dim), dtype)
