"""Sums and means over the first axes of large arrays, against NumPy in float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist.kernels.cpu.rows import long_columns
from fastdist.kernels.cpu.rows.row_kernels import row_loop

SHAPES = [((1, 5000), (0,)), ((70, 64), (0,)), ((33, 1001), (0,)), ((7, 50, 130), (0, 1))]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("shape", "axes"), SHAPES)
@pytest.mark.parametrize("keepdim", [False, True])
def test_sums_and_means_of_columns(
    shape: tuple[int, ...], axes: tuple[int, ...], keepdim: bool, dtype: Any
) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    wide, near = x.astype(np.float64), 1e-5 if dtype is np.float32 else 1e-13
    for name in ("sum", "mean"):
        found = getattr(fd.tensor(x), name)(axes, keepdim=keepdim).numpy()
        expected = getattr(wide, name)(axes, keepdims=keepdim)
        assert found.dtype == dtype and found.shape == expected.shape
        assert np.abs(found - expected).max() < near


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("shape", "axis"), [((3000, 3), 0), ((2, 900, 5), 1)])
@pytest.mark.parametrize("keepdim", [False, True])
def test_sums_and_means_of_few_columns_by_products(
    shape: tuple[int, ...], axis: int, keepdim: bool, dtype: Any
) -> None:
    x = np.random.default_rng(1).random(shape).astype(dtype)
    for name in ("sum", "mean"):
        found = getattr(fd.tensor(x), name)(axis, keepdim=keepdim).numpy()
        expected = getattr(x.astype(np.float64), name)(axis, keepdims=keepdim)
        assert found.dtype == dtype and found.shape == expected.shape
        np.testing.assert_allclose(found, expected, 1e-5 if dtype is np.float32 else 1e-13)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(259, 75), (4200, 1001)], ids=["in a cache", "from memory"])
def test_sums_of_several_bands_are_right_to_the_result_s_last_digits(
    shape: tuple[int, int], dtype: Any
) -> None:
    x = np.random.default_rng(0).random(shape).astype(dtype)
    found, expected = fd.tensor(x).sum(0).numpy(), [math.fsum(column) for column in x.T]
    np.testing.assert_allclose(found, expected, 4e-7 if dtype is np.float32 else 1e-14)


def test_many_ones_are_added_up_exactly() -> None:
    # A float32 sum of ones would stop at 2**24.
    x = fd.ones(1, 64).expand(1 << 10, 64).contiguous() * 2.0**18 + 1
    assert x.sum(0).tolist() == [2.0**28 + 1024] * 64


def test_nan_and_infinities_stay_in_their_columns_and_nobody_is_warned() -> None:
    x = np.full((100, 64), 3e38, np.float32)
    x[:, 0], x[5, 1], x[6, 2], x[7, 2] = 1, math.nan, math.inf, -math.inf
    found = fd.tensor(x).sum(0).numpy()
    assert found[0] == 100 and np.isnan(found[1:3]).all() and np.isinf(found[3:]).all()


def test_the_loop_serves_what_it_is_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    result_by = long_columns.result_by

    def spy(name: str, *others: Any) -> Any:
        asked.append(name)
        return result_by(name, *others)

    monkeypatch.setattr(long_columns, "result_by", spy)
    fd.ones(83, 211).sum(0)
    fd.ones(830, 311).sum(0)
    assert asked == ["sum_of_near_columns", "sum_of_columns"]
    fd.ones(8311, 3).sum(0)
    fd.ones(211, 83).t().sum(0)
    assert asked == ["sum_of_near_columns", "sum_of_columns"]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(3, 1025), (4, 64), (133, 2047), (262, 75)])
def test_what_is_near_is_added_up_in_the_same_order(shape: tuple[int, int], dtype: str) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    near, far = np.empty((2, shape[1]), dtype)
    row_loop("sum_of_near_columns", dtype)((x, near), *shape, 0.1, 0.0)
    row_loop("sum_of_columns", dtype)((x, far), *shape, 0.1, 0.0)
    np.testing.assert_array_equal(near, far)
