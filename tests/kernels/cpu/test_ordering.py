"""The largest and smallest elements of rows, selected before sorting, against full sorts."""

from __future__ import annotations

import numpy as np
import pytest

from fastdist.kernels.cpu.reduce.sorting import nth, sort, topk


@pytest.mark.one_in(5)
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("k", [0, 1, 5, 60, 100])
@pytest.mark.parametrize("dtype", ["float16", "float32", "int64", "uint8", "bool"])
def test_equals_keep_their_order(dtype: str, k: int, largest: bool) -> None:
    # Use few distinct values, so that most choices are between equals; one row has a single value.
    x = np.random.default_rng(0).integers(0, 5, (3, 100, 4)).astype(dtype)
    x[1] = 1
    whole, order = np.empty_like(x), np.empty(x.shape, np.int64)
    sort(x, whole, order, 1, largest)
    found, places = np.empty_like(x[:, :k]), np.empty((3, k, 4), np.int64)
    topk(x, found, places, 1, k, largest)
    np.testing.assert_array_equal(found, whole[:, :k])
    np.testing.assert_array_equal(places, order[:, :k])


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("k", [1, 2, 12, 50])
def test_nan_is_the_largest(k: int, largest: bool) -> None:
    x = np.arange(100.0)
    x[[3, 70]] = np.nan
    others = [n for n in range(100) if n not in (3, 70)]
    values, places = np.empty(k), np.empty(k, np.int64)
    topk(x, values, places, 0, k, largest)
    assert places.tolist() == ([3, 70, *others[::-1]] if largest else others)[:k]
    np.testing.assert_array_equal(values, x[places])


@pytest.mark.parametrize("dtype", ["float16", "float32", "int64", "uint8"])
def test_the_nth_is_where_a_whole_order_brings_it(dtype: str) -> None:
    random = np.random.default_rng(0)
    x = random.integers(0, 5, (3, 100, 4)).astype(dtype)
    if x.dtype.kind == "f":
        x[random.random(x.shape) < 0.2] = np.nan
    whole, order = np.empty_like(x), np.empty(x.shape, np.int64)
    sort(x, whole, order, 1, False)
    for places in (np.full((3, 1, 4), 60), random.integers(0, 100, (3, 1, 4))):
        found, indices = np.empty_like(x[:, :1]), np.empty((3, 1, 4), np.int64)
        nth(x, places, found, indices, 1)
        np.testing.assert_array_equal(found, np.take_along_axis(whole, places, 1))
        np.testing.assert_array_equal(indices, np.take_along_axis(order, places, 1))
