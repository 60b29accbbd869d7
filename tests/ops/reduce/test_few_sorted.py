"""Order statistics of few numbers, against those that are recorded, which take the general path."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import fastdist as fd
from fastdist.core.torch_function import NOT_TAKEN
from fastdist.ops.reduce.few_sorted import median_of_few, nth_of_few, quantile_of_few
from tests.properties import in_one_test

NAN = math.nan
TABLES = (
    [[3.0, 1.0, 2.0, 1.0], [5.0, 5.0, 0.0, -math.inf], [math.inf, 7.0, 7.0, 7.0]],
    [[3.0, NAN, 2.0, 1.0], [NAN, NAN, 0.0, 4.0], [NAN, NAN, NAN, NAN]],
    [[[2.0], [NAN]], [[1.0], [0.0]]],
    [4.0, 4.0, 1.0],
)
CALLS: dict[str, Any] = {
    "median": fd.median,
    "nanmedian": fd.nanmedian,
    "kthvalue": lambda x, dim, keepdim: fd.kthvalue(x, 1, dim, keepdim),
}


def same(ours: Any, others: Any) -> bool:
    pairs = zip(ours, others, strict=True)
    return all(np.array_equal(a.numpy(), b.detach().numpy(), equal_nan=True) for a, b in pairs)


@in_one_test("name", CALLS)
@in_one_test("table", TABLES)
def test_few_numbers_have_the_order_statistics_of_recorded_ones(table: Any, name: str) -> None:
    call = CALLS[name]
    for dtype in (fd.float32, fd.float64):
        x = fd.tensor(table, dtype=dtype)
        recorded = x.clone().requires_grad_()
        for dim in range(-x.ndim, x.ndim):
            for keepdim in (False, True):
                ours = call(x, dim, keepdim)
                assert type(ours).__name__ == name and ours.values.dtype is dtype
                assert same(ours, call(recorded, dim, keepdim))
        if name != "kthvalue":
            whole = getattr(fd, name)
            assert same([whole(x)], [whole(recorded)])


@in_one_test("name", ["quantile", "nanquantile"])
@in_one_test("table", [*TABLES, [[5.0, 1e30, -3.0]], [2.0]])
def test_few_numbers_have_the_quantiles_of_recorded_ones(table: Any, name: str) -> None:
    call = getattr(fd, name)
    for dtype in (fd.float32, fd.float64):
        x = fd.tensor(table, dtype=dtype)
        recorded = x.clone().requires_grad_()
        for q in (0.0, 0.1, 0.25, 0.4, 0.5, 0.77, 1.0):
            pairs = [(call(x, q), call(recorded, q))]
            for dim in range(-x.ndim, x.ndim):
                for keepdim in (False, True):
                    pairs.append((call(x, q, dim, keepdim), call(recorded, q, dim, keepdim)))
            for ours, others in pairs:
                assert ours.dtype is dtype and ours.shape == others.shape
                assert same([ours], [others])


@in_one_test("dtype", [fd.uint8, fd.int16, fd.int64])
def test_the_median_of_few_integers_is_the_lower_one(dtype: Any) -> None:
    x = fd.tensor([[4, 1], [3, 2], [9, 9]], dtype=dtype)
    assert x.median().item() == 3 and x.median().dtype is dtype
    values, indices = x.median(0)
    assert values.tolist() == [4, 2] and indices.tolist() == [0, 1]


def test_few_plain_numbers_take_the_short_path() -> None:
    x = fd.tensor(TABLES[0])
    for given in (x, x.double(), x.long()):
        assert median_of_few(given, skips_nan=False) is not NOT_TAKEN
        assert nth_of_few(given, 2, 0, False) is not NOT_TAKEN
    for given in (x.bfloat16(), x.t(), x.clone().requires_grad_(), x > 0, x.expand(200, 3, 4)):
        assert median_of_few(given, skips_nan=False) is NOT_TAKEN
        assert nth_of_few(given, 1, -1, False) is NOT_TAKEN
    finite = fd.tensor([[1.0, 2.0], [4.0, 3.0]])
    assert quantile_of_few(finite, 0.3) is not NOT_TAKEN
    assert quantile_of_few(finite, 0.3, 0, True) is not NOT_TAKEN
    for q in (1.5, -0.1, NAN, fd.tensor(0.5), 1):
        assert quantile_of_few(finite, q) is NOT_TAKEN
    assert quantile_of_few(finite.long(), 0.5) is NOT_TAKEN
    assert quantile_of_few(finite, 0.5, interpolation="lower") is NOT_TAKEN
    for k, dim in ((0, 1), (5, 1), (1, 2), (1, -3), (True, 1), (1, None)):
        assert nth_of_few(x, k, dim, False) is NOT_TAKEN
