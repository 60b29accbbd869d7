"""CUDA weighted sums of neighbours, run on the CPU shim, against the CPU kernel."""

from __future__ import annotations

import numpy as np
import pytest

from fastdist.kernels.cuda.nn.weighted_neighbours import plan_weigh
from tests.fibre_shim.driver import run
from tests.kernels.cuda.cpu_twins import cpu_twins

cpu = cpu_twins("nn.weighted_neighbours")


def tables(
    lengths: tuple[int, ...], counts: tuple[int, ...], real: str
) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    """Return random tables for up to three axes: starts and positions, weights, and tap counts."""
    random = np.random.default_rng(0)
    parts, weights, taps = [], [], []
    for length, count in zip(lengths, counts, strict=True):
        each = random.integers(0, 4, count)
        starts, places = (
            np.concatenate([[0], np.cumsum(each)]),
            random.integers(0, length, each.sum()),
        )
        parts += [starts, places]
        weights.append(random.integers(-3, 4, each.sum()))
        taps.append(int(each.sum()))
    missing = 3 - len(lengths)
    table = np.concatenate([[0, 1, 0] * missing, *parts]).astype(np.int64)
    return table, np.concatenate([[1] * missing, *weights]).astype(real), tuple(taps)


def check(x: np.ndarray, counts: tuple[int, ...], real: str) -> None:
    table, weights, taps = tables(x.shape[-len(counts) :], counts, real)
    shape = (*x.shape[: -len(counts)], *counts)
    expected, out = np.empty(shape, x.dtype), np.full(shape, 99, x.dtype)
    cpu.weigh(x, table, weights, expected, taps)
    run(plan_weigh(x, table, weights, out, taps), 0)
    # All numbers are small integers, so sums are exact in any order.
    np.testing.assert_array_equal(out, expected)


def numbers(shape: tuple[int, ...], dtype: str = "float64") -> np.ndarray:
    return np.random.default_rng(1).integers(-4, 5, shape).astype(dtype)


@pytest.mark.parametrize(
    ("shape", "counts"), [((3, 9), (5,)), ((2, 3, 5, 6), (7, 4)), ((2, 3, 4, 5), (2, 6, 3))]
)
def test_one_two_and_three_axes(shape: tuple[int, ...], counts: tuple[int, ...]) -> None:
    check(numbers(shape), counts, "float64")


@pytest.mark.parametrize("dtype", ["float16", "float32", "int64"])
def test_every_kind_of_number(dtype: str) -> None:
    check(numbers((2, 3, 6, 5), dtype), (4, 4), "int64" if dtype == "int64" else "float32")


def test_any_layout_of_planes() -> None:
    check(numbers((5, 4, 6, 8)).transpose(2, 0, 3, 1)[::-1, ::2], (3, 9), "float64")


def test_nothing_is_launched_for_nothing() -> None:
    table, weights, taps = tables((3,), (2,), "float64")
    assert plan_weigh(np.empty((0, 3)), table, weights, np.empty((0, 2)), taps) == []
