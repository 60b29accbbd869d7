"""Rows far from their first number, or too large to be squared, are recomputed in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastdist as fd

# Too many elements for the NumPy path.
SHAPES = [(70, 1000), (1100, 67), (7, 20001)]
ROWS = {
    "huge": lambda x: x * np.float32(1e37),
    "of squares that are infinite": lambda x: x * np.float32(3e19),
    "a ramp": lambda x: x + np.arange(x.shape[1], dtype=np.float32),
    "a step": lambda x: x + np.where(np.arange(x.shape[1]) < 40, np.float32(0), np.float32(1e6)),
    "a step down from afar": lambda x: x - np.where(np.arange(x.shape[1]) < 3, 0, np.float32(1e5)),
}


def sample(name: str, shape: tuple[int, int]) -> Any:
    drawn = np.random.default_rng(5).normal(size=shape).astype(np.float32)
    return ROWS[name](drawn).astype(np.float32)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ROWS)
def test_what_is_told_of_a_row_is_what_float64_tells(name: str, shape: tuple[int, int]) -> None:
    x = sample(name, shape)
    wide = x.astype(np.float64)
    spread = wide.var(1, ddof=1)
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(fd.tensor(x).var(1).numpy(), spread.astype(np.float32), 2e-6)
    np.testing.assert_allclose(fd.tensor(x).std(1).numpy(), np.sqrt(spread), 2e-6)
    away = wide - wide.mean(1, keepdims=True)
    normal = away / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    found = fd.nn.functional.layer_norm(fd.tensor(x), shape[1:]).numpy()
    np.testing.assert_allclose(found, normal, rtol=2e-6, atol=2e-6)


def test_a_row_with_what_is_no_number_is_none_and_others_stay() -> None:
    x = sample("a ramp", (70, 1000))
    x[3, 500], x[4, 7] = np.nan, np.inf
    found = fd.nn.functional.layer_norm(fd.tensor(x), (1000,)).numpy()
    assert np.isnan(found[3]).all() and np.isnan(found[4]).all()
    assert np.isnan(fd.tensor(x).var(1).numpy()[3:5]).all()
    assert np.isfinite(np.delete(found, [3, 4], 0)).all()


@pytest.mark.parametrize("scale", [1e38, 3e19, 1e-3])
@pytest.mark.parametrize("shape", [(2, 5), (3, 200), (4, 6, 50)])
def test_few_numbers_deviate_as_far_as_float64_tells(shape: tuple[int, ...], scale: float) -> None:
    drawn = np.random.default_rng(7).uniform(-1, 1, shape)
    x = (drawn * scale).astype(np.float32)
    expected = x.astype(np.float64).std(-1, ddof=1)
    for of in (x, x.swapaxes(0, -1).copy().swapaxes(0, -1)):
        found = fd.from_numpy(of).std(-1).numpy()
        np.testing.assert_allclose(found, expected, 2e-6)
    whole = fd.tensor(x).std()
    np.testing.assert_allclose(whole.numpy(), x.astype(np.float64).std(ddof=1), 2e-6)


@pytest.mark.parametrize("scale", [1e38, 1e24, 1e21, 1e18, 1e-3])
@pytest.mark.parametrize("shape", [(3, 5), (3, 200), (1, 1000)])
def test_few_numbers_are_normal_however_large(shape: tuple[int, int], scale: float) -> None:
    x = np.random.default_rng(7).uniform(-1, 1, shape)
    x = (x * scale).astype(np.float32)
    wide = x.astype(np.float64)
    away = wide - wide.mean(1, keepdims=True)
    normal = away / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    weight = np.linspace(1, 2, shape[1]).astype(np.float32)
    found = fd.nn.functional.layer_norm(fd.tensor(x), shape[1:], fd.tensor(weight)).numpy()
    np.testing.assert_allclose(found, normal * weight, rtol=2e-6, atol=3e-6)
    with np.errstate(over="ignore"):
        expected = wide.var(1, ddof=1).astype(np.float32)
    np.testing.assert_allclose(fd.tensor(x).var(1).numpy(), expected, 3e-6)
