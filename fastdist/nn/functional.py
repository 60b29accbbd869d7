"""PyTorch's nn.functional: activations, losses, normalisation and layers as functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.caller_warning import warn_caller
from ..dispatch.rules import normalize_axis
from ..namespace.load import FUNCTIONAL_NAMES
from ..tensor.tensor import Tensor

_ops: dict[str, Callable[..., Tensor]] = FUNCTIONAL_NAMES
# All that needs nothing here, its signatures being PyTorch's already; what follows goes before it.
globals().update(_ops)


def _activate(name: str, input: Tensor, inplace: bool, *numbers: Any) -> Tensor:
    if not inplace:
        return _ops[name](input, **_named(name, numbers))
    # Computed from a copy: what a gradient asks for must outlive the change.
    return input.copy_(_ops[name](input.clone(), **_named(name, numbers)))


_NUMBERS = {
    "celu": ("alpha",),
    "elu": ("alpha",),
    "hardtanh": ("min_val", "max_val"),
    "leaky_relu": ("negative_slope",),
    "threshold": ("threshold", "value"),
}


def _named(name: str, numbers: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip(_NUMBERS.get(name, ()), numbers, strict=True))


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return max(input, 0)."""
    return input.relu_() if inplace else _ops["relu"](input)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """Return input cut off below 0 and above 6."""
    return _activate("relu6", input, inplace)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """Return input where positive, negative_slope * input elsewhere."""
    return _activate("leaky_relu", input, inplace, negative_slope)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Return input where positive, alpha * (exp(input) - 1) elsewhere."""
    return _activate("elu", input, inplace, alpha)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Return input where positive, alpha * (exp(input / alpha) - 1) elsewhere.

    Raises  RuntimeError if alpha is 0
    """
    return _activate("celu", input, inplace, alpha)


def softplus(
    input: Tensor, beta: float = 1.0, threshold: float = 20.0, *, out: Tensor | None = None
) -> Tensor:
    """Return log(1 + exp(beta * input)) / beta, and input itself beyond threshold."""
    return _ops["softplus"](input, beta=beta, threshold=threshold, out=out)


def hardshrink(input: Tensor, lambd: float = 0.5, *, out: Tensor | None = None) -> Tensor:
    """Return input, but 0 within lambd of 0."""
    return _ops["hardshrink"](input, lambd=lambd, out=out)


def softshrink(input: Tensor, lambd: float = 0.5, *, out: Tensor | None = None) -> Tensor:
    """Return input drawn lambd nearer to 0."""
    return _ops["softshrink"](input, lambd=lambd, out=out)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return the scaled elu whose layers keep mean 0 and variance 1."""
    return _activate("selu", input, inplace)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return input * sigmoid(input)."""
    return _activate("silu", input, inplace)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """Return input * tanh(softplus(input))."""
    return _activate("mish", input, inplace)


def hardtanh(
    input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Tensor:
    """Return input cut off below min_val and above max_val.

    Dtype   any but bool -> the same; of integers, the bounds are cut off to whole numbers
    Raises  ValueError if min_val is larger than max_val, RuntimeError for bounds that an integer
            dtype does not hold
    """
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    return _activate("hardtanh", input, inplace, min_val, max_val)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """Return input * relu6(input + 3) / 6."""
    return _activate("hardswish", input, inplace)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """Return relu6(input + 3) / 6."""
    return _activate("hardsigmoid", input, inplace)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """Return input where it is above threshold, value elsewhere."""
    return _activate("threshold", input, inplace, threshold, value)


def relu_(input: Tensor) -> Tensor:
    """Write relu(input) over input."""
    return relu(input, inplace=True)


def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """Write leaky_relu(input) over input."""
    return leaky_relu(input, negative_slope, inplace=True)


def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """Write elu(input) over input."""
    return elu(input, alpha, inplace=True)


def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """Write celu(input) over input."""
    return celu(input, alpha, inplace=True)


def selu_(input: Tensor) -> Tensor:
    """Write selu(input) over input."""
    return selu(input, inplace=True)


def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """Write hardtanh(input) over input."""
    return hardtanh(input, min_val, max_val, inplace=True)


def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """Write threshold(input) over input."""
    return _activate("threshold", input, True, threshold, value)


def rrelu_(
    input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False
) -> Tensor:
    """Write rrelu(input) over input."""
    return _ops["rrelu"](input, lower, upper, training, inplace=True)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """Return the first half of input along dim, times the sigmoid of the second.

    Raises  RuntimeError for an odd length
    """
    if not input.dim():
        raise RuntimeError("glu does not support scalars because halving size must be even")
    n = input.shape[normalize_axis("glu", dim, input.dim())]
    if n % 2:
        raise RuntimeError(
            f"Halving dimension must be even, but dimension {dim % input.dim()} is size {n}"
        )
    return input.narrow(dim, 0, n // 2) * _ops["sigmoid"](input.narrow(dim, n // 2, n // 2))


def _softmax_dim(name: str, input: Tensor, dim: int | None) -> int:
    """Return dim, or the axis that PyTorch takes, and warns of, where none is given."""
    if dim is not None:
        return dim
    warn_caller(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include "
        "dim=X as an argument."
    )
    return 0 if input.dim() in (0, 1, 3) else 1


def softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """Return exp(input) divided by its sum along dim."""
    return _ops["softmax"](input, _softmax_dim("softmax", input, dim), dtype)


def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """Return log(softmax(input)) along dim, without overflow."""
    return _ops["log_softmax"](input, _softmax_dim("log_softmax", input, dim), dtype)


# The numbers by which grid_sampler knows its modes.
GRID_SAMPLE_INTERPOLATION_MODES: dict[str, int] = {"bilinear": 0, "nearest": 1, "bicubic": 2}
GRID_SAMPLE_PADDING_MODES: dict[str, int] = {"zeros": 0, "border": 1, "reflection": 2}


def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """Return the convolution along the first axis.

    Shape   (time, batch, in), (width, in, out), (out,) -> (time + 2 pad - width + 1, batch, out)
    """
    for name, one, ndim in (("Input", input, 3), ("Weight", weight, 3), ("Bias", bias, 1)):
        if one.dim() != ndim:
            raise RuntimeError(f"{name} must have {ndim} dims: time, batch, in_channel")
    rows: Any = _ops["conv1d"](input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad)
    return rows.permute(2, 0, 1)  # type: ignore[no-any-return]


def softmin(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """Return softmax of -input."""
    return _ops["softmax"](-input, _softmax_dim("softmin", input, dim), dtype)
