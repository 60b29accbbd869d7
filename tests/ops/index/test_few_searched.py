"""searchsorted, bucketize and bincount of few numbers, against NumPy's functions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist.core.torch_function import NOT_TAKEN
from fastdist.ops.index.few_searched import bincount_of_few, bucketize_of_few, searchsorted_of_few
from tests.properties import in_one_test

ROW = [-math.inf, 1.0, 2.0, 2.0, 5.0]
WANTED = [[2.0, 0.5, math.nan, 9.0], [-math.inf, math.inf, 1.0, -3.0]]


@in_one_test("right", [False, True])
@in_one_test("dtype", [fd.float32, fd.float64])
def test_few_numbers_have_the_positions_of_numpy(dtype: Any, right: bool) -> None:
    row = fd.tensor(ROW, dtype=dtype)
    expected = np.searchsorted(np.array(ROW), np.array(WANTED), "right" if right else "left")
    for wanted in (fd.tensor(WANTED, dtype=dtype), fd.tensor(WANTED, dtype=dtype).T.clone().T):
        for found in (
            searchsorted_of_few(row, wanted, right=right),
            bucketize_of_few(wanted, row, right=right),
            fd.searchsorted(row, wanted, right=right),
            fd.bucketize(wanted, row, right=right),
        ):
            assert found.dtype is fd.int64 and found.tolist() == expected.tolist()
            assert found.is_contiguous() and not found.requires_grad


@in_one_test("dtype", [fd.uint8, fd.int16, fd.int64])
def test_few_integers_are_searched_and_counted(dtype: Any) -> None:
    row, wanted = fd.tensor([1, 3, 3], dtype=dtype), fd.tensor([3, 0, 9], dtype=dtype)
    assert searchsorted_of_few(row, wanted).tolist() == [1, 0, 3]
    assert bincount_of_few(row).tolist() == [0, 1, 0, 2]
    assert bincount_of_few(fd.tensor([1, 9, 3, 9], dtype=dtype)[::2], None, 6).tolist() == [
        *(0, 1, 0, 1, 0, 0)
    ]


@in_one_test(
    "call",
    [
        lambda: searchsorted_of_few(fd.tensor([1.0, math.nan]), fd.ones(2)),
        lambda: searchsorted_of_few(fd.ones(0), fd.ones(2)),
        lambda: searchsorted_of_few(fd.ones(3), fd.tensor(1.0)),
        lambda: searchsorted_of_few(fd.ones(3), fd.ones(2).double()),
        lambda: searchsorted_of_few(fd.ones(3).bfloat16(), fd.ones(2).bfloat16()),
        lambda: searchsorted_of_few(fd.ones(2, 3), fd.ones(2, 3)),
        lambda: searchsorted_of_few(fd.ones(3), fd.ones(2), out_int32=True),
        lambda: searchsorted_of_few(fd.ones(3), fd.ones(2).to_sparse()),
        lambda: bincount_of_few(fd.tensor([1, -1])),
        lambda: bincount_of_few(fd.tensor([2**63 - 1])),
        lambda: bincount_of_few(fd.tensor([[1]])),
        lambda: bincount_of_few(fd.tensor([True])),
        lambda: bincount_of_few(fd.ones(2)),
        lambda: bincount_of_few(fd.tensor([1]), None, -1),
    ],
)
def test_other_calls_are_left_to_the_general_functions(call: Any) -> None:
    assert call() is NOT_TAKEN


def test_a_negative_number_and_a_missing_argument_are_explained() -> None:
    with pytest.raises(RuntimeError, match="got -1"):
        fd.bincount(fd.tensor([1, -1]))
    with pytest.raises(TypeError, match="input"):
        fd.searchsorted(fd.ones(3))


def test_positions_are_written_into_out_and_found_for_each_call_of_vmap() -> None:
    row, wanted = fd.tensor([1.0, 2.0, 3.0]), fd.tensor([[2.5, 0.0], [3.5, 2.0]])
    out = fd.empty(2, 2, dtype=fd.int64)
    assert fd.searchsorted(row, wanted, out=out) is out
    assert out.tolist() == fd.vmap(lambda x: fd.searchsorted(row, x))(wanted).tolist()
    assert out.tolist() == [[2, 0], [3, 1]]
