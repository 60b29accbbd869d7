"""Pooling as modules: the functions of nn.functional, with the arguments given once."""

from __future__ import annotations

from typing import Any

from ..tensor.tensor import Tensor
from . import functional
from .module import Module


def _each(given: Any, axes: int) -> tuple[Any, ...]:
    """Return as many numbers as axes, from one or from as many."""
    return tuple(given) if isinstance(given, tuple | list) else (given,) * axes


class _MaxPool(Module):
    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def _pool(self, function: Any, input: Tensor) -> Any:
        return function(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            ceil_mode=self.ceil_mode,
            return_indices=self.return_indices,
        )

    def extra_repr(self) -> str:
        """Return the windows."""
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPool):
    """The largest of each window along the last axis."""

    def forward(self, input: Tensor) -> Any:
        """Return the largest of each window, and with return_indices where it stands."""
        return self._pool(functional.max_pool1d, input)


class MaxPool2d(_MaxPool):
    """The largest of each window over the last two axes."""

    def forward(self, input: Tensor) -> Any:
        """Return the largest of each window, and with return_indices where it stands."""
        return self._pool(functional.max_pool2d, input)


class MaxPool3d(_MaxPool):
    """The largest of each window over the last three axes."""

    def forward(self, input: Tensor) -> Any:
        """Return the largest of each window, and with return_indices where it stands."""
        return self._pool(functional.max_pool3d, input)


class _MaxUnpool(Module):
    axes = 0

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        self.kernel_size = _each(kernel_size, self.axes)
        self.stride = _each(stride if stride is not None else kernel_size, self.axes)
        self.padding = _each(padding, self.axes)

    def extra_repr(self) -> str:
        """Return the windows."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpool):
    """Puts elements back to where MaxPool1d found them, among zeros."""

    axes = 1

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        """Return zeros with input at indices."""
        return functional.max_unpool1d(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )


class MaxUnpool2d(_MaxUnpool):
    """Puts elements back to where MaxPool2d found them, among zeros."""

    axes = 2

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        """Return zeros with input at indices."""
        return functional.max_unpool2d(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )


class MaxUnpool3d(_MaxUnpool):
    """Puts elements back to where MaxPool3d found them, among zeros."""

    axes = 3

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        """Return zeros with input at indices."""
        return functional.max_unpool3d(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )


class _AvgPool(Module):
    kernel_size: Any
    stride: Any
    padding: Any

    def extra_repr(self) -> str:
        """Return the windows."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPool):
    """The averages of windows along the last axis."""

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size = _each(kernel_size, 1)
        self.stride = _each(stride if stride is not None else kernel_size, 1)
        self.padding = _each(padding, 1)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        """Return the average of each window."""
        return functional.avg_pool1d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
        )


class _AvgPoolByDivisor(_AvgPool):
    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def _pool(self, function: Any, input: Tensor) -> Tensor:
        return function(  # type: ignore[no-any-return]
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )


class AvgPool2d(_AvgPoolByDivisor):
    """The averages of windows over the last two axes."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the average of each window."""
        return self._pool(functional.avg_pool2d, input)


class AvgPool3d(_AvgPoolByDivisor):
    """The averages of windows over the last three axes."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the average of each window."""
        return self._pool(functional.avg_pool3d, input)


class _LPPool(Module):
    def __init__(
        self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def _pool(self, function: Any, input: Tensor) -> Tensor:
        return function(  # type: ignore[no-any-return]
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        )

    def extra_repr(self) -> str:
        """Return the power and the windows."""
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPool):
    """The norms of windows along the last axis."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the norm of each window."""
        return self._pool(functional.lp_pool1d, input)


class LPPool2d(_LPPool):
    """The norms of windows over the last two axes."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the norm of each window."""
        return self._pool(functional.lp_pool2d, input)


class LPPool3d(_LPPool):
    """The norms of windows over the last three axes."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the norm of each window."""
        return self._pool(functional.lp_pool3d, input)
