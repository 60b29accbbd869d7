"""Activation modules, which call the functions of nn.functional with stored arguments."""

from __future__ import annotations

from typing import Any

from ..core.caller_warning import warn_caller
from ..core.dtypes import DType
from ..ops.create.creation import empty
from ..tensor.parameter import Parameter
from ..tensor.tensor import Tensor
from . import functional, init
from .module import Module


class _InPlace(Module):
    """Base of modules that may overwrite their input."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        """Return the activation's numeric arguments, and `inplace=True` if inplace is set."""
        return ", ".join([*self._numbers(), *(["inplace=True"] if self.inplace else [])])

    def _numbers(self) -> list[str]:
        return []


class ReLU(_InPlace):
    """Replaces negative elements by 0.

    Raises  RuntimeError in a call, if the input is bool or complex

    Args:
        inplace: Whether to overwrite the input.

    Example:
        >>> nn.ReLU()(torch.tensor([-1.0, 2.0]))
        tensor([0., 2.])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return max(input, 0)."""
        return functional.relu(input, self.inplace)


class Threshold(_InPlace):
    """Keeps elements above `threshold`, and replaces the others by `value`."""

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.threshold = threshold
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        """Return threshold(input)."""
        return functional.threshold(input, self.threshold, self.value, self.inplace)

    def _numbers(self) -> list[str]:
        return [f"threshold={self.threshold}", f"value={self.value}"]


