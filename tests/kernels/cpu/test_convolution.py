"""Convolutions on the CPU, by products with blocks of columns, equal the definition in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fastdist.kernels.cpu.halves import in_float32
from fastdist.kernels.cpu.nn import convolution, patches

# Image, kernel, stride, padding, dilation, input and output channels per group, groups.
GEOMETRIES = [
    ((40,), (5,), (2,), (2,), (1,), 3, 4, 1),
    ((12, 9), (3, 3), (1, 1), (1, 1), (1, 1), 4, 3, 1),
    ((12, 9), (3, 2), (2, 1), (0, 3), (1, 2), 2, 3, 2),
    ((6, 5, 7), (2, 3, 3), (1, 1, 2), (1, 0, 1), (1, 2, 1), 2, 2, 1),
    ((6, 5, 7), (1, 1, 1), (1, 1, 1), (0, 0, 0), (1, 1, 1), 3, 2, 1),
    ((8, 8), (3, 3), (1, 1), (1, 1), (1, 1), 1, 2, 4),
    ((9, 9), (3, 3), (2, 2), (1, 1), (1, 1), 1, 1, 4),
]


def sliding_of(geometry: Any) -> patches.Sliding:
    image, kernel, stride, padding, dilation, *_ = geometry
    axes = zip(image, kernel, stride, padding, dilation, strict=True)
    grid = tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in axes)
    return patches.Sliding.of(image, kernel, grid, stride, padding, dilation)


def arrays(geometry: Any, dtype: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    image, kernel, *_, inputs, outputs, groups = geometry
    random, grid = np.random.default_rng(0), sliding_of(geometry).grid[-len(image) :]
    shapes = (5, inputs * groups, *image), (5, outputs * groups, *grid)
    weight = (outputs * groups, inputs, *kernel)
    x, y, w = [random.uniform(-1, 1, shape).astype(dtype) for shape in (*shapes, weight)]
    return x, y, w


def by_definition(geometry: Any, x: np.ndarray) -> np.ndarray:
    """Return the columns as (groups, inputs, kernel, n, grid), computed element by element."""
    sliding, (*_, inputs, _, groups) = sliding_of(geometry), geometry
    found = np.zeros((*x.shape[:2], *sliding.kernel, *sliding.grid))
    image = x.reshape(*x.shape[:2], *sliding.image)
    for tap in np.ndindex(sliding.kernel):
        for place in np.ndindex(sliding.grid):
            at = [
                q * s + k * d - p
                for q, s, k, d, p in zip(
                    place, sliding.stride, tap, sliding.dilation, sliding.padding, strict=True
                )
            ]
            if all(0 <= i < n for i, n in zip(at, sliding.image, strict=True)):
                found[:, :, *tap, *place] = image[:, :, *at]
    shape = (len(x), groups, inputs, sliding.taps, sliding.places)
    return found.reshape(shape).transpose(1, 2, 3, 0, 4)


@pytest.fixture(params=["numpy", "compiled", "in small blocks"])
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patches, "_SMALL", 1 << 40 if request.param == "numpy" else 0)
    if request.param != "compiled":
        monkeypatch.setattr(patches, "_BLOCK_BYTES", 1 << 12)
        monkeypatch.setattr(patches, "_FEWEST", 4)
    if request.param == "numpy":
        monkeypatch.setattr(patches, "COMPILED", ())
        monkeypatch.setattr(convolution, "COMPILED", ())


@pytest.mark.one_in(5)
@pytest.mark.usefixtures("_way")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_convolutions_are_products_with_columns(geometry: Any, dtype: str) -> None:
    *_, stride, padding, dilation, inputs, outputs, groups = geometry
    x, y, weight = arrays(geometry, dtype)
    how = (stride, padding, dilation, groups)
    columns = by_definition(geometry, x)
    parts = weight.reshape(groups, outputs, inputs, -1)
    sums = y.reshape(len(y), groups, outputs, -1)
    bias = np.arange(y.shape[1], dtype=dtype)
    tolerance = {"rtol": 1e-4, "atol": 1e-4 if dtype == "float32" else 1e-10}

    found = np.empty_like(y)
    convolution.forward(x, weight, bias, found, *how)
    expected = np.einsum("goik,giknp->ngop", parts, columns).reshape(y.shape)
    expected += bias.reshape(-1, *(1,) * (y.ndim - 2))
    np.testing.assert_allclose(found, expected, **tolerance)

    slope = np.empty_like(weight)
    convolution.by_weight(y, x, slope, *how)
    expected = np.einsum("ngop,giknp->goik", sums, columns).reshape(weight.shape)
    np.testing.assert_allclose(slope, expected, **tolerance)

    # Check the adjoint: <by_input(y), x> equals <y, forward(x)>.
    back = np.empty_like(x)
    convolution.by_input(y, weight, None, back, *how)
    for i in (0, x.size // 2, x.size - 1):
        one = np.zeros_like(x)
        one.reshape(-1)[i] = 1
        convolution.forward(one, weight, None, found, *how)
        np.testing.assert_allclose(back.reshape(-1)[i], (y * found).sum(), **tolerance)


@pytest.mark.usefixtures("_way")
@pytest.mark.parametrize("geometry", GEOMETRIES[:4])
def test_patches_are_laid_out_and_added_back(geometry: Any) -> None:
    image, kernel, stride, padding, dilation, inputs, _, groups = geometry
    x, _, _ = arrays(geometry, "float64")
    sliding = sliding_of(geometry)
    how = (kernel, sliding.grid[-len(image) :], stride, padding, dilation)
    columns = np.empty((len(x), inputs * groups * sliding.taps, sliding.places))
    patches.unfold(x, columns, *how)
    expected = by_definition(geometry, x).transpose(3, 0, 1, 2, 4).reshape(columns.shape)
    np.testing.assert_array_equal(columns, expected)
    # The adjoint adds each element as many times as it was copied into columns.
    back, often = np.empty_like(x), np.empty_like(x)
    patches.fold(columns, back, *how)
    patches.unfold(np.ones_like(x), columns, *how)
    patches.fold(columns, often, *how)
    np.testing.assert_allclose(back, x * often)


def test_float16_is_added_in_float32() -> None:
    x, weight = np.full((1, 1, 3000), 1, np.float16), np.ones((1, 1, 3000), np.float16)
    out = np.empty((1, 1, 1), np.float16)
    forward = in_float32("nn.convolution.forward", convolution.forward, 3)
    forward(x, weight, None, out, (1,), (0,), (1,), 1)
    assert out.item() == 3000


def test_integers_are_exact() -> None:
    x, weight = np.arange(12).reshape(1, 2, 6) + (1 << 60), np.array([[[1, -1], [2, -2]]])
    out = np.empty((1, 1, 5), np.int64)
    convolution.forward(x, weight, None, out, (1,), (0,), (1,), 1)
    assert out.tolist() == [[[-3] * 5]]


def test_nan_beyond_the_border_is_no_part_of_what_is_summed() -> None:
    x = np.ones((2, 1, 3))
    x[0, 0, 2] = x[1, 0, 0] = np.nan
    out = np.empty((2, 1, 3))
    convolution.forward(x, np.ones((1, 1, 2)), None, out, (1,), (1,), (1,), 1)
    assert np.isnan(out).tolist() == [[[False, False, True]], [[True, True, False]]]


@pytest.mark.usefixtures("_way")
@pytest.mark.parametrize("stride", [1, 2])
def test_lines_of_any_length_are_laid_out(stride: int) -> None:
    for length in range(1, 27):
        geometry = ((2, length), (2, 1), (1, stride), (0, 0), (1, 1), 2, 1, 1)
        x, _, _ = arrays(geometry, "float32")
        sliding = sliding_of(geometry)
        columns = np.full((len(x), 4, sliding.places), 99, np.float32)
        patches.unfold(x, columns, (2, 1), sliding.grid[1:], (1, stride), (0, 0), (1, 1))
        expected = by_definition(geometry, x).transpose(3, 0, 1, 2, 4).reshape(columns.shape)
        np.testing.assert_array_equal(columns, expected)
        back = np.empty_like(x)
        patches.fold(columns, back, (2, 1), sliding.grid[1:], (1, stride), (0, 0), (1, 1))
        lies = x.copy()
        lies[..., [i for i in range(length) if i % stride]] = 0
        np.testing.assert_array_equal(back, lies)


@pytest.mark.parametrize("stride", [1, 2, 3])
def test_inf_meets_no_zeros_around_an_image_of_few_channels(stride: int) -> None:
    geometry = ((9, 9), (3, 3), (stride,) * 2, (1, 1), (1, 1), 1, 1, 4)
    x, y, weight = arrays(geometry, "float32")
    weight[0, 0, 0, 0], how = np.inf, ((stride,) * 2, (1, 1), (1, 1), 4)
    found, back, by_weight = np.empty_like(y), np.empty_like(x), np.empty_like(weight)
    convolution.forward(x, weight, None, found, *how)
    convolution.by_input(y, weight, None, back, *how)
    y[0, 0, 0, 0] = np.inf
    convolution.by_weight(y, x, by_weight, *how)
    for made in (found, back, by_weight):
        assert not np.isnan(made).any()
        assert np.isinf(made).any()
    # Results that are not computed from inf are unchanged.
    plain = np.where(np.isinf(weight), 0, weight)
    expected = np.empty_like(y)
    convolution.forward(x, plain, None, expected, *how)
    np.testing.assert_allclose(found[:, 1:], expected[:, 1:], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found[:, 0, 0], expected[:, 0, 0], rtol=1e-5, atol=1e-6)
