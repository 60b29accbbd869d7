"""Unique and largest elements of tensors without axes, without elements, and with NaN."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastdist as fd


def test_unique_of_a_tensor_without_axes_has_an_inverse_without_axes() -> None:
    values, inverse, counts = fd.unique(fd.tensor(5), return_inverse=True, return_counts=True)
    assert values.tolist() == [5] and counts.tolist() == [1]
    assert inverse.shape == () and inverse.item() == 0


@pytest.mark.parametrize("dtype", [fd.float32, fd.bfloat16, fd.int16, fd.bool, fd.complex64])
def test_unique_alone_has_the_elements_of_unique_with_counts(dtype: fd.dtype) -> None:
    for numbers in ([[3.0, 1.0], [0.0, 3.0]], [], [2.0], [1.0, math.nan, 1.0, math.nan, -math.inf]):
        x = fd.tensor(numbers, dtype=fd.float32)
        if not dtype.is_floating_point:
            x = x.nan_to_num(0.0, neginf=-1.0)
        alone, (values, _) = fd.unique(x.to(dtype)), fd.unique(x.to(dtype), return_counts=True)
        assert alone.dtype is dtype
        assert np.array_equal(alone.to(fd.complex64), values.to(fd.complex64), equal_nan=True)


def test_unique_keeps_each_row_with_nan() -> None:
    rows = fd.tensor([[3.0, math.nan], [3.0, math.nan], [1.0, 2.0], [1.0, 2.0]])
    values, inverse, counts = fd.unique(rows, return_inverse=True, return_counts=True, dim=0)
    assert values[0].tolist() == [1.0, 2.0] and values.shape == (3, 2)
    assert inverse.tolist() == [1, 2, 0, 0] and counts.tolist() == [2, 1, 1]


def test_unique_puts_a_nan_of_bfloat16_last() -> None:
    x = fd.tensor([[2.0, float("nan"), 1.0]], dtype=fd.bfloat16)
    values, inverse = fd.unique(x, return_inverse=True)
    assert values.dtype is fd.bfloat16 and values[:2].tolist() == [1.0, 2.0] and values[2].isnan()
    assert inverse.tolist() == [[1, 2, 0]]
    assert fd.unique(x, dim=1)[0, :2].tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: fd.unique(fd.tensor(5), dim=0), "Dimension specified as 0 but tensor has no"),
        (lambda: fd.unique(fd.ones(2), dim=3), "Dimension out of range"),
        (lambda: fd.unique(fd.zeros(0, 3), dim=1), "There are 0 sized dimensions, and they aren't"),
        (lambda: fd.tensor([True]).topk(1), "topk does not support bool dtypes on CPU"),
        (lambda: fd.bincount(fd.tensor([True])), "\"bincount_cpu\" not implemented for 'Bool'"),
        (
            lambda: fd.meshgrid(fd.ones(2, 2), fd.ones(2), indexing="ij"),
            "torch.meshgrid: Expected 0D or 1D tensor in the tensor list",
        ),
        (
            lambda: fd.meshgrid(fd.ones(2), fd.tensor([1]), indexing="ij"),
            "meshgrid expects all tensors to have the same dtype",
        ),
        (lambda: fd.meshgrid(indexing="ij"), "meshgrid expects a non-empty TensorList"),
        (lambda: fd.meshgrid(fd.ones(2), indexing="yx"), "indexing must be one of"),
    ],
)
def test_what_pytorch_refuses_is_refused_in_its_words(call: Callable[[], Any], text: str) -> None:
    with pytest.raises(RuntimeError, match=text):
        call()


@pytest.mark.parametrize("name", ["median", "nanmedian"])
def test_the_median_of_nothing_is_nan_and_of_whole_numbers_what_that_becomes(name: str) -> None:
    median = getattr(fd, name)
    for dtype in (fd.float32, fd.float16, fd.float64):
        found = median(fd.empty(0, 3, dtype=dtype))
        assert found.dtype is dtype and found.isnan().item()
    for dtype in (fd.uint8, fd.int32, fd.int64, fd.bool):
        found = median(fd.empty(0, dtype=dtype))
        assert found.dtype is dtype and found.shape == ()
    with pytest.raises(IndexError, match="non-zero size"):
        median(fd.empty(0, 3, dtype=fd.int64), 0)
