"""Activations as modules: their functions of nn.functional, with the arguments given once."""

from __future__ import annotations

from ..tensor.tensor import Tensor
from . import functional
from .module import Module


class ReLU(Module):
    """max(x, 0)."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Return input, but 0 where it is negative."""
        return functional.relu(input, self.inplace)

    def extra_repr(self) -> str:
        """Return inplace if it is set."""
        return "inplace=True" if self.inplace else ""


class Tanh(Module):
    """tanh(x)."""

    def forward(self, input: Tensor) -> Tensor:
        """Return tanh(input)."""
        return functional.tanh(input)


class Sigmoid(Module):
    """1 / (1 + exp(-x))."""

    def forward(self, input: Tensor) -> Tensor:
        """Return sigmoid(input)."""
        return functional.sigmoid(input)


class GELU(Module):
    """x times the probability that a normal number lies below it; approximate="tanh" is
    cheaper.
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


class SiLU(Module):
    """x * sigmoid(x)."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Return silu(input)."""
        return functional.silu(input, self.inplace)

    def extra_repr(self) -> str:
        """Return inplace if it is set."""
        return "inplace=True" if self.inplace else ""


class LeakyReLU(Module):
    """x where it is positive, negative_slope * x elsewhere."""

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Return leaky_relu(input)."""
        return functional.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        """Return the slope, and inplace if it is set."""
        return f"negative_slope={self.negative_slope}" + (", inplace=True" if self.inplace else "")


class _AlongDim(Module):
    """What normalises along one axis; None stands for the axis of classes."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def extra_repr(self) -> str:
        """Return the axis."""
        return f"dim={self.dim}"


class Softmax(_AlongDim):
    """exp(x) / sum(exp(x)) along dim."""

    def forward(self, input: Tensor) -> Tensor:
        """Return softmax(input)."""
        return functional.softmax(input, self.dim)


class LogSoftmax(_AlongDim):
    """The logarithm of softmax along dim."""

    def forward(self, input: Tensor) -> Tensor:
        """Return log_softmax(input)."""
        return functional.log_softmax(input, self.dim)
