"""CUDA cumulative sums, products, log-sums and extremes, run on the CPU shim, against the CPU."""

from __future__ import annotations

import numpy as np
import pytest

from fastdist.kernels.cuda.reduce.scan import plan_extremes, plan_scan
from tests.fibre_shim.driver import SEEDS, run
from tests.kernels.cuda.cpu_twins import cpu_twins

cpu = cpu_twins("reduce.scan")

JOINED = {cpu.cumsum: "SUM", cpu.cumprod: "PRODUCT", cpu.logcumsumexp: "LOG_SUM"}
TOLERANCE = {"float16": 2e-3, "float32": 3e-6, "float64": 1e-14, "int64": 0}


def check(x: np.ndarray, axis: int) -> None:
    """Compare both CUDA kernels with their CPU twins, for three orders of threads."""
    tolerance = TOLERANCE[x.dtype.name]
    for twin, joined in JOINED.items():
        if joined == "LOG_SUM" and x.dtype.kind != "f":
            continue
        expected = np.empty(x.shape, x.dtype)
        twin(x, expected, axis)
        results = []
        for seed in SEEDS:
            out = np.full(x.shape, 99, x.dtype)
            run(plan_scan(x, out, axis, joined=joined), seed)
            np.testing.assert_allclose(out, expected, rtol=tolerance, atol=tolerance)
            results.append(out)
        assert all(np.array_equal(r, results[0], equal_nan=True) for r in results)


def sample(shape: tuple[int, ...], dtype: str = "float64") -> np.ndarray:
    """Return numbers near 1, so that long products neither vanish nor overflow."""
    return np.random.default_rng(0).uniform(0.95, 1.05, shape).astype(dtype)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("length", [0, 1, 2, 5, 31, 32, 33, 257])
@pytest.mark.parametrize("rows", [1, 3, 70])
def test_rows_of_any_length(rows: int, length: int) -> None:
    check(sample((rows, length)), 1)


LONG = [(1, 20_000, 1), (2, 5_000, 1), (9, 1_100, 1), (1, 3_000, 70), (1, 2_000, 5)]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("shape", LONG)
def test_long_rows_are_cut_into_chunks(shape: tuple[int, ...]) -> None:
    # The numbers are so close to 1 that no product becomes denormal.
    x = 1 + (sample(shape) - 1) / 100
    check(x[:, ::-1], 1)
    out = np.empty_like(x)
    totals, scan = plan_scan(x, out, 1, joined="SUM")
    assert totals.grid == scan.grid
    assert scan.grid[1] > 1


def test_a_row_of_millions_goes_to_many_blocks() -> None:
    x = np.empty((1 << 24,), np.float32)
    for step in plan_scan(x, x, 0, joined="SUM"):
        assert np.prod(step.grid) >= 1000


def test_what_is_not_finite_goes_on_in_later_chunks() -> None:
    x = 1 + (sample((4, 9_000)) - 1) / 100
    x[0, 4_000], x[1, 17], x[2, 5_000:] = np.nan, np.inf, -np.inf
    x[3, 2_000], x[3, 7_000] = 0.0, np.inf
    check(x, 1)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("view", [np.s_[:], np.s_[::-1, ::2, 1:]])
def test_any_axis_of_any_layout(axis: int, view: object) -> None:
    check(sample((6, 8, 9))[view], axis)
    check(sample((6, 8, 9)).transpose(2, 0, 1)[view], axis)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_short_numbers_are_joined_in_float32(dtype: str) -> None:
    check(sample((3, 40), dtype), 1)


def test_integers_are_exact() -> None:
    check(np.arange(-3, 37).reshape(2, 20) % 3 + 1, 1)


def test_what_is_not_finite_stays_behind_its_place() -> None:
    x = sample((4, 50))
    x[0, 3], x[1, 7], x[2, 40:] = np.nan, np.inf, -np.inf
    x[3, 10], x[3, 20] = 0.0, np.inf
    check(x, 1)


@pytest.mark.parametrize("value", [2.0, np.inf, np.nan])
def test_a_0d_array_is_a_row_of_one(value: float) -> None:
    check(np.array(value), 0)


def check_extremes(x: np.ndarray, axis: int) -> None:
    """Compare both kernels with their twins, in three orders of threads."""
    for twin in (cpu.cummax, cpu.cummin):
        expected, places = np.empty(x.shape, x.dtype), np.empty(x.shape, np.int64)
        twin(x, expected, places, axis)
        for seed in SEEDS:
            out, found = np.full(x.shape, 1, x.dtype), np.full(x.shape, 99)
            run(plan_extremes(x, out, found, axis, largest=twin is cpu.cummax), seed)
            np.testing.assert_array_equal(out, expected)
            np.testing.assert_array_equal(found, places)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("length", [0, 1, 2, 33, 257])
@pytest.mark.parametrize("rows", [1, 70])
def test_extremes_of_rows_of_any_length(rows: int, length: int) -> None:
    check_extremes(sample((rows, length)).round(2), 1)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("shape", LONG)
def test_extremes_of_long_rows(shape: tuple[int, ...]) -> None:
    x = sample(shape, "float32").round(3)
    x[0, shape[1] * 2 // 3, 0] = np.nan
    check_extremes(x, 1)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16", "float64"])
def test_extremes_along_any_axis_of_any_dtype(axis: int, dtype: str) -> None:
    x = np.random.default_rng(0).integers(0, 9, (6, 8, 9)).astype(dtype)
    check_extremes(x.transpose(2, 0, 1)[::-1, ::2], axis)


def test_extremes_keep_nan_and_the_later_of_equals() -> None:
    x = np.array([[1.0, 3.0, 3.0, np.nan, 9.0, np.nan, -9.0], [np.inf, -np.inf] * 3 + [0.0]])
    check_extremes(x, 1)
    check_extremes(x, 0)
    check_extremes(np.array(2.0), 0)
