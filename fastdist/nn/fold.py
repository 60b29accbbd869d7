"""Layers that cut images into patches (Unfold) or add up patches to images (Fold)."""

from __future__ import annotations

from typing import Any

from ..tensor.tensor import Tensor
from . import functional
from .module import Module


class Fold(Module):
    """Adds up overlapping patches to images of output_size.

    Shape   (n, c * k, patches) -> (n, c, h, w), for a kernel of k elements; n is optional
    """

    def __init__(
        self,
        output_size: Any,
        kernel_size: Any,
        dilation: Any = 1,
        padding: Any = 0,
        stride: Any = 1,
    ) -> None:
        super().__init__()
        self.output_size = output_size
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        """Return the images."""
        how = (self.kernel_size, self.dilation, self.padding, self.stride)
        return functional.fold(input, self.output_size, *how)

    def extra_repr(self) -> str:
        """Return the sizes."""
        return (
            f"output_size={self.output_size}, kernel_size={self.kernel_size}, "
            f"dilation={self.dilation}, padding={self.padding}, stride={self.stride}"
        )


class Unfold(Module):
    """Cuts images into the patches at all positions of a sliding kernel.

    Shape   (n, c, h, w) -> (n, c * k, patches), for a kernel of k elements; n is optional
    """

    def __init__(
        self, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        """Return the patches."""
        how = (self.kernel_size, self.dilation, self.padding, self.stride)
        return functional.unfold(input, *how)

    def extra_repr(self) -> str:
        """Return the sizes."""
        return (
            f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, "
            f"stride={self.stride}"
        )
