"""What meets at a place reduced, run on the CPU by fibres, against the CPU's own kernel."""

from __future__ import annotations

import numpy as np
import pytest

from fastdist.kernels.cuda.scattering import plan_reduce
from tests.fibre_shim.driver import run
from tests.kernels.cuda.cpu_twins import cpu_twins

cpu = cpu_twins("scattering")

WAYS = ("sum", "mean", "prod", "amax", "amin")


def check(x: np.ndarray, index: np.ndarray, src: np.ndarray, axis: int, way: str) -> None:
    for include_self in (False, True):
        expected, out = (np.ones(x.shape, x.dtype) for _ in range(2))
        cpu.reduce(x, index, src, expected, axis, way, include_self)
        run(plan_reduce(x, index, src, out, axis, way, include_self), 0)
        np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int64", "uint8", "bool"])
def test_what_meets_is_reduced(dtype: str, way: str) -> None:
    if (dtype, way) == ("bool", "mean"):
        return
    random = np.random.default_rng(0)
    x, src = (random.integers(0, 4, shape).astype(dtype) for shape in ((9,), (20,)))
    check(x, random.integers(0, 7, 20), src, 0, way)


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


def test_nothing_is_launched_for_nothing() -> None:
    none, index = np.empty((0, 2)), np.empty((0, 2), np.int64)
    assert plan_reduce(none, index, none, none, 0, "sum", True) == []
