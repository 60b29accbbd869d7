"""CUDA softmax kernels, run on the CPU shim, against the CPU kernels."""

from __future__ import annotations

import numpy as np
import pytest

from fastdist.kernels.cuda.nn.softmax import plan_softmax
from tests.fibre_shim.driver import SEEDS, run
from tests.kernels.cuda.cpu_twins import cpu_twins

cpu = cpu_twins("nn.softmax")

TOLERANCE = {"float16": 2e-3, "float32": 2e-6, "float64": 1e-14}


def check(x: np.ndarray, axis: int) -> None:
    """Compare both kernels with their twins, in three orders of threads."""
    tolerance = TOLERANCE[x.dtype.name]
    for twin in (cpu.softmax, cpu.log_softmax):
        expected = np.empty(x.shape, x.dtype)
        twin(x, expected, axis)
        results = []
        for seed in SEEDS:
            out = np.full(x.shape, 99, x.dtype)
            run(plan_softmax(x, out, axis, logarithm=twin is cpu.log_softmax), seed)
            np.testing.assert_allclose(out, expected, rtol=tolerance, atol=tolerance)
            results.append(out)
        assert all(np.array_equal(r, results[0], equal_nan=True) for r in results)


def sample(shape: tuple[int, ...], dtype: str = "float32") -> np.ndarray:
    return (np.random.default_rng(0).standard_normal(shape) * 5).astype(dtype)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("length", [0, 1, 2, 5, 31, 33, 127, 129, 257, 1023, 1025, 3000])
@pytest.mark.parametrize("rows", [1, 3, 70])
def test_rows_of_any_length(rows: int, length: int) -> None:
    check(sample((rows, length)), 1)


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("view", [np.s_[:], np.s_[::-1, ::2, 1:]])
def test_any_axis_of_any_layout(axis: int, view: object) -> None:
    check(sample((6, 8, 9))[view], axis)
    check(sample((6, 8, 9)).transpose(2, 0, 1)[view], axis)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_large_values_do_not_overflow_and_strange_ones_stay_in_their_row(dtype: str) -> None:
    x = sample((7, 300), dtype)
    x[0] += 3e4
    x[1, 17], x[2, 200], x[3, 5:90] = np.nan, np.inf, -np.inf
    x[4] = -np.inf
    x[5, 299] = np.nan
    check(x, 1)


@pytest.mark.parametrize("value", [2.0, np.inf, -np.inf, np.nan])
def test_a_0d_array_is_a_row_of_one(value: float) -> None:
    check(np.array(value), 0)


def test_whole_packs_move_where_rows_let_them_and_one_element_elsewhere() -> None:
    x = np.zeros((4, 24), np.float32)

    def packs(x: np.ndarray, axis: int = -1) -> bool:
        (step,) = plan_softmax(x, x, axis, logarithm=False)
        return "PACK = 4;" in step.source

    assert packs(x) and packs(x[:, :20]) and packs(x[::2])
    assert not packs(x[:, 1:]) and not packs(x[:, :18]) and not packs(x[:, ::2])
    assert not packs(x, 0)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_packs_give_what_elements_do(dtype: str) -> None:
    for length in (8, 96, 1_000, 8_200):
        check(sample((3, length), dtype), 1)


@pytest.mark.parametrize("length", [9_000, 9_001])
def test_rows_beyond_registers_find_maximum_and_sum_together(length: int) -> None:
    x = sample((7, length))
    x[1, 8_000], x[2, 3], x[3, 100:], x[4] = np.nan, np.inf, -np.inf, -np.inf
    x[5, :8_999] = -np.inf
    x[6] = np.sort(x[6])
    check(x, 1)


@pytest.mark.parametrize("length", [1, 3, 40, 300])
def test_rows_that_lie_apart_are_read_side_by_side(length: int) -> None:
    x = sample((length, 75))
    x[length // 2, 5], x[0, 70] = np.nan, np.inf
    check(x, 0)
    (step,) = plan_softmax(x, np.empty_like(x), 0, logarithm=False)
    assert "APART = true" in step.source
