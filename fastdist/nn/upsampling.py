"""Modules that resize images (Upsample) or move pixels between channels and image axes."""

from __future__ import annotations

from typing import Any

from ..tensor.tensor import Tensor
from . import functional
from .module import Module


class Upsample(Module):
    """Calls functional.interpolate with stored arguments."""

    def __init__(
        self,
        size: Any = None,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.name = type(self).__name__
        self.size = size
        if isinstance(scale_factor, tuple):
            self.scale_factor: Any = tuple([float(factor) for factor in scale_factor])
        else:
            self.scale_factor = float(scale_factor) if scale_factor else None
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        """Return images resized to the size `size`, or by the factor `scale_factor`."""
        return functional.interpolate(
            input,
            self.size,
            self.scale_factor,
            self.mode,
            self.align_corners,
            recompute_scale_factor=self.recompute_scale_factor,
        )

    def extra_repr(self) -> str:
        """Return the size or scale factor, and the mode."""
        if self.scale_factor is not None:
            return f"scale_factor={self.scale_factor!r}, mode={self.mode!r}"
        return f"size={self.size!r}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Resizes images by nearest-neighbour interpolation."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Resizes images by bilinear interpolation with align_corners=True."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)


class PixelShuffle(Module):
    """Rearranges groups of r**2 channels into r x r blocks of pixels (r is upscale_factor)."""

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """Return the image at r times its height and width, with 1/r**2 of its channels."""
        return functional.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        """Return the upscale factor."""
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """Rearranges r x r blocks of pixels into groups of r**2 channels (r is downscale_factor)."""

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """Return the image at 1/r of its height and width, with r**2 times as many channels."""
        return functional.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        """Return the downscale factor."""
        return f"downscale_factor={self.downscale_factor}"


class ChannelShuffle(Module):
    """Interleaves groups of channels: the first of each group, then the second, and so on."""

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        """Return input with its channels interleaved."""
        return functional.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        """Return the number of groups."""
        return f"groups={self.groups}"
