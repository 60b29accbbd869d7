"""Pooling to a length that is asked for, as modules: adaptive and fractional."""

from __future__ import annotations

from typing import Any

from ..tensor.tensor import Tensor
from . import functional
from .module import Module


class _AdaptiveAvgPool(Module):
    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def extra_repr(self) -> str:
        """Return the lengths asked for."""
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """The averages of output_size even parts of the last axis."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the average of each part."""
        return functional.adaptive_avg_pool1d(input, self.output_size)


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """The averages of output_size even parts of the last two axes; None keeps an axis."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the average of each part."""
        return functional.adaptive_avg_pool2d(input, self.output_size)


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """The averages of output_size even parts of the last three axes; None keeps an axis."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the average of each part."""
        return functional.adaptive_avg_pool3d(input, self.output_size)


class _AdaptiveMaxPool(Module):
    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def extra_repr(self) -> str:
        """Return the lengths asked for."""
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """The largest of each of output_size even parts of the last axis."""

    def forward(self, input: Tensor) -> Any:
        """Return the largest of each part, and with return_indices where it stands."""
        return functional.adaptive_max_pool1d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """The largest of each of output_size even parts of the last two axes; None keeps an axis."""

    def forward(self, input: Tensor) -> Any:
        """Return the largest of each part, and with return_indices where it stands."""
        return functional.adaptive_max_pool2d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """The largest of each of output_size even parts of the last three axes; None keeps an axis."""

    def forward(self, input: Tensor) -> Any:
        """Return the largest of each part, and with return_indices where it stands."""
        return functional.adaptive_max_pool3d(input, self.output_size, self.return_indices)


class _FractionalMaxPool(Module):
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
        self.kernel_size = _each(kernel_size, axes)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else _each(output_size, axes)
        self.output_ratio = None if output_ratio is None else _each(output_ratio, axes)
        if output_size is None and output_ratio is None:
            raise ValueError(
                f"{name} requires specifying either an output size, or a pooling ratio"
            )
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        if self.output_ratio is not None and not all(0 < one < 1 for one in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def _pool(self, function: Any, input: Tensor) -> Any:
        return function(
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            _random_samples=self._random_samples,
        )


class FractionalMaxPool2d(_FractionalMaxPool):
    """The largest of windows over the last two axes that begin where is drawn."""

    axes = 2

    def forward(self, input: Tensor) -> Any:
        """Return the largest of each window, and with return_indices where it stands."""
        return self._pool(functional.fractional_max_pool2d, input)


class FractionalMaxPool3d(_FractionalMaxPool):
    """The largest of windows over the last three axes that begin where is drawn."""

    axes = 3

    def forward(self, input: Tensor) -> Any:
        """Return the largest of each window, and with return_indices where it stands."""
        return self._pool(functional.fractional_max_pool3d, input)


def _each(given: Any, axes: int) -> tuple[Any, ...]:
    """Return as many numbers as axes, from one or from as many."""
    return tuple(given) if isinstance(given, tuple | list) else (given,) * axes
