"""CUDA linear recurrences, run on the CPU shim, against the CPU kernel and the definition."""

from __future__ import annotations

import numpy as np
import pytest

from fastdist.kernels.cuda.reduce.scan import plan_recurrence
from tests.fibre_shim.driver import SEEDS, run
from tests.kernels.cuda.cpu_twins import cpu_twins

cpu = cpu_twins("reduce.scan")

TOLERANCE = {"float16": 1e-3, "float32": 1e-6, "float64": 1e-13}


def by_definition(factor: np.ndarray, x: np.ndarray, *, backwards: bool) -> np.ndarray:
    """Return y along the last axis, computed element by element in float64."""
    y = x.astype(np.float64)
    n = x.shape[-1]
    with np.errstate(all="ignore"):
        for k in range(1, n):
            if backwards:
                y[..., n - 1 - k] += factor[..., n - k] * y[..., n - k]
            else:
                y[..., k] += factor[..., k] * y[..., k - 1]
    return y


def check(factor: np.ndarray, x: np.ndarray, axis: int, orders: tuple[int, ...] = SEEDS) -> None:
    """Compare both kernels with the definition, the CUDA kernel with these orders of threads."""
    tolerance = TOLERANCE[x.dtype.name]
    for backwards in (False, True):
        last = [np.moveaxis(array, axis, -1) if array.ndim else array for array in (factor, x)]
        wanted = by_definition(*last, backwards=backwards) if x.ndim else x
        expected = np.moveaxis(wanted, -1, axis) if x.ndim else x
        out = np.full(x.shape, 99, x.dtype)
        cpu.recurrence(factor, x, out, axis, backwards)
        np.testing.assert_allclose(out, expected, rtol=tolerance, atol=tolerance)
        results = []
        for seed in orders:
            out = np.full(x.shape, 99, x.dtype)
            run(plan_recurrence(factor, x, out, axis, backwards=backwards), seed)
            np.testing.assert_allclose(out, expected, rtol=tolerance, atol=tolerance)
            results.append(out)
        assert all(np.array_equal(r, results[0], equal_nan=True) for r in results)


def sample(shape: tuple[int, ...], dtype: str = "float64") -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    return random.uniform(-1, 1, shape).astype(dtype), random.uniform(-1, 1, shape).astype(dtype)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("length", [0, 1, 2, 5, 31, 32, 33, 257])
@pytest.mark.parametrize("rows", [1, 3, 70])
def test_rows_of_any_length(rows: int, length: int) -> None:
    check(*sample((rows, length)), 1)


@pytest.mark.one_in(3)
def test_a_row_longer_than_the_pieces_of_the_cpu() -> None:
    # Use one order of threads, since tests with shorter rows use the other orders.
    check(*sample((17_000,)), 0, SEEDS[:1])


@pytest.mark.one_in(3)
@pytest.mark.parametrize("shape", [(3, 2_000, 1), (1, 700, 40), (1, 900, 3)])
def test_long_rows_are_cut_into_chunks(shape: tuple[int, ...]) -> None:
    factor, x = sample(shape)
    check(factor, x, 1)
    launches = plan_recurrence(factor, x, x, 1, backwards=False)
    assert [step.name for step in launches] == ["pieces", "begins", "recurrence"]
    assert launches[0].grid[1] > 1


@pytest.mark.one_in(3)
def test_a_chunk_whose_line_is_not_finite_is_walked() -> None:
    factor, x = np.full((5, 2_000), 1e200), np.zeros((5, 2_000))
    # Before the first value that is not 0, the product of factors overflows. After it, factors
    # shrink y.
    x[0, 1_700] = 1.0
    factor[0, 1_701:] = 1e-3
    factor[1] = 0.5
    x[1, 0], factor[1, 900], x[2, 1_300] = 3.0, np.inf, np.nan
    x[3, 0], factor[3, 1:2] = 1e-300, 1e-200
    factor[3, 2:] = np.where(np.arange(1_998) % 2, 1e150, 1e-150)
    factor[4, 1_000] = np.nan
    check(factor, x, 1)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("view", [np.s_[:], np.s_[::-1, ::2, 1:]])
def test_any_axis_of_any_layout(axis: int, view: object) -> None:
    factor, x = sample((6, 8, 9))
    check(factor[view], x[view], axis)
    check(factor.transpose(2, 0, 1)[view], x.transpose(2, 0, 1)[view].copy(), axis)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_short_numbers_are_rounded_once(dtype: str) -> None:
    check(*sample((3, 40), dtype), 1)


def test_factors_whose_product_overflows_are_harmless_where_y_is_0() -> None:
    factor, x = np.full((2, 40), 1e30, np.float32), np.zeros((2, 40), np.float32)
    x[0, -1] = 1.0
    factor[0, -1], factor[0, 0] = 0.0, np.inf
    check(factor, x, 1)


def test_the_factor_at_which_a_row_begins_does_not_count() -> None:
    factor, x = sample((3, 50))
    factor[0, 0] = factor[0, -1] = np.nan
    factor[1, 0] = factor[1, -1] = np.inf
    out = np.empty_like(x)
    cpu.recurrence(factor, x, out, 1, False)
    assert np.isfinite(out[:2, :-1]).all()
    check(factor, x, 1)


def test_a_0d_array_is_a_row_of_one() -> None:
    check(np.array(np.nan), np.array(3.0), 0)
