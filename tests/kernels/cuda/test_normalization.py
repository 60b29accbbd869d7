"""CUDA layer norm, its gradient and RMS norm, run on the CPU shim, against the CPU kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fastdist.core.dtypes import WIDE, bfloat16
from fastdist.kernels.cuda.nn.normalization import (
    plan_layer_norm,
    plan_layer_norm_gradient,
    plan_rms_norm,
)
from tests.fibre_shim.driver import SEEDS, run
from tests.kernels.cuda.cpu_twins import cpu_twins

cpu = cpu_twins("nn.normalization")

TOLERANCE = {"bfloat16": 2e-2, "float16": 2e-3, "float32": 2e-6, "float64": 1e-13}
# Lengths for one element, a warp and a block; in registers and beyond them; by elements and by
# packs.
LENGTHS = [1, 3, 31, 129, 1025, 1032, 8200]


def sample(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> np.ndarray:
    numbers: np.ndarray = np.random.default_rng(seed).standard_normal(shape)
    return numbers.astype(dtype)


def near(found: np.ndarray, expected: np.ndarray, dtype: Any) -> None:
    tolerance = TOLERANCE[np.dtype(dtype).name]
    np.testing.assert_allclose(
        found.astype("float64"), expected.astype("float64"), rtol=tolerance, atol=tolerance
    )


def check(x: np.ndarray, weight: Any, bias: Any, g: np.ndarray) -> None:
    """Compare all three kernels with the CPU kernels, in three orders of threads."""
    row = (len(x), 1), WIDE.get(x.dtype, x.dtype)
    found: list[list[np.ndarray]] = []
    expected = [np.empty_like(x), np.empty(*row), np.empty(*row), np.empty_like(x)]
    cpu.layer_norm(x, weight, bias, *expected[:3], 1e-5)
    cpu.layer_norm_gradient(g, x, weight, *expected[1:])
    expected += [np.empty_like(x), np.empty(*row)]
    cpu.rms_norm(x, weight, *expected[4:], 1e-5)
    for seed in SEEDS:
        made = [np.full_like(one, 99) for one in expected]
        run(plan_layer_norm(x, weight, bias, made[0], made[1], made[2], 1e-5), seed)
        run(plan_layer_norm_gradient(g, x, weight, expected[1], expected[2], made[3]), seed)
        run(plan_rms_norm(x, weight, made[4], made[5], 1e-5), seed)
        found.append(made)
        for one, other, first in zip(made, expected, found[0], strict=True):
            near(one, other, x.dtype)
            assert np.array_equal(one, first, equal_nan=one.dtype.kind == "f")


@pytest.mark.one_in(4)
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_rows_of_any_length(length: int, dtype: str) -> None:
    weight, bias = sample((2, length), dtype, 1)
    for rows in (1, 37):
        x, g = sample((2, rows, length), dtype)
        check(x, weight, bias, g)


@pytest.mark.parametrize("has", [(True, False), (False, True), (False, False)])
def test_parameters_may_be_left_out(has: tuple[bool, bool]) -> None:
    x, g = sample((2, 5, 70), "float32")
    weight, bias = sample((2, 70), "float32", 1)
    check(x, weight if has[0] else None, bias if has[1] else None, g)


def test_rows_and_parameters_of_any_layout() -> None:
    x, g = sample((2, 14, 70), "float32")[:, ::2, ::-1]
    weight, bias = sample((70, 2), "float32", 1).T
    check(x, weight, bias, g)
    check(np.asfortranarray(x), weight, bias, g.T.copy().T)


def test_half_rows_have_parameters_of_float32_and_numbers_of_float32() -> None:
    for dtype in ("float16", bfloat16.numpy):
        x, g = sample((2, 5, 70), dtype)
        check(x, *sample((2, 70), "float32", 1), g)


def test_a_large_mean_is_taken_away_exactly() -> None:
    x = (1e6 + np.arange(4096) % 2).astype("float32").reshape(1, -1)
    out, mean, deviation = np.empty_like(x), np.empty((1, 1), "f4"), np.empty((1, 1), "f4")
    run(plan_layer_norm(x, None, None, out, mean, deviation, 0.0), 0)
    np.testing.assert_allclose(out, 2 * (x - 1e6) - 1, rtol=1e-6)
    assert deviation == 0.5


def test_nan_and_infinity_stay_in_their_row() -> None:
    x, g = sample((2, 4, 300), "float32")
    x[1, 7], x[2, 290] = np.nan, np.inf
    check(x, None, None, g)


def test_nothing_is_launched_for_nothing() -> None:
    for shape in ((0, 5), (5, 0)):
        x, row = np.empty(shape), np.empty((shape[0], 1))
        assert plan_layer_norm(x, None, None, x, row, row, 1e-5) == []
