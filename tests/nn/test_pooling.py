"""Pooling, upsampling and pixel shuffle modules: results and reprs."""

from __future__ import annotations

from typing import Any

import pytest

import fastdist as fd
from fastdist import nn
from fastdist.nn import functional as F

X = fd.arange(240.0).reshape(2, 3, 5, 8) % 17


@pytest.mark.parametrize(
    ("module", "shown"),
    [
        (nn.MaxPool2d(2), "kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False"),
        (
            nn.MaxPool1d(3, 2, 1, 1, True, True),
            "kernel_size=3, stride=2, padding=1, dilation=1, ceil_mode=True",
        ),
        (nn.MaxUnpool2d(2, padding=1), "kernel_size=(2, 2), stride=(2, 2), padding=(1, 1)"),
        (nn.MaxUnpool1d(2), "kernel_size=(2,), stride=(2,), padding=(0,)"),
        (nn.AvgPool1d(2), "kernel_size=(2,), stride=(2,), padding=(0,)"),
        (nn.AvgPool2d((2, 3)), "kernel_size=(2, 3), stride=(2, 3), padding=0"),
        (nn.LPPool1d(2, 3), "norm_type=2, kernel_size=3, stride=None, ceil_mode=False"),
        (nn.AdaptiveAvgPool2d((None, 3)), "output_size=(None, 3)"),
        (nn.AdaptiveMaxPool1d(3), "output_size=3"),
        (nn.FractionalMaxPool2d(2, output_size=3), ""),
        (nn.Upsample(2), "size=2, mode='nearest'"),
        (nn.Upsample(scale_factor=(2, 3)), "scale_factor=(2.0, 3.0), mode='nearest'"),
        (nn.UpsamplingBilinear2d(scale_factor=2), "scale_factor=2.0, mode='bilinear'"),
        (nn.PixelShuffle(2), "upscale_factor=2"),
        (nn.PixelUnshuffle(2), "downscale_factor=2"),
        (nn.ChannelShuffle(2), "groups=2"),
    ],
)
def test_a_module_is_shown_as_pytorch_shows_it(module: nn.Module, shown: str) -> None:
    assert repr(module) == f"{type(module).__name__}({shown})"


@pytest.mark.parametrize(
    ("module", "input", "expected"),
    [
        (nn.MaxPool1d(2), X[0], F.max_pool1d(X[0], 2)),
        (nn.MaxPool2d(3, 2, 1), X, F.max_pool2d(X, 3, 2, 1)),
        (nn.MaxPool3d(2, ceil_mode=True), X, F.max_pool3d(X, 2, ceil_mode=True)),
        (nn.AvgPool1d(3, 2), X[0], F.avg_pool1d(X[0], 3, 2)),
        (nn.AvgPool2d(2, divisor_override=3), X, F.avg_pool2d(X, 2, divisor_override=3)),
        (nn.AvgPool3d(2), X, F.avg_pool3d(X, 2)),
        (nn.LPPool1d(2, 2), X[0], F.lp_pool1d(X[0], 2.0, 2)),
        (nn.LPPool2d(2, 2), X, F.lp_pool2d(X, 2.0, 2)),
        (nn.LPPool3d(2, (2, 2, 2)), X, F.lp_pool3d(X, 2.0, (2, 2, 2))),
        (nn.AdaptiveAvgPool1d(3), X[0], F.adaptive_avg_pool1d(X[0], 3)),
        (nn.AdaptiveAvgPool2d(3), X, F.adaptive_avg_pool2d(X, 3)),
        (nn.AdaptiveAvgPool3d(2), X, F.adaptive_avg_pool3d(X, 2)),
        (nn.AdaptiveMaxPool1d(3), X[0], F.adaptive_max_pool1d(X[0], 3)),
        (nn.AdaptiveMaxPool2d((2, None)), X, F.adaptive_max_pool2d(X, (2, None))),
        (nn.AdaptiveMaxPool3d(2), X, F.adaptive_max_pool3d(X, 2)),
        (nn.Upsample((7, 7), mode="bicubic"), X, F.interpolate(X, (7, 7), mode="bicubic")),
        (nn.UpsamplingNearest2d(scale_factor=2), X, F.interpolate(X, scale_factor=2)),
        (
            nn.UpsamplingBilinear2d(4),
            X,
            F.interpolate(X, 4, mode="bilinear", align_corners=True),
        ),
        (nn.PixelUnshuffle(1), X, X),
        (nn.ChannelShuffle(3), X, X),
    ],
)
def test_a_module_is_its_function(module: Any, input: fd.Tensor, expected: fd.Tensor) -> None:
    assert fd.equal(module(input), expected)


def test_shuffling_pixels_and_back_gives_the_image() -> None:
    x = X.reshape(1, 12, 4, 5)
    assert fd.equal(nn.PixelUnshuffle(2)(nn.PixelShuffle(2)(x)), x)


@pytest.mark.parametrize(
    ("pool", "unpool", "x"),
    [
        (nn.MaxPool1d(2, return_indices=True), nn.MaxUnpool1d(2), X[0]),
        (nn.MaxPool2d(2, return_indices=True), nn.MaxUnpool2d(2), X),
        (nn.MaxPool3d(2, return_indices=True), nn.MaxUnpool3d(2), X),
    ],
)
def test_unpooling_keeps_the_largest_alone(pool: Any, unpool: Any, x: fd.Tensor) -> None:
    values, indices = pool(x)
    back = unpool(values, indices, output_size=x.shape[-unpool.axes :])
    assert back.shape == x.shape
    assert fd.equal(back * (back - x), fd.zeros_like(x)) and back.sum() == values.sum()


def test_adaptive_and_fractional_pools_return_indices_if_asked() -> None:
    values, indices = nn.AdaptiveMaxPool2d(2, return_indices=True)(X)
    assert fd.equal(X.flatten(2).gather(2, indices.flatten(2)), values.flatten(2))
    for module in (
        nn.FractionalMaxPool2d(2, output_ratio=0.5, return_indices=True),
        nn.FractionalMaxPool3d(2, output_size=(1, 2, 3), return_indices=True),
    ):
        values, indices = module(X)
        planes = X.flatten(-module.axes)
        found = planes.gather(-1, indices.flatten(-module.axes))
        assert fd.equal(found, values.flatten(-module.axes))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "FractionalMaxPool2d requires specifying either an output size, or a pooling ratio"),
        ({"output_size": 2, "output_ratio": 0.5}, "only one of output_size and output_ratio"),
        ({"output_ratio": 1.5}, r"output_ratio must be between 0 and 1 \(got 1.5\)"),
    ],
)
def test_fractional_pools_ask_for_one_size(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        nn.FractionalMaxPool2d(2, **arguments)
