"""CUDA windows, run on the CPU shim, against the CPU kernels."""

from __future__ import annotations

import numpy as np
import pytest

from fastdist.kernels.cuda.nn.windows import plan_windows
from tests.fibre_shim.driver import run
from tests.kernels.cuda.cpu_twins import cpu_twins

cpu = cpu_twins("nn.windows")

ADAPTIVE = (0, 0, 0, 0)


def numbers(shape: tuple[int, ...], dtype: str = "float64") -> np.ndarray:
    """Return numbers with many duplicates."""
    return np.random.default_rng(0).integers(-3, 9, shape).astype(dtype)


def counts_of(space: tuple[int, ...], windows: tuple[tuple[int, ...], ...]) -> tuple[int, ...]:
    return tuple(
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, (k, s, p, d) in zip(space, windows, strict=True)
    )


def check(x: np.ndarray, windows: tuple[tuple[int, ...], ...], counts: tuple[int, ...]) -> None:
    """Compare all three kernels with their twins."""
    shape = (*x.shape[: -len(windows)], *counts)
    expected, where = np.empty(shape, x.dtype), np.empty(shape, np.int64)
    cpu.largest(x, expected, where, windows)
    out, places = np.full(shape, 99, x.dtype), np.full(shape, -1)
    run(plan_windows("largest", x, out, places, out.size, windows), 0)
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(places, where)
    picked = np.full(shape, 99, x.dtype)
    run(plan_windows("pick", x, picked, places, picked.size, windows), 1)
    np.testing.assert_array_equal(picked, expected)
    spread, theirs = np.full(x.shape, 99, x.dtype), np.empty(x.shape, x.dtype)
    run(plan_windows("spread", out, spread, places, spread.size, windows), 2)
    cpu.spread(out, places, theirs, windows)
    np.testing.assert_array_equal(spread, theirs)


@pytest.mark.parametrize(
    "windows",
    [
        ((2, 2, 0, 1), (2, 2, 0, 1)),
        ((3, 2, 1, 1), (3, 1, 1, 1)),
        ((2, 1, 1, 3), (3, 2, 0, 2)),
        ((1, 3, 0, 1), (2, 3, 0, 1)),
    ],
)
def test_windows_of_any_kind(windows: tuple[tuple[int, ...], ...]) -> None:
    check(numbers((2, 3, 11, 9)), windows, counts_of((11, 9), windows))


def test_one_and_three_axes_of_space() -> None:
    check(numbers((3, 20)), ((3, 2, 1, 1),), (10,))
    windows = ((2, 1, 1, 1), (2, 2, 0, 1), (3, 2, 1, 1))
    check(numbers((2, 4, 6, 7)), windows, counts_of((4, 6, 7), windows))


def test_adaptive_windows_overlap_where_parts_are_uneven() -> None:
    check(numbers((2, 3, 10, 7)), (ADAPTIVE, ADAPTIVE), (4, 3))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", ["float16", "float32", "int32", "uint8"])
def test_every_kind_of_number(dtype: str) -> None:
    x = np.abs(numbers((2, 6, 6), dtype))
    check(x, ((2, 2, 0, 1), (2, 2, 0, 1)), (3, 3))


def test_any_layout_of_planes() -> None:
    x = numbers((4, 9, 8, 6)).transpose(2, 0, 3, 1)[::2]
    check(x, ((3, 2, 1, 1), (2, 2, 0, 1)), counts_of((6, 9), ((3, 2, 1, 1), (2, 2, 0, 1))))


def test_nan_is_the_largest_and_nothing_is_written_for_nothing() -> None:
    x = numbers((2, 4, 4))
    x[0, 1, 1] = x[1, 2:] = np.nan
    out, places = np.empty((2, 2, 2)), np.empty((2, 2, 2), np.int64)
    windows = ((2, 2, 0, 1), (2, 2, 0, 1))
    expected, where = out.copy(), places.copy()
    cpu.largest(x, expected, where, windows)
    run(plan_windows("largest", x, out, places, out.size, windows), 0)
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(places, where)
    assert np.isnan(out[1, 1]).all() and plan_windows("pick", x, out, places, 0, windows) == []
