"""Padding layers for signals, images and volumes."""

from __future__ import annotations

from typing import Any

from ..tensor.tensor import Tensor
from . import functional
from .convolution import repeated
from .module import Module


class _PadNd(Module):
    """Base of all padding layers.

    `padding` is one number for all sides, or two numbers per axis (before, after), starting with
    the last axis. Negative numbers crop the input.
    """

    _axes = 0
    _mode = ""

    def __init__(self, padding: Any) -> None:
        super().__init__()
        self.padding = repeated(padding, 2 * self._axes)

    def forward(self, input: Tensor) -> Tensor:
        """Return input, padded."""
        self._check_input_dim(input)
        return functional.pad(input, self.padding, self._mode)

    def _check_input_dim(self, input: Tensor) -> None:
        """Check nothing: functional.pad raises an error for most inputs that cannot be padded.

        The circular padding layers override this method, to check the number of axes.
        """

    def extra_repr(self) -> str:
        """Return the padding."""
        return f"{self.padding}"


class _ConstantPadNd(_PadNd):
    """Base of layers that pad with a constant."""

    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        """Return input, padded with the constant."""
        return functional.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        """Return the padding and the constant."""
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPadNd):
    """Pads the last axis with `value`."""

    _axes = 1


class ConstantPad2d(_ConstantPadNd):
    """Pads the last two axes with `value`."""

    _axes = 2


class ConstantPad3d(_ConstantPadNd):
    """Pads the last three axes with `value`."""

    _axes = 3


class _ZeroPadNd(_ConstantPadNd):
    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        """Return the padding."""
        return f"{self.padding}"


class ZeroPad1d(_ZeroPadNd, ConstantPad1d):
    """Pads the last axis with zeros."""


class ZeroPad2d(_ZeroPadNd, ConstantPad2d):
    """Pads the last two axes with zeros."""


class ZeroPad3d(_ZeroPadNd, ConstantPad3d):
    """Pads the last three axes with zeros."""


class _ReflectionPadNd(_PadNd):
    _mode = "reflect"


class ReflectionPad1d(_ReflectionPadNd):
    """Pads the last axis with its reflection, without repeating the border element."""

    _axes = 1


class ReflectionPad2d(_ReflectionPadNd):
    """Pads the last two axes with their reflection, without repeating the border elements."""

    _axes = 2


class ReflectionPad3d(_ReflectionPadNd):
    """Pads the last three axes with their reflection, without repeating the border elements."""

    _axes = 3


class _ReplicationPadNd(_PadNd):
    _mode = "replicate"


class ReplicationPad1d(_ReplicationPadNd):
    """Pads the last axis with copies of its first and last element."""

    _axes = 1


class ReplicationPad2d(_ReplicationPadNd):
    """Pads the last two axes with copies of the border elements."""

    _axes = 2


class ReplicationPad3d(_ReplicationPadNd):
    """Pads the last three axes with copies of the border elements."""

    _axes = 3


class _CircularPadNd(_PadNd):
    _mode = "circular"

    def _check_input_dim(self, input: Tensor) -> None:
        axes = self._axes
        if input.dim() not in (axes + 1, axes + 2):
            raise ValueError(
                f"expected {axes + 1}D or {axes + 2}D input (got {input.dim()}D input)"
            )


class CircularPad1d(_CircularPadNd):
    """Pads the last axis with elements from its opposite end."""

    _axes = 1


class CircularPad2d(_CircularPadNd):
    """Pads the last two axes with elements from the opposite sides."""

    _axes = 2


class CircularPad3d(_CircularPadNd):
    """Pads the last three axes with elements from the opposite sides."""

    _axes = 3
