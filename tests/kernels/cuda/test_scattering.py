"""CUDA reductions of elements with equal indices, run on the CPU shim, against the CPU kernels."""

from __future__ import annotations

import numpy as np
import pytest

from fastdist.kernels.cuda.index.indexing import plan_numbers
from fastdist.kernels.cuda.index.scattering import plan_reduce
from fastdist.kernels.cuda.launch import Launch
from tests.fibre_shim.driver import SEEDS, run
from tests.kernels.cuda.cpu_twins import cpu_twins

cpu = cpu_twins("index.scattering")

WAYS = ("sum", "mean", "prod", "amax", "amin")


def reduced(
    index: np.ndarray,
    src: np.ndarray,
    out: np.ndarray,
    axis: int,
    way: str,
    include_self: bool,
    seed: int,
) -> list[Launch]:
    """Reduce `src` into `out`, with NumPy's sort in place of CuPy's; return the launches."""
    numbers = np.empty((index.size,), np.int64)
    run(plan_numbers(index, numbers, out, axis), seed)
    order = np.argsort(numbers, kind="stable")
    launches = plan_reduce(index, src, numbers[order], order, out, way, include_self)
    run(launches, seed)
    return launches


def check(x: np.ndarray, index: np.ndarray, src: np.ndarray, axis: int, way: str) -> None:
    for include_self in (False, True):
        expected = np.ones(x.shape, x.dtype)
        cpu.reduce(x, index, src, expected, axis, way, include_self)
        for seed in SEEDS:
            out = x.copy()
            reduced(index, src, out, axis, way, include_self, seed)
            np.testing.assert_array_equal(out, expected)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int64", "uint8", "bool"])
def test_what_meets_is_reduced(dtype: str, way: str) -> None:
    if (dtype, way) == ("bool", "mean"):
        return
    random = np.random.default_rng(0)
    x, src = (random.integers(0, 4, shape).astype(dtype) for shape in ((9,), (20,)))
    check(x, random.integers(0, 7, 20), src, 0, way)


@pytest.mark.parametrize("way", WAYS)
def test_what_meets_at_few_places_is_joined_from_chunks(way: str) -> None:
    random = np.random.default_rng(2)
    # Use powers of two, so that products are exact.
    x, src = (2.0 ** random.integers(-1, 2, size) for size in (5, 3_000))
    index = np.sort(random.integers(0, 5, 3_000))
    index[100:2_000] = 3
    check(x, index, src, 0, way)
    names = [step.name for step in reduced(index, src, x, 0, way, False, 0)]
    assert names == ["meet", "meet_chunks"]


def test_the_work_grows_with_the_entries_alone() -> None:
    index = np.broadcast_to(np.int64(0), (1 << 20,))
    of = [np.broadcast_to(np.float32(0), (size,)) for size in (1 << 20, 1)]
    grids = [[s.grid for s in plan_reduce(index, index, index, index, x, "sum", True)] for x in of]
    assert grids[0] == grids[1] == [(1 << 12, 1), (1 << 4, 1)]


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_any_layout_and_a_part_of_the_other_axes(axis: int) -> None:
    random = np.random.default_rng(1)
    x = random.integers(-4, 5, (5, 4, 6)).astype("float64").transpose(1, 2, 0)
    src = random.integers(-4, 5, (8, 8, 8)).astype("float64")[::-1]
    shape = [3, 4, 2]
    shape[axis] = 7
    check(x, random.integers(0, 4, shape), src, axis, "sum")


@pytest.mark.parametrize("way", WAYS)
def test_nan_stays(way: str) -> None:
    x, src = np.array([1.0, np.nan, 2.0, 3.0]), np.array([np.nan, 1.0, 4.0, 5.0])
    check(x, np.array([0, 1, 2, 0]), src, 0, way)


def test_places_that_the_axis_has_not_are_passed_over() -> None:
    out = np.array([1.0, 2.0])
    reduced(np.array([5, 1, -1]), np.array([3.0, 4.0, 9.0]), out, 0, "sum", True, 0)
    assert out.tolist() == [1.0, 6.0]