class RReLU(_InPlace):
    """Keeps positive elements, and multiplies the others by a slope.

    In training each negative element has its own random slope between lower and upper. In
    evaluation the slope is (lower + upper) / 2 for all negative elements.
    """

    def __init__(self, lower: float = 1 / 8, upper: float = 1 / 3, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.lower = lower
        self.upper = upper

    def forward(self, input: Tensor) -> Tensor:
        """Return rrelu(input)."""
        return functional.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def _numbers(self) -> list[str]:
        return [f"lower={self.lower}", f"upper={self.upper}"]


class Hardtanh(_InPlace):
    """Clamps each element to [min_val, max_val].

    Raises  AssertionError if min_val is not below max_val, as PyTorch does
    """

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__(inplace)
        for old, new, given in (
            ("min_value", "min_val", min_value),
            ("max_value", "max_val", max_value),
        ):
            if given is not None:
                warn_caller(
                    f"keyword argument `{old}` is deprecated and rename to `{new}`",
                    FutureWarning,
                )
        self.min_val = min_val if min_value is None else min_value
        self.max_val = max_val if max_value is None else max_value
        if not self.max_val > self.min_val:
            raise AssertionError(
                f"max_val ({self.max_val}) must be greater than min_val ({self.min_val})"
            )

    def forward(self, input: Tensor) -> Tensor:
        """Return hardtanh(input)."""
        return functional.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def _numbers(self) -> list[str]:
        return [f"min_val={self.min_val}", f"max_val={self.max_val}"]


class ReLU6(Hardtanh):
    """Clamps each element to [0, 6]."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def _numbers(self) -> list[str]:
        return []


class Hardsigmoid(_InPlace):
    """Computes relu6(x + 3) / 6 of each element."""

    def forward(self, input: Tensor) -> Tensor:
        """Return hardsigmoid(input)."""
        return functional.hardsigmoid(input, self.inplace)

    def extra_repr(self) -> str:
        """Return an empty string."""
        return ""


class Hardswish(_InPlace):
    """Computes x * relu6(x + 3) / 6 of each element."""

    def forward(self, input: Tensor) -> Tensor:
        """Return hardswish(input)."""
        return functional.hardswish(input, self.inplace)

    def extra_repr(self) -> str:
        """Return an empty string."""
        return ""


class Tanh(Module):
    """Computes the hyperbolic tangent of each element.

    Raises  TypeError in a call, if the input is neither a tensor nor a number

    Example:
        >>> nn.Tanh()(torch.tensor([0.0, 1.0]))
        tensor([0.0000, 0.7616])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return tanh(input)."""
        return functional.tanh(input)


class Sigmoid(Module):
    """Computes 1 / (1 + exp(-x)) of each element.

    Raises  TypeError in a call, if the input is neither a tensor nor a number

    Example:
        >>> nn.Sigmoid()(torch.tensor([0.0]))
        tensor([0.5000])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return sigmoid(input)."""
        return functional.sigmoid(input)


class LogSigmoid(Module):
    """Computes log(sigmoid(x)) of each element."""

    def forward(self, input: Tensor) -> Tensor:
        """Return logsigmoid(input)."""
        return functional.logsigmoid(input)


class Softsign(Module):
    """Computes x / (1 + |x|) of each element."""

    def forward(self, input: Tensor) -> Tensor:
        """Return softsign(input)."""
        return functional.softsign(input)


class Tanhshrink(Module):
    """Computes x - tanh(x) of each element."""

    def forward(self, input: Tensor) -> Tensor:
        """Return tanhshrink(input)."""
        return functional.tanhshrink(input)


class SiLU(_InPlace):
    """Computes x * sigmoid(x) of each element.

    Raises  NotImplementedError in a call, if the input is neither floating-point nor complex

    Args:
        inplace: Whether to overwrite the input.

    Example:
        >>> nn.SiLU()(torch.tensor([1.0]))
        tensor([0.7311])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return silu(input)."""
        return functional.silu(input, self.inplace)


class Mish(_InPlace):
    """Computes x * tanh(softplus(x)) of each element."""

    def forward(self, input: Tensor) -> Tensor:
        """Return mish(input)."""
        return functional.mish(input, self.inplace)


class SELU(_InPlace):
    """Computes ELU of each element, with fixed constants, which keep the mean of activations near 0
    and their variance near 1.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return selu(input)."""
        return functional.selu(input, self.inplace)


class ELU(_InPlace):
    """Keeps positive elements x, and computes alpha * (exp(x) - 1) of the others."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.alpha = alpha

    def forward(self, input: Tensor) -> Tensor:
        """Return elu(input)."""
        return functional.elu(input, self.alpha, self.inplace)

    def _numbers(self) -> list[str]:
        return [f"alpha={self.alpha}"]


class CELU(_InPlace):
    """Keeps positive elements x, and computes alpha * (exp(x / alpha) - 1) of the others."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.alpha = alpha

    def forward(self, input: Tensor) -> Tensor:
        """Return celu(input)."""
        return functional.celu(input, self.alpha, self.inplace)

    def _numbers(self) -> list[str]:
        return [f"alpha={self.alpha}"]


class LeakyReLU(_InPlace):
    """Keeps positive elements x, and computes negative_slope * x of the others.

    Args:
        negative_slope: The factor of negative elements.
        inplace: Whether to overwrite the input.

    Example:
        >>> nn.LeakyReLU()(torch.tensor([-1.0, 2.0]))
        tensor([-0.0100,  2.0000])
    """

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.negative_slope = negative_slope

    def forward(self, input: Tensor) -> Tensor:
        """Return leaky_relu(input)."""
        return functional.leaky_relu(input, self.negative_slope, self.inplace)

    def _numbers(self) -> list[str]:
        return [f"negative_slope={self.negative_slope}"]


class PReLU(Module):
    """Keeps positive elements, and multiplies the others by a weight.

    Each channel has its own weight, or all channels share one.
    """

    weight: Parameter

    def __init__(
        self,
        num_parameters: int = 1,
        init: float = 0.25,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set all weights to `init`."""
        init.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        """Return prelu(input)."""
        return functional.prelu(input, self.weight)

    def extra_repr(self) -> str:
        """Return the number of weights."""
        return f"num_parameters={self.num_parameters}"


class GELU(Module):
    """Multiplies each element x by the probability that a standard normal number is below x.

    Raises  RuntimeError in a call, if `approximate` is unknown, or the input is not floating-point

    Args:
        approximate: "none", or "tanh" for a cheaper formula.

    Example:
        >>> nn.GELU()(torch.tensor([-1.0, 1.0]))
        tensor([-0.1587,  0.8413])
    """

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        """Return gelu(input)."""
        return functional.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        """Return the approximation."""
        return f"approximate={self.approximate!r}"


class GLU(Module):
    """Multiplies the first half of the input along dim by the sigmoid of the second half."""

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Return glu(input)."""
        return functional.glu(input, self.dim)

    def extra_repr(self) -> str:
        """Return the dim."""
        return f"dim={self.dim}"


class Softplus(Module):
    """Computes log(1 + exp(beta * x)) / beta of each element x; keeps x if beta * x > threshold."""

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Tensor) -> Tensor:
        """Return softplus(input)."""
        return functional.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        """Return beta and threshold."""
        return f"beta={self.beta}, threshold={self.threshold}"


class _Shrinking(Module):
    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def extra_repr(self) -> str:
        """Return lambd."""
        return str(self.lambd)


class Hardshrink(_Shrinking):
    """Sets elements between -lambd and lambd to 0, and keeps the others."""

    def forward(self, input: Tensor) -> Tensor:
        """Return hardshrink(input)."""
        return functional.hardshrink(input, self.lambd)


class Softshrink(_Shrinking):
    """Sets elements between -lambd and lambd to 0, and moves the others towards 0 by lambd."""

    def forward(self, input: Tensor) -> Tensor:
        """Return softshrink(input)."""
        return functional.softshrink(input, self.lambd)


class _AlongDim(Module):
    """Base of modules that normalise along dim.

    If dim is None, axis 0 is used for inputs with 0, 1 or 3 axes, and axis 1 for other inputs.
    """

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def extra_repr(self) -> str:
        """Return the dim."""
        return f"dim={self.dim}"


class Softmax(_AlongDim):
    """Computes exp(x), divided by the sum of exp(x) along dim.

    Args:
        dim: The axis along which the result adds up to 1.

    Example:
        >>> nn.Softmax(dim=0)(torch.tensor([1.0, 1.0]))
        tensor([0.5000, 0.5000])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return softmax(input)."""
        return functional.softmax(input, self.dim, _stacklevel=5)


class Softmin(_AlongDim):
    """Computes the softmax of -x along dim."""

    def forward(self, input: Tensor) -> Tensor:
        """Return softmin(input)."""
        return functional.softmin(input, self.dim, _stacklevel=5)


class LogSoftmax(_AlongDim):
    """Computes the logarithm of softmax along dim."""

    def forward(self, input: Tensor) -> Tensor:
        """Return log_softmax(input)."""
        return functional.log_softmax(input, self.dim, _stacklevel=5)


class Softmax2d(Module):
    """Softmax along the channels of images.

    Shape   (N, C, H, W) or (C, H, W) -> the same
    Raises  ValueError for an input of another number of axes
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return softmax(input) along the channels."""
        if input.dim() not in (3, 4):
            raise ValueError(
                f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead"
            )
        return functional.softmax(input, -3)
