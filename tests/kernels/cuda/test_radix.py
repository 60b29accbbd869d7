"""Stable CUDA sorts by digits, run on the CPU shim, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fastdist.core.dtypes import bfloat16
from fastdist.kernels.cuda.launch import Scratch
from fastdist.kernels.cuda.reduce import radix, sorting
from fastdist.kernels.cuda.reduce.radix import (
    can_select,
    plan_nth,
    plan_order,
    plan_order_of_numbers,
    plan_selection,
)
from tests.fibre_shim.driver import SEEDS, run
from tests.fibre_shim.installed import cuda_on_fibres, host_traffic

RNG = np.random.default_rng(0)


def numbers_in_order(numbers: np.ndarray, high: int, seed: int) -> int:
    """Compare the kernel's order of numbers with NumPy's; return the number of launches."""
    values, order = np.full((2, len(numbers)), -7)
    launches = plan_order_of_numbers(numbers, values, order, high)
    run(launches, seed)
    expected = np.argsort(numbers, kind="stable")
    np.testing.assert_array_equal(order, expected)
    np.testing.assert_array_equal(values, numbers[expected])
    return len(launches)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("length", [1, 2, 32, 33, 256, 1000, 4096])
@pytest.mark.parametrize("high", [0, 3, 254, 255, 70_000])
def test_numbers_of_one_tile_are_ordered_in_one_launch(length: int, high: int) -> None:
    numbers = RNG.integers(-1, high + 1, length)
    for seed in SEEDS:
        assert numbers_in_order(numbers, high, seed) == 1


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("high", "digits"), [(254, 1), (255, 2), (50_000, 2), (2**24, 4)])
def test_longer_numbers_take_three_launches_for_each_digit_that_they_have(
    high: int, digits: int
) -> None:
    numbers = RNG.integers(-1, high + 1, 9000)
    numbers[::7] = high
    for seed in SEEDS:
        assert numbers_in_order(numbers, high, seed) == 3 * digits


@pytest.mark.one_in(3)
def test_words_of_64_bits_are_ordered_by_all_of_them() -> None:
    high = 2**40
    numbers = RNG.choice(np.array([-1, 0, 5, 2**33, 2**33 + 1, high]), 5000)
    for seed in SEEDS:
        assert numbers_in_order(numbers, high, seed) == 18


@pytest.mark.one_in(3)
def test_chunks_of_several_tiles_are_ordered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(radix, "_ENOUGH_BLOCKS", 2)
    for numbers in (RNG.integers(0, 9, 21_000), np.arange(21_000)[::-1] // 100):
        for seed in SEEDS:
            numbers_in_order(numbers, 255, seed)


@pytest.mark.one_in(3)
def test_many_chunks_are_added_up_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    # Small tiles give 313 chunks; a block of `begin` processes 256 chunks at a time.
    monkeypatch.setattr(radix, "_TILES", {32: 16, 64: 8})
    launches = plan_order_of_numbers(*[Scratch((5000,), np.dtype(np.int64))] * 3, 9)
    assert [one.grid for one in launches] == [(313, 1), (256, 1), (313, 1)]
    counted = RNG.integers(0, 5, (256, 313)).astype(np.uint32)
    totals = np.zeros(256, np.uint32)
    found = counted.copy()
    step = launches[1]
    for seed in SEEDS:
        found[:] = counted
        run([step._replace(args=(found, totals, step.args[-1]))], seed)
        np.testing.assert_array_equal(totals, counted.sum(1))
        np.testing.assert_array_equal(found, counted.cumsum(1) - counted)


DTYPES = [
    *("float16", "float32", "float64", "int8", "int16", "int32", "int64", "bool"),
    *("uint8", "uint16", "uint32", "uint64", bfloat16.numpy),
]


def values_of(dtype: Any, shape: tuple[int, int]) -> np.ndarray:
    """Return values with duplicates, and all extreme values of a dtype."""
    dtype = np.dtype(dtype)
    x = RNG.integers(-40, 40, shape).astype(np.float64)
    if dtype.kind in "iu":
        bounds = np.iinfo(dtype)
        x = RNG.integers(max(-40, bounds.min), 40, shape).astype(dtype)
        x.flat[::5], x.flat[1::5] = bounds.min, bounds.max
    elif dtype.kind != "b":
        x = (x / 4).astype(np.float32).astype(dtype)
        special = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, np.copysign(np.nan, -1)])
        x.flat[::3] = np.resize(special, x.flat[::3].size).astype(dtype)
    return x.astype(dtype)


def in_order(x: np.ndarray, *, descending: bool) -> np.ndarray:
    """Return NumPy's stable order, which puts NaN last, and treats -0 and 0 as equal."""
    plain = x.astype(np.float64) if np.dtype(x.dtype).kind not in "iub" else x
    if not descending:
        return np.argsort(plain, -1, kind="stable")
    turned = np.argsort(plain[:, ::-1], -1, kind="stable")[:, ::-1]
    return x.shape[1] - 1 - turned


ROWS = [
    *[(dtype, shape) for dtype in DTYPES for shape in ((9, 7), (3, 32))],
    *[(dtype, (2, 300)) for dtype in ("float16", "float32", "int64")],
    *[("float32", (2, 5000)), ("float64", (1, 2100))],
]


@pytest.mark.one_in(5)
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize(("dtype", "shape"), ROWS)
def test_rows_of_every_dtype_are_ordered(
    dtype: Any, shape: tuple[int, int], descending: bool
) -> None:
    x = values_of(dtype, shape)
    expected = in_order(x, descending=descending)
    # Launches for long rows are slow, so use only one order of threads per direction of the sort.
    seeds = SEEDS if shape[1] < 1000 else SEEDS[descending : descending + 1]
    for seed in seeds:
        order = np.full(shape, -7)
        run(plan_order(x, order, descending=descending), seed)
        np.testing.assert_array_equal(order, expected)


