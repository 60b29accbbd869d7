"""Rearranging channels and pixels: pixel_shuffle, pixel_unshuffle, channel_shuffle."""

from __future__ import annotations

from typing import Any

from ...core.errors import ShapeError
from ...dispatch.composite import before, composite
from ...dispatch.signature import ArgumentError
from ...tensor.tensor import Tensor
from ..channels_last import copied_in_format
from ..unrecorded_moves import by_table


def _factor(function: str, name: str, given: Any, shape: tuple[int, ...]) -> int:
    if not hasattr(given, "__index__"):
        raise ArgumentError(
            f"{function}(): argument '{name}' must be int, not {type(given).__name__}"
        )
    if len(shape) < 3:
        raise ShapeError(
            f"{function} expects input to have at least 3 dimensions, but got input with "
            f"{len(shape)} dimension(s)"
        )
    if given <= 0:
        raise ShapeError(f"{function} expects a positive {name}, but got {given}")
    return given.__index__()  # type: ignore[no-any-return]


@before(by_table())
@composite(homes="function functional", node="pixel_shuffle")
def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """Return images with r times the height and width and 1 / r**2 times the channels, where r is
    upscale_factor.

    Shape   (..., c * r**2, h, w) -> (..., c, h * r, w * r)
    """
    *lead, channels, height, width = shape = (0, 0, 0, *input._layout.shape)
    r = _factor("pixel_shuffle", "upscale_factor", upscale_factor, shape[3:])
    if channels % r**2:
        raise ShapeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square "
            f"of upscale_factor, but input.size(-3)={channels} is not divisible by {r**2}"
        )
    lead, c, n = lead[3:], channels // r**2, len(lead) - 3
    split: Any = input.reshape((*lead, c, r, r, height, width))
    moved = split.permute((*range(n + 1), n + 3, n + 1, n + 4, n + 2))
    return copied_in_format(input, moved.reshape((*lead, c, height * r, width * r)))


@before(by_table())
@composite(homes="function functional", node="pixel_unshuffle")
def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """Return images with 1 / r times the height and width and r**2 times the channels, where r is
    downscale_factor. This is the inverse of pixel_shuffle.

    Shape   (..., c, h * r, w * r) -> (..., c * r**2, h, w)
    """
    *lead, channels, height, width = shape = (0, 0, 0, *input._layout.shape)
    r = _factor("pixel_unshuffle", "downscale_factor", downscale_factor, shape[3:])
    for name, axis, length in (("height", -2, height), ("width", -1, width)):
        if length % r:
            raise ShapeError(
                f"pixel_unshuffle expects {name} to be divisible by downscale_factor, but "
                f"input.size({axis})={length} is not divisible by {r}"
            )
    lead, n = lead[3:], len(lead) - 3
    split: Any = input.reshape((*lead, channels, height // r, r, width // r, r))
    moved = split.permute((*range(n + 1), n + 2, n + 4, n + 1, n + 3))
    return copied_in_format(input, moved.reshape((*lead, channels * r**2, height // r, width // r)))


@before(by_table())
@composite(homes="function functional", node="channel_shuffle")
def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Return input with its channels (axis 1) reordered: the first channel of each group, then the
    second channel of each group, and so on.
    """
    shape = input._layout.shape
    if len(shape) < 3:
        raise ShapeError(
            f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(shape)}"
        )
    if groups <= 0:
        raise ShapeError(
            f"Number of groups to divide channels in must be positive. Value of groups:{groups}"
        )
    batch, channels, *rest = shape
    if channels % groups:
        raise ShapeError(
            f"Number of channels must be divisible by groups. Got {channels} channels and {groups} "
            "groups."
        )
    split: Any = input.reshape((batch, groups, channels // groups, *rest))
    return copied_in_format(input, split.transpose(1, 2).reshape(shape))


@composite(homes="functional")
def native_channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Return channel_shuffle(input, groups). PyTorch has this function under both names."""
    return channel_shuffle(input, groups)
