"""Adaptive and fractional pooling modules, which take an output size instead of a stride."""

from __future__ import annotations

from typing import Any

from ..tensor.tensor import Tensor
from .convolution import repeated
from .pooling import _Pool


class _AdaptivePool(_Pool):
    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def extra_repr(self) -> str:
        """Return the output size."""
        return f"output_size={self.output_size}"


class _AdaptiveAvgPool(_AdaptivePool):
    def forward(self, input: Tensor) -> Tensor:
        """Return the mean of each window."""
        return self._pool(input, self.output_size)


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """Averages each of output_size windows of nearly equal length along the last axis.

    Shape   (n, c, length) -> (n, c, *output_size); n is optional
    """

    _function = "adaptive_avg_pool1d"


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """Averages each of output_size windows of nearly equal size in the last two axes.

    Shape   (n, c, height, width) -> (n, c, *output_size); n is optional
    Raises  RuntimeError in a call, if the input has neither 3 nor 4 axes

    Args:
        output_size: The height and width of the result, or one number for both. None, for one or
            both, keeps the input's length.

    Example:
        >>> nn.AdaptiveAvgPool2d(1)(torch.zeros(1, 3, 4, 4)).shape
        fastdist.Size([1, 3, 1, 1])
    """

    _function = "adaptive_avg_pool2d"


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """Averages each of output_size windows of nearly equal size in the last three axes.

    Shape   (n, c, depth, height, width) -> (n, c, *output_size); n is optional

    An axis whose output_size is None keeps its length.
    """

    _function = "adaptive_avg_pool3d"


class _AdaptiveMaxPool(_AdaptivePool):
    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__(output_size)
        self.return_indices = return_indices

    def forward(self, input: Tensor) -> Any:
        """Return the maximum of each window, and its index if return_indices is set."""
        return self._pool(input, self.output_size, self.return_indices)


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """Takes the maximum of each of output_size windows of nearly equal length along the last axis.

    Shape   (n, c, length) -> (n, c, *output_size); n is optional
    """

    _function = "adaptive_max_pool1d"


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """Takes the maximum of each of output_size windows of nearly equal size in the last two axes.

    Shape   (n, c, height, width) -> (n, c, *output_size); n is optional

    An axis whose output_size is None keeps its length.
    """

    _function = "adaptive_max_pool2d"


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """Takes the maximum of each of output_size windows of nearly equal size in the last three axes.

    Shape   (n, c, depth, height, width) -> (n, c, *output_size); n is optional

    An axis whose output_size is None keeps its length.
    """

    _function = "adaptive_max_pool3d"


class _FractionalMaxPool(_Pool):
    axes = 0

    def __init__(
        self,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        name, axes = type(self).__name__, self.axes
        self.kernel_size = repeated(kernel_size, axes)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else repeated(output_size, axes)
        self.output_ratio = None if output_ratio is None else repeated(output_ratio, axes)
        if output_size is None and output_ratio is None:
            raise ValueError(
                f"{name} requires specifying either an output size, or a pooling ratio"
            )
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        if self.output_ratio is not None and not all(0 < one < 1 for one in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def forward(self, input: Tensor) -> Any:
        """Return the maximum of each window, and its index if return_indices is set."""
        return self._pool(
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            _random_samples=self._random_samples,
        )


class FractionalMaxPool2d(_FractionalMaxPool):
    """Takes the maximum of each of several windows at random positions in the last two axes."""

    axes = 2
    _function = "fractional_max_pool2d"


class FractionalMaxPool3d(_FractionalMaxPool):
    """Takes the maximum of each of several windows at random positions in the last three axes."""

    axes = 3
    _function = "fractional_max_pool3d"
