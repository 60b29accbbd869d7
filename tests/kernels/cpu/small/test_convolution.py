"""Convolutions of a few small images: the bits of the general kernel, in few stack frames."""

from __future__ import annotations

import itertools
import sys
from typing import Any

import numpy as np
import pytest

import fastdist
from fastdist.kernels.cpu.nn import convolution as of_all_sizes
from fastdist.kernels.cpu.small.call_facts import CallFacts
from fastdist.kernels.cpu.small.convolution import convolve
from tests.properties import in_one_test

CASES = [*itertools.product((1, 2), (1, 2), (1, 2), (0, 1), (1, 2))]


def _facts(shapes: Any, out: Any, numbers: Any, contiguous: bool = True) -> CallFacts:
    kind = np.dtype(np.float32)
    dtypes = tuple([None if shape is None else kind for shape in shapes])
    return CallFacts(shapes, dtypes, (contiguous,) * 3, out, kind, numbers, None)


@in_one_test("axes, case", [*itertools.product((1, 2, 3), CASES)])
def test_it_makes_the_bits_of_the_kernel_for_all_sizes(axes: int, case: tuple[int, ...]) -> None:
    images, kernel, stride, padding, dilation = case
    rng = np.random.default_rng(0)
    x = rng.standard_normal((images, 3, *(3, 4, 4)[:axes])).astype(np.float32)
    weight = rng.standard_normal((4, 3, *(kernel,) * axes)).astype(np.float32)
    bias = rng.standard_normal(4).astype(np.float32)
    reach = dilation * (kernel - 1) + 1
    grid = [(n + 2 * padding - reach) // stride + 1 for n in x.shape[2:]]
    how = ((stride,) * axes, (padding,) * axes, (dilation,) * axes, 1)
    out = np.empty((images, 4, *grid), np.float32)
    of_all_sizes.forward(x, weight, bias, out, *how)
    run = convolve(_facts((x.shape, weight.shape, bias.shape), out.shape, how))
    assert run is not None
    assert np.array_equal(run(x, weight, bias), out)


@pytest.mark.parametrize(
    ("shapes", "out", "groups", "contiguous"),
    [
        (((1, 4, 8, 8), (4, 2, 3, 3), None), (1, 4, 6, 6), 2, True),
        (((1, 3, 8, 8), (4, 3, 3, 3), None), (1, 4, 6, 6), 1, False),
        (((9, 3, 64, 64), (4, 3, 3, 3), None), (9, 4, 62, 62), 1, True),
        (((0, 3, 8, 8), (4, 3, 3, 3), None), (0, 4, 6, 6), 1, True),
    ],
)
def test_it_leaves_others_to_that_kernel(
    shapes: Any, out: Any, groups: int, contiguous: bool
) -> None:
    assert convolve(_facts(shapes, out, ((1, 1), (0, 0), (1, 1), groups), contiguous)) is None


def test_a_call_whose_geometry_is_known_takes_few_frames() -> None:
    x, weight, bias = fastdist.randn(1, 3, 8, 8), fastdist.randn(4, 3, 3, 3), fastdist.randn(4)
    conv2d, frames = fastdist.nn.functional.conv2d, list[str]()
    first = conv2d(x, weight, bias, padding=1)
    conv2d(x, weight, bias, padding=1)

    def count(frame: Any, event: str, _: object) -> None:
        if event == "call":
            frames.append(frame.f_code.co_name)

    sys.setprofile(count)
    try:
        again = conv2d(x, weight, bias, padding=1)
    finally:
        sys.setprofile(None)
    assert len(frames) <= 12, frames
    assert again.tolist() == first.tolist()


def test_a_known_geometry_does_not_serve_arguments_of_the_wrong_kind() -> None:
    x, weight = fastdist.randn(1, 3, 8, 8), fastdist.randn(4, 3, 3, 3)
    fastdist.nn.functional.conv2d(x, weight, None, 1)
    with pytest.raises(TypeError, match="'stride' \\(position 4\\) must be"):
        fastdist.nn.functional.conv2d(x, weight, None, 1.0)  # type: ignore[arg-type]
