"""CUDA sums of sparse entries, run on the CPU shim, against the CPU kernels."""

from __future__ import annotations

import numpy as np
import pytest

from fastdist.kernels.cuda.sparse.coordinates import plan_add_entries, plan_gather_add
from tests.fibre_shim.driver import run
from tests.kernels.cuda.cpu_twins import cpu_twins

cpu = cpu_twins("sparse.coordinates")


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int64"])
@pytest.mark.parametrize("weighed", [False, True])
def test_rows_are_gathered(dtype: str, weighed: bool) -> None:
    random = np.random.default_rng(0)
    x = random.integers(-4, 5, (3, 7)).astype(dtype).T
    starts = np.array([0, 2, 2, 5, 6])
    places = random.integers(0, 7, 6)
    weights = random.integers(-3, 4, 6).astype(dtype) if weighed else None
    expected, out = np.empty((4, 3), dtype), np.full((4, 3), 99, dtype)
    cpu.gather_add(x, starts, places, weights, expected)
    run(plan_gather_add(x, starts, places, weights, out), 0)
    np.testing.assert_array_equal(out, expected)
    assert not out[1].any()


@pytest.mark.parametrize("dtype", ["float16", "float32", "int64"])
@pytest.mark.parametrize(
    ("places", "rest"), [([[3, 0, 4]], (2,)), ([[3, 0, 4], [1, 1, 0]], ()), ([[0, 4]], (2, 1))]
)
def test_entries_are_added_at_their_places(
    dtype: str, places: list[list[int]], rest: tuple[int, ...]
) -> None:
    shape = (5, *([2] * (len(places) - 1)), *rest)
    values = np.arange(1, 1 + len(places[0]) * int(np.prod(rest)))
    values = values.reshape(len(places[0]), *rest).astype(dtype)
    expected, out = np.ones(shape, dtype), np.ones(shape, dtype)
    cpu.add_entries(values, np.array(places), expected)
    run(plan_add_entries(values, np.array(places), out), 0)
    np.testing.assert_array_equal(out, expected)
    assert expected.sum() == np.prod(shape) + values.sum()
