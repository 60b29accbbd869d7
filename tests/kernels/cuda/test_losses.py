"""CUDA cross entropy and negative log likelihood, run on the CPU shim, against the CPU kernels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from fastdist.core.dtypes import bfloat16
from fastdist.kernels.cuda.nn.cross_entropy import plan_losses, plan_rows, plan_rows_gradient
from fastdist.kernels.cuda.nn.loss import plan_nll, plan_nll_gradient
from tests.fibre_shim.driver import SEEDS, run
from tests.kernels.cuda.cpu_twins import cpu_twins

rows, likelihood = cpu_twins("nn.cross_entropy"), cpu_twins("nn.loss")

TOLERANCE = {"bfloat16": 2e-2, "float16": 4e-3, "float32": 4e-6, "float64": 1e-13}
NONE, MEAN, SUM = range(3)


def sample(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> np.ndarray:
    numbers: np.ndarray = np.random.default_rng(seed).standard_normal(shape)
    return numbers.astype(dtype)


def classes(shape: tuple[int, ...], below: int) -> np.ndarray:
    return np.random.default_rng(9).integers(0, below, shape)


def near(found: list[np.ndarray], expected: list[np.ndarray], first: list[np.ndarray]) -> None:
    for one, other, same in zip(found, expected, first, strict=True):
        tolerance = TOLERANCE[one.dtype.name]
        np.testing.assert_allclose(
            one.astype("float64"), other.astype("float64"), rtol=tolerance, atol=tolerance
        )
        assert one.tobytes() == same.tobytes()


def check_rows(x: np.ndarray, target: np.ndarray, reduction: int) -> None:
    shape = target.shape if reduction == NONE else ()
    expected = [np.empty(shape, x.dtype), np.empty_like(x), np.empty(len(x), x.dtype)]
    rows.rows(x, target, *expected, reduction)
    g = np.asarray(sample((1, *shape), x.dtype, 1)[0])
    expected.append(np.empty_like(x))
    rows.rows_gradient(g, target, expected[1], expected[2], expected[3], reduction)
    found: list[list[np.ndarray]] = []
    for seed in SEEDS:
        made = [np.full_like(one, 99) for one in expected]
        run(plan_rows(x, target, made[0], made[1], made[2], reduction), seed)
        run(plan_rows_gradient(g, target, made[1], made[2], made[3], reduction), seed)
        alone = np.full_like(made[0], 99)
        run(plan_losses(x, target, alone, reduction), seed)
        assert alone.tobytes() == made[0].tobytes()
        found.append(made)
        near(made, expected, found[0])


@pytest.mark.one_in(3)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("reduction", [NONE, MEAN, SUM])
def test_cross_entropy_of_rows_of_any_length(reduction: int, dtype: str) -> None:
    for count, length in ((1, 1), (37, 3), (5, 129), (300, 33), (2, 5000)):
        check_rows(sample((count, length), dtype), classes((count,), length), reduction)


def test_cross_entropy_of_other_layouts_and_of_strange_rows() -> None:
    x = sample((70, 14), "float32").T[::2, ::-1]
    check_rows(x, classes((14,), 70)[::2], MEAN)
    x = sample((6, 300), "float32")
    x[1, 7], x[2, 9], x[3, 5:90] = np.nan, np.inf, -np.inf
    target = classes((6,), 300)
    target[3] = 6
    check_rows(x, target, NONE)


def test_a_row_without_its_class_has_no_loss() -> None:
    x, out = sample((3, 5), "float32"), np.zeros(3, "float32")
    weights, totals = np.empty_like(x), np.empty(3, "float32")
    run(plan_rows(x, np.array([4, 5, -1]), out, weights, totals, NONE), 0)
    assert np.isfinite(out[0]) and np.isnan(out[1:]).all()


def test_the_mean_of_no_rows_is_nan_and_their_sum_0() -> None:
    x, target, totals = np.empty((0, 5)), np.empty(0, "int64"), np.empty(0)
    for reduction, expected in ((MEAN, math.nan), (SUM, 0.0)):
        out = np.full((), 99.0)
        run(plan_rows(x, target, out, x, totals, reduction), 0)
        np.testing.assert_equal(float(out), expected)
    assert plan_rows_gradient(totals, target, x, totals, x, NONE) == []


def check_nll(x: np.ndarray, target: np.ndarray, weight: Any, ignored: int, how: int) -> None:
    expected = [np.empty(() if how else target.shape, x.dtype), np.empty((), x.dtype)]
    likelihood.nll(x, target, weight, *expected, ignored, how)
    g = np.asarray(sample((1, *expected[0].shape), x.dtype, 1)[0])
    expected.append(np.empty_like(x))
    likelihood.nll_gradient(g, target, weight, expected[1], expected[2], ignored, how)
    found: list[list[np.ndarray]] = []
    for seed in SEEDS:
        made = [np.full_like(one, 99) for one in expected]
        run(plan_nll(x, target, weight, made[0], made[1], ignored, how), seed)
        run(plan_nll_gradient(g, target, weight, expected[1], made[2], ignored, how), seed)
        found.append(made)
        near(made, expected, found[0])


@pytest.mark.one_in(4)
@pytest.mark.parametrize("shape", [(7,), (5, 7), (300, 3), (4, 7, 9), (3, 7, 5, 4), (40_000, 2)])
@pytest.mark.parametrize("how", [NONE, MEAN, SUM])
def test_negative_log_likelihoods_of_any_shape(how: int, shape: tuple[int, ...]) -> None:
    x = sample(shape, "float32")
    count = shape[min(1, len(shape) - 1)]
    target = np.asarray(classes((shape[0], *shape[2:]) if len(shape) > 1 else (), count))
    check_nll(x, target, None, -100, how)
    check_nll(x, target, abs(sample((count,), "float32", 2)), 1, how)


@pytest.mark.parametrize("dtype", ["float64", "float16", bfloat16.numpy])
def test_negative_log_likelihoods_of_dtypes_and_layouts(dtype: Any) -> None:
    x = sample((9, 8, 6), dtype).transpose(2, 0, 1)[::2, ::-1]
    target = classes((8, 3), 9).T
    for how in (NONE, MEAN, SUM):
        check_nll(x, target, abs(sample((18,), dtype, 2))[::2], -100, how)


def test_infinite_ignored_samples_count_for_nothing_and_only_these() -> None:
    x = sample((4, 3), "float32")
    x[1] = np.inf
    check_nll(x, np.array([0, -100, 2, 1]), None, -100, MEAN)
    out, total = np.empty((), "float32"), np.empty((), "float32")
    run(plan_nll(x, np.full(4, -100), None, out, total, -100, MEAN), 0)
    assert np.isnan(out) and total == 0
    run(plan_nll(x, np.array([0, 3, 2, 1]), None, out, total, -100, SUM), 0)
    assert np.isnan(out)


def test_classes_may_be_bytes() -> None:
    x = sample((4, 3), "float32")
    for how in (NONE, MEAN):
        check_nll(x, np.array([2, 0, 1, 2], np.uint8), None, -100, how)
