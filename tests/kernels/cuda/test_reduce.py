"""The CUDA sum kernel, run on the CPU shim, against NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from fastdist.kernels.cuda.reduce.reductions import plan_reduce
from tests.fibre_shim.driver import SEEDS, run
from tests.kernels.cuda.cpu_twins import cpu_twins

cpu = cpu_twins("reduce.reductions")

DTYPES = ["float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool"]


def sample(shape: tuple[int, ...], dtype: str = "float32") -> np.ndarray:
    numbers = np.random.default_rng(len(shape)).integers(-5, 6, shape)
    return numbers.astype(dtype) if np.dtype(dtype).kind != "u" else abs(numbers).astype(dtype)


def summed(x: np.ndarray, axes: tuple[int, ...], dtype: Any = None) -> np.ndarray:
    """Return the sums; check that three orders of threads and blocks give the same sums."""
    shape = [
        length for axis, length in enumerate(x.shape) if axis not in {a % x.ndim for a in axes}
    ]
    results = []
    for seed in SEEDS:
        out = np.full(shape, 99, dtype or x.dtype)
        run(plan_reduce("Adding", x, out, axes), seed)
        results.append(out)
    assert all(np.array_equal(result, results[0], equal_nan=True) for result in results)
    return results[0]


# Sizes near those of lanes, warps, blocks and chunks.
SIZES = [
    0,
    1,
    2,
    3,
    4,
    5,
    31,
    32,
    33,
    63,
    65,
    127,
    128,
    129,
    255,
    256,
    257,
    1023,
    1025,
    16383,
    16384,
    20001,
]


@pytest.mark.parametrize("size", SIZES)
def test_a_vector_is_summed_whole(size: int) -> None:
    x = sample((size,))
    assert summed(x, (0,)) == x.sum()


@pytest.mark.one_in(3)
@pytest.mark.parametrize("dtype", DTYPES)
def test_packs_are_read_where_elements_lie_side_by_side(dtype: str) -> None:
    pack = 16 // np.dtype(dtype).itemsize
    big = sample((5, 48 * pack), dtype)
    for x, is_packed in (
        (big, True),
        (big[:, : 40 * pack], True),
        (big[:, : 40 * pack + 1], True),
        (big[:, pack:], True),
        (big[:, 1:], pack == 1),
        (np.ascontiguousarray(big[:, 1:]), pack == 1),
        (big[:, ::2], False),
    ):
        added = np.float64 if x.dtype.kind == "f" else np.int64
        assert np.array_equal(summed(x, (1,), added), x.astype(added).sum(1))
        (step,) = plan_reduce("Adding", x, np.empty(5, added), (1,))
        assert (f"PACK = {pack};" in step.source) == is_packed
    # A row of any length starts at an aligned address, and so does each chunk of a longer row.
    for size in (pack, 257 * pack + 3, 20_001):
        row = sample((size,), dtype)
        assert summed(row, (0,), np.float64) == row.astype(np.float64).sum()


def test_places_in_packs_are_those_of_elements() -> None:
    x = np.random.default_rng(5).integers(0, 9, (3, 2_003)).astype(np.float32)
    x[1, 1_500] = np.nan
    row = np.ascontiguousarray(x[:, :2_000])
    for one in (x[0], row):
        out = np.empty(one.shape[:-1], np.int64)
        for seed in SEEDS:
            run(plan_reduce("Place<true>", one, out, (one.ndim - 1,)), seed)
            assert np.array_equal(out, one.argmax(-1))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("rows", [1, 2, 7, 31, 33, 65])
@pytest.mark.parametrize("columns", [1, 3, 17, 129, 700])
def test_rows_and_columns_are_summed(rows: int, columns: int) -> None:
    x = sample((rows, columns))
    assert np.array_equal(summed(x, (1,)), x.sum(1))
    assert np.array_equal(summed(x, (0,)), x.sum(0))


@pytest.mark.parametrize(
    "axes", [(), (0,), (1,), (2,), (3,), (0, 2), (1, 3), (2, 1), (0, 1, 3), (-1, -3), (0, 1, 2, 3)]
)
def test_any_axes_are_summed(axes: tuple[int, ...]) -> None:
    x = sample((3, 5, 4, 6))
    assert np.array_equal(summed(x, axes), x.sum(axes))


X = sample((12, 9, 8))
VIEWS = {
    "transposed": X.T,
    "reversed": X[::-1, :, ::-1],
    "stepped": X[::5, ::2, 1::3],
    "expanded": np.broadcast_to(X[:, :1], (12, 20, 8)),
    "one element many times": np.broadcast_to(np.float32(0.5), (4, 300, 2)),
}


@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 2), (0, 1, 2)])
@pytest.mark.parametrize("view", VIEWS)
def test_any_layout_is_summed(view: str, axes: tuple[int, ...]) -> None:
    assert np.array_equal(summed(VIEWS[view], axes), VIEWS[view].sum(axes))


def test_out_may_have_gaps() -> None:
    x, memory = sample((300, 6, 5)), np.full((12, 5), 7, np.float32)
    run(plan_reduce("Adding", x, memory[::2].T[::-1].T, (0,)), 0)
    assert np.array_equal(memory[::2], x.sum(0)[:, ::-1]) and (memory[1::2] == 7).all()


def test_chunks_may_have_sums_with_gaps() -> None:
    x, memory = sample((20000, 3)), np.full((3, 2), 7, np.float32)
    launches = plan_reduce("Adding", x, memory[:, 0], (0,))
    assert len(launches) == 2
    run(launches, 0)
    assert np.array_equal(memory, np.stack([x.sum(0), [7, 7, 7]], 1))


@pytest.mark.parametrize(
    ("shape", "axes"), [((0, 4), (0,)), ((4, 0), (1,)), ((0,), (0,)), ((0, 0), (0, 1))]
)
def test_a_sum_of_nothing_is_zero(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    assert not summed(np.empty(shape, np.float32), axes).any()


def test_nothing_is_launched_for_no_sums() -> None:
    assert plan_reduce("Adding", np.empty((5, 0)), np.empty((0,)), (0,)) == []


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes_are_added_in_wider_ones(dtype: str) -> None:
    x = sample((40, 70), dtype)
    wide = np.dtype("int64") if x.dtype.kind in "iub" else x.dtype
    assert np.array_equal(summed(x, (0,), wide), x.sum(0, dtype=wide))
    assert np.array_equal(summed(x, (1,), wide), x.sum(1, dtype=wide))


def test_float32_sums_have_no_rounding_but_the_last() -> None:
    x = np.random.default_rng(0).random(20000, np.float32)
    assert summed(x, (0,)) == np.float32(math.fsum(x.tolist()))


def test_float16_sums_pass_the_largest_float16() -> None:
    x = np.full(3000, 100, np.float16)
    assert summed(x, (0,), "float32") == 300000
    assert summed(x, (0,)) == np.inf
    x[1500:] *= -1
    assert summed(x, (0,)) == 0


@pytest.mark.parametrize(
    ("strange", "result"),
    [([np.nan], np.nan), ([np.inf], np.inf), ([-np.inf], -np.inf), ([np.inf, -np.inf], np.nan)],
)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_nan_and_infinity_stay(strange: list[float], result: float, dtype: str) -> None:
    x = np.ones((5, 300), dtype)
    x[3, 100 : 100 + len(strange)] = strange
    expected = np.array([300, 300, 300, result, 300], dtype)
    np.testing.assert_array_equal(summed(x, (1,)), expected)


def test_integers_wrap_around() -> None:
    x = np.full(10, 2**62)
    assert summed(x, (0,)) == x.sum()


@pytest.mark.one_in(3)
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("shape", [(3, 5, 7), (2, 20001), (70, 3)])
def test_means_are_the_cpu_s(shape: tuple[int, ...], dtype: str) -> None:
    x = sample(shape, dtype)
    for axes in [(0,), (1,), tuple(range(len(shape)))]:
        kept = [length for axis, length in enumerate(shape) if axis not in axes]
        expected, found = np.empty(kept, dtype), np.empty(kept, dtype)
        cpu.mean(x, expected, axes)
        for seed in SEEDS:
            run(plan_reduce("Averaging", x, found, axes), seed)
            np.testing.assert_array_equal(found, expected)


def test_the_mean_of_nothing_is_nan_and_of_nan_nan() -> None:
    out = np.zeros(2, np.float32)
    run(plan_reduce("Averaging", np.empty((2, 0), np.float32), out, (1,)), 0)
    assert np.isnan(out).all()
    rows = np.array([[1.0, np.nan], [np.inf, 1.0]], np.float32)
    run(plan_reduce("Averaging", rows, out, (1,)), 0)
    assert np.isnan(out[0]) and out[1] == np.inf


@pytest.mark.parametrize("shape", [(8192, 4096), (64, 100_000), (32, 64, 3136)])
def test_neighbouring_threads_read_neighbouring_elements(shape: tuple[int, ...]) -> None:
    steps = [4 * math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    x = np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), shape, steps)
    for axis in range(len(shape)):
        out = np.empty([n for a, n in enumerate(shape) if a != axis], np.float32)
        task = plan_reduce("Adding", x, out, (axis,))[0].args[-1].fields.view(np.int64)
        # The fifth field of a task: whether the lanes of one sum read adjacent elements.
        assert bool(task[4]) == (axis == len(shape) - 1)
