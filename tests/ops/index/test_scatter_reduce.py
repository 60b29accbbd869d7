"""Gradients of scatter_reduce at ties, 0 and NaN, compared with PyTorch and finite differences."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from tests.ops.differences import check_first_order, check_second_order, generator

INDEX = [0, 1, 2, 0, 0, 4, 6, 6]
NAN = math.nan
# Gradients of the sum by x and by src in PyTorch 2.13, for x = [1, NaN, 2, 5, 0, 0, 2] and
# src = [2, 3, NaN, 1, 1, 0, 0, 0].
SLOPES = {
    ("sum", True): ([1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1, 1]),
    ("sum", False): ([0, 0, 0, 1, 0, 1, 0], [1, 1, 1, 1, 1, 1, 1, 1]),
    ("prod", True): ([2, NAN, NAN, 1, 0, 1, 0], [1, NAN, NAN, 2, 2, 0, 0, 0]),
    ("prod", False): ([0, 0, 0, 1, 0, 1, 0], [1, 1, NAN, 2, 2, 1, 0, 0]),
    ("mean", True): (
        [1 / 4, 1 / 2, 1 / 2, 1, 1 / 2, 1, 1 / 3],
        [1 / 4, 1 / 2, 1 / 2, 1 / 4, 1 / 4, 1 / 2, 1 / 3, 1 / 3],
    ),
    ("amax", True): ([0, NAN, NAN, 1, 1 / 2, 1, 1], [1, NAN, NAN, 0, 0, 1 / 2, 0, 0]),
    ("amin", True): (
        [1 / 3, NAN, NAN, 1, 1 / 2, 1, 0],
        [0, NAN, NAN, 1 / 3, 1 / 3, 1 / 2, 1 / 2, 1 / 2],
    ),
    ("amin", False): ([0, 0, 0, 1, 0, 1, 0], [0, 1, NAN, 1 / 2, 1 / 2, 1, 1 / 2, 1 / 2]),
}


@pytest.mark.parametrize(("reduce", "include_self"), SLOPES)
def test_slopes(reduce: str, include_self: bool) -> None:
    x = fd.tensor([1, NAN, 2, 5, 0, 0, 2], requires_grad=True)
    src = fd.tensor([2, 3, NAN, 1, 1, 0, 0, 0], requires_grad=True)
    x.scatter_reduce(0, fd.tensor(INDEX), src, reduce, include_self=include_self).sum().backward()
    for one, expected in zip((x, src), SLOPES[reduce, include_self], strict=True):
        np.testing.assert_allclose(one.grad.numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("include_self", [False, True])
@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
def test_derivatives_are_those_of_differences(reduce: str, include_self: bool) -> None:
    index = fd.tensor([[0, 2, 2, 1], [1, 0, 0, 0]])

    def f(x: fd.Tensor, src: fd.Tensor) -> Any:
        return x.scatter_reduce(1, index, src, reduce, include_self=include_self) ** 2

    random = np.random.default_rng(0)
    arrays = [random.standard_normal((3, 3)), random.standard_normal((2, 5))]
    check_first_order(f, arrays, generator("scatter_reduce"))
    check_second_order(f, arrays, generator("scatter_reduce twice"))


@pytest.mark.parametrize("include_self", [False, True])
@pytest.mark.parametrize("zeros", [1, 2, 3])
def test_products_with_zeros_have_second_derivatives(zeros: int, include_self: bool) -> None:
    index = fd.tensor([0, 0, 0, 0, 1])

    def f(x: fd.Tensor, src: fd.Tensor) -> Any:
        return x.scatter_reduce(0, index, src, "prod", include_self=include_self)

    src = np.array([2.0, 0.0, 0.0, 3.0, 0.0])
    arrays = [np.array([0.0 if zeros == 3 else 1.5, 2.0, 0.0]), np.where(
        np.arange(5) > zeros, np.maximum(src, 1), src)]  # fmt: skip
    check_first_order(f, arrays, generator("products"))
    check_second_order(f, arrays, generator("products twice"))


def test_the_mean_of_bools_is_refused() -> None:
    x = fd.tensor([True, False])
    with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
        x.scatter_reduce(0, fd.tensor([0]), x, "mean")