def test_rows_without_elements_launch_nothing() -> None:
    for shape in ((0, 5), (5, 0)):
        x = np.zeros(shape)
        assert plan_order(x, np.zeros(shape, np.int64), descending=False) == []


@pytest.mark.one_in(4)
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_first_of_each_row_are_selected_in_order(dtype: Any, descending: bool) -> None:
    for shape, count in (((3, 700), 5), ((2, 300), 300), ((2, 257), 40), ((1, 1), 1)):
        x = values_of(dtype, shape)
        expected = in_order(x, descending=descending)[:, :count]
        for seed in SEEDS:
            order = np.full((shape[0], count), -7)
            run(plan_selection(x, order, descending=descending), seed)
            np.testing.assert_array_equal(order, expected)


@pytest.mark.parametrize("count", [1, 4096])
def test_much_of_a_row_beyond_a_tile_is_selected(count: int) -> None:
    x = values_of("float32", (1, 9001))
    expected = in_order(x, descending=True)[:, :count]
    order = np.full((1, count), -7)
    run(plan_selection(x, order, descending=True), SEEDS[0])
    np.testing.assert_array_equal(order, expected)


@pytest.mark.parametrize("value", [0.0, np.nan, -np.inf])
def test_of_equals_the_first_are_selected(value: float) -> None:
    order = np.full((2, 9), -7)
    run(plan_selection(np.full((2, 1000), value), order, descending=True), SEEDS[1])
    np.testing.assert_array_equal(order, [list(range(9))] * 2)


def test_only_long_rows_that_are_many_are_selected_from() -> None:
    single, double = np.dtype(np.float32), np.dtype(np.float64)
    assert can_select((16, 4097), single, 4096) and can_select((16, 2049), double, 2048)
    for shape, dtype, count in (
        ((15, 1 << 20), single, 3),  # with one block per row, most of a GPU would be idle
        ((16, 4096), single, 3),  # one launch sorts such a row
        ((16, 4097), single, 4097),
        ((16, 4097), single, 0),
        ((16, 2049), double, 2049),
    ):
        assert not can_select(shape, dtype, count)


@pytest.mark.parametrize("dim", [0, 1])
def test_topk_selects_from_many_long_rows_as_the_cpu_orders_them(
    dim: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fastdist as fd

    x = fd.tensor(values_of("float32", (16, 4100)))
    x = x if dim else x.t().contiguous()
    expected = x.topk(3, dim)
    cuda = cuda_on_fibres(monkeypatch)
    next(cuda)
    sorts: list[object] = []
    monkeypatch.setattr(sorting, "plan_order", lambda *given, **how: sorts.append(given))
    found = x.to("cuda").topk(3, dim)
    assert not sorts and found.indices.tolist() == expected.indices.tolist()
    fd.testing.assert_close(found.values.cpu(), expected.values, equal_nan=True)
    del found
    list(cuda)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_nth_of_a_row_is_found_among_equals_and_extremes(dtype: Any) -> None:
    x = values_of(dtype, (4, 700))
    places = np.array([0, 350, 699, 123])
    expected = in_order(x, descending=False)[np.arange(4), places]
    for seed in SEEDS:
        order = np.full(4, -7)
        run(plan_nth(x, places, order), seed)
        np.testing.assert_array_equal(order, expected)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_nth_of_a_long_row_is_found_in_chunks(
    dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(radix, "_ENOUGH_BLOCKS", 3)
    x = values_of(dtype, (1, 21_000))
    expected = in_order(x, descending=False)[0]
    for place in (0, 6000, 13_999, 20_999):
        order = np.full(1, -7)
        launches = plan_nth(x, np.array([place]), order)
        assert launches[0].grid == (3, 1) and len(launches) == 2 * x.itemsize
        run(launches, SEEDS[0])
        assert order[0] == expected[place]


@pytest.mark.one_in(3)
def test_the_nth_is_found_where_there_are_more_chunks_than_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(radix, "_TILES", {32: 16, 64: 8})
    x = np.repeat(np.array([3, 1, 2], np.uint8), 2000)[None]
    for place, where in ((0, 2000), (2100, 4100), (5999, 1999)):
        order = np.full(1, -7)
        run(plan_nth(x, np.array([place]), order), SEEDS[1])
        assert order.tolist() == [where]


@pytest.mark.parametrize("dim", [0, 1])
def test_medians_of_long_rows_are_found_without_an_order_and_without_waiting(
    dim: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fastdist as fd

    x = fd.tensor(values_of("float32", (3, 4100)) * np.float32(0.5))
    x[0] = x[0].nan_to_num(1.0)
    x = x if dim else x.t().contiguous()
    found_by = [
        lambda x: x.median(dim),
        lambda x: x.nanmedian(dim, True),
        lambda x: x.kthvalue(3000, dim),
    ]
    expected, results = [one(x) for one in found_by], []
    cuda = cuda_on_fibres(monkeypatch)
    next(cuda)
    sorts: list[object] = []
    monkeypatch.setattr(sorting, "plan_order", lambda *given, **how: sorts.append(given))
    there = x.to("cuda").requires_grad_()
    met = host_traffic(monkeypatch)
    for one in found_by:
        found = one(there)
        found.values.nan_to_num(0.0).sum().backward()
        assert not sorts and not met
        results.append(found)
    for found, wanted in zip(results, expected, strict=True):
        assert found.indices.tolist() == wanted.indices.tolist()
        fd.testing.assert_close(found.values.detach().cpu(), wanted.values, equal_nan=True)
    assert there.grad is not None and there.grad.count_nonzero() <= 9
    del found, results, there
    list(cuda)
