"""interpolate: PyTorch 2.13's values and indices, rejected arguments, and older function names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist.nn.functional import (
    interpolate,
    upsample,
    upsample_bilinear,
    upsample_nearest,
)

X = fd.tensor([[[[0.0, 3, 1, 4], [2, -1, 5, 0], [1, 2, -2, 6]]]], dtype=fd.float64)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"mode": "bicubic"}, [0.700711, 2.142456, 2.780825, 1.305284, -0.005371, 3.789695]),
        ({"mode": "bicubic", "align_corners": True}, [0.0, 2.0, 4.0, 1.0, -0.65625, 6.0]),
        ({"mode": "bilinear", "antialias": True}, [0.975, 2.0, 2.5, 1.225, 0.75, 2.8125]),
        (
            {"mode": "bicubic", "antialias": True},
            [0.854157, 2.117605, 2.507576, 1.282181, 0.567115, 2.956132],
        ),
        (
            {"mode": "lanczos", "antialias": True},
            [0.759465, 2.228305, 2.491062, 1.335045, 0.45856, 2.942922],
        ),
    ],
)
def test_filters_are_pytorch_s(arguments: dict[str, Any], expected: list[float]) -> None:
    found = interpolate(X, (2, 3), **arguments).flatten().numpy()
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_a_factor_is_followed_unless_it_is_to_be_recomputed() -> None:
    def first(recompute: bool) -> list[float]:
        found = interpolate(
            X, scale_factor=(0.7, 1.3), mode="bilinear", recompute_scale_factor=recompute
        )
        return [round(value, 6) for value in found.flatten().tolist()[:5]]

    assert first(recompute=False) == [0.428571, 1.549451, 2.021978, 2.104396, 3.093407]
    assert first(recompute=True) == [0.5, 1.55, 2.0, 2.3, 3.0]


@pytest.mark.parametrize(
    ("length", "factor", "expected"),
    [
        (10, 1.3, [0, 0, 1, 2, 3, 3, 4, 5, 6, 6, 7, 8, 9]),
        (23, 0.37, [0, 2, 5, 8, 10, 13, 16, 18]),
        (5, 2.05, [0, 0, 0, 1, 1, 2, 2, 3, 3, 4]),
    ],
)
def test_indices_are_rounded_down_in_float32(
    length: int, factor: float, expected: list[int]
) -> None:
    x = fd.arange(float(length)).reshape(1, 1, length)
    assert interpolate(x, scale_factor=factor).flatten().tolist() == expected


def test_a_small_image_of_the_same_size_is_itself() -> None:
    x = fd.arange(6.0).expand(1, 1, 6, 6)
    assert interpolate(x, scale_factor=1.01)[0, 0, 0].tolist() == [0, 1, 2, 3, 4, 5]
    assert interpolate(x, scale_factor=(30.0, 1.01))[0, 0, 0].tolist() == [0, 0, 1, 2, 3, 4]


def test_bytes_stay_bytes_and_do_not_go_round() -> None:
    x = (X.abs() * 40).to(fd.uint8)
    assert interpolate(x, 2).dtype is fd.uint8
    steep = fd.tensor([[[[0, 0, 255, 255, 0, 0]]]], dtype=fd.uint8)
    found = interpolate(steep, (1, 18), mode="bicubic").flatten()
    assert (int(found.max()), int(found.min())) == (255, 0)


@pytest.mark.parametrize(
    ("arguments", "kind", "text"),
    [
        ({}, ValueError, "either size or scale_factor should be defined"),
        ({"size": 2, "scale_factor": 2}, ValueError, "only one of size or scale_factor"),
        ({"size": (2, 2, 2)}, ValueError, "must have the same number of spatial dimensions"),
        ({"size": 2, "align_corners": True}, ValueError, "align_corners option can only be set"),
        ({"size": 2, "antialias": True}, ValueError, "Anti-alias option is restricted to"),
        ({"size": 2, "mode": "linear"}, NotImplementedError, "Got 4D input, but linear mode needs"),
        ({"size": 2, "mode": "soft"}, NotImplementedError, "Input Error: Only 3D, 4D and 5D"),
        ({"size": (0, 2)}, RuntimeError, "Input and output sizes should be greater than 0"),
        ({"size": (2.0, 2.0)}, TypeError, "expected size to be one of int or Tuple"),
        ({"size": 2, "mode": "lanczos"}, ValueError, "Lanczos mode requires antialias=True"),
    ],
)
def test_what_cannot_be_is_refused(arguments: dict[str, Any], kind: type, text: str) -> None:
    with pytest.raises(kind, match=text):
        interpolate(X, **arguments)


@pytest.mark.parametrize(
    ("call", "mode", "more"),
    [
        (upsample, "nearest", {}),
        (upsample_nearest, "nearest", {}),
        (upsample_bilinear, "bilinear", {"align_corners": True}),
    ],
)
def test_older_names_warn_and_do_the_same(
    call: Callable[..., Any], mode: str, more: dict[str, Any]
) -> None:
    with pytest.warns(UserWarning, match="is deprecated. Use `nn.functional.interpolate` instead"):
        found = call(X, scale_factor=2)
    assert fd.equal(found, interpolate(X, scale_factor=2, mode=mode, **more))
