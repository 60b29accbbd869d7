"""The fast loops over many windows, against a plain loop."""

from __future__ import annotations

import numpy as np
import pytest

from fastdist.kernels.cpu.nn.windows import largest, pick, spread


def plainly(
    x: np.ndarray, counts: tuple[int, ...], windows: tuple[tuple[int, ...], ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the largest element of each window over the last two axes, and its index."""
    out, places = np.empty((len(x), *counts), x.dtype), np.empty((len(x), *counts), np.int64)
    (kh, sh, ph, dh), (kw, sw, pw, dw) = windows
    for p, i, j in np.ndindex(out.shape):
        top, place = None, None
        for h in range(i * sh - ph, i * sh - ph + kh * dh, dh):
            for w in range(j * sw - pw, j * sw - pw + kw * dw, dw):
                if 0 <= h < x.shape[1] and 0 <= w < x.shape[2]:
                    value = x[p, h, w]
                    if top is None or value > top or value != value:
                        top, place = value, h * x.shape[2] + w
        out[p, i, j], places[p, i, j] = top, place
    return out, places


def check(x: np.ndarray, *windows: tuple[int, int, int, int]) -> None:
    counts = tuple(
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, (k, s, p, d) in zip(x.shape[1:], windows, strict=True)
    )
    expected, where = plainly(x, counts, windows)
    out, places = np.empty(expected.shape, x.dtype), np.empty(expected.shape, np.int64)
    largest(x, out, places, windows)
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(places, where)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8"])
@pytest.mark.parametrize("one", [(2, 2, 0, 1), (3, 2, 1, 1), (3, 1, 1, 1), (3, 2, 0, 1)])
@pytest.mark.parametrize("width", [3, 10, 14, 17, 40, 71])
def test_usual_windows(dtype: str, one: tuple[int, int, int, int], width: int) -> None:
    # Use few distinct values, so that many are equal and the first one must be chosen.
    x = np.random.default_rng(width).integers(0, 9, (2, 6, width)).astype(dtype)
    check(x, one, one)


def test_unusual_windows() -> None:
    x = np.random.default_rng(1).integers(0, 9, (2, 9, 33)).astype(np.float32)
    check(x, (4, 3, 2, 1), (2, 1, 1, 3))
    check(x, (1, 1, 0, 1), (3, 2, 1, 1))
    check(x, (2, 2, 0, 2), (2, 2, 0, 1))


@pytest.mark.parametrize("one", [(2, 2, 0, 1), (3, 2, 1, 1), (4, 4, 0, 1)])
def test_nan_is_the_largest_of_its_window(one: tuple[int, int, int, int]) -> None:
    x = np.random.default_rng(2).standard_normal((2, 8, 48)).astype(np.float32)
    x[np.random.default_rng(3).random(x.shape) < 0.1] = np.nan
    x[1, :4] = -np.inf
    check(x, one, one)


def test_places_bring_elements_back_to_where_they_stood() -> None:
    x = np.random.default_rng(4).standard_normal((3, 4, 5))
    windows = ((2, 1, 0, 1), (2, 1, 0, 1))
    out, places = np.empty((3, 3, 4)), np.empty((3, 3, 4), np.int64)
    largest(x, out, places, windows)
    picked, back = np.empty_like(out), np.empty_like(x)
    pick(x, places, picked, windows)
    np.testing.assert_array_equal(picked, out)
    spread(np.ones_like(out), places, back, windows)
    flat = [np.bincount(one.ravel(), minlength=20) for one in places]
    np.testing.assert_array_equal(back.reshape(3, -1), flat)
