"""Dtypes of results and gradients when operands or intermediate results have another dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import fastdist as fd
from fastdist.nn import functional as F


@pytest.mark.parametrize("name", ["digamma", "lgamma", "erf", "sinc", "i0"])
@pytest.mark.parametrize("count", [1, 50])
def test_a_gradient_that_is_asked_for_has_the_dtype_of_its_leaf(name: str, count: int) -> None:
    x = fd.full((count,), 1.5, requires_grad=True)
    (found,) = fd.autograd.grad(getattr(fd, name)(x).sum(), x)
    assert found.dtype is fd.float32


@pytest.mark.parametrize("dtype", [fd.float16, fd.bfloat16])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_grid_sample_keeps_half_types(dtype: fd.dtype, padding: str, mode: str) -> None:
    image, grid = fd.ones(1, 1, 3, 3, dtype=dtype), fd.full((1, 2, 2, 2), 1.25, dtype=dtype)
    found = F.grid_sample(image, grid, mode, padding, align_corners=False)
    assert found.dtype is dtype


WHOLE = fd.tensor([[1, 2], [3, 4]])


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda m: fd.addmm(m, m, m, beta=0.5, alpha=1.5), [[7, 10], [15, 22]]),
        (lambda m: fd.addmv(m[0], m, m[0], beta=0.5, alpha=2.9), [10, 22]),
        (lambda m: fd.baddbmm(m[None], m[None], m[None], beta=2.5), [[[9, 14], [21, 30]]]),
        (lambda m: fd.addbmm(m, m[None], m[None], alpha=1.5), [[8, 12], [18, 26]]),
    ],
)
@pytest.mark.parametrize("dtype", [fd.int64, fd.int32, fd.int8, fd.uint8])
def test_products_of_whole_numbers_cut_the_fractions_of_their_factors(
    dtype: fd.dtype, call: Callable[..., Any], expected: Any
) -> None:
    found = call(WHOLE.to(dtype))
    assert found.dtype is dtype and found.tolist() == expected


def test_addr_of_flags_gives_flags_and_of_whole_numbers_takes_no_fractions() -> None:
    flags = fd.tensor([True, False])
    found = fd.addr(flags, flags, flags, beta=False, alpha=3)
    assert found.dtype is fd.bool and found.tolist() == [[True, False], [False, False]]
    with pytest.raises(RuntimeError, match="argument beta must not be a floating point number"):
        fd.addr(WHOLE[0], WHOLE[0], WHOLE[0], beta=0.5)


@pytest.mark.parametrize("dtype", [fd.uint8, fd.int8, fd.int32])
def test_unravelled_places_may_be_beyond_the_dtype_of_the_index(dtype: fd.dtype) -> None:
    found = fd.unravel_index(fd.tensor([100, 7], dtype=dtype), (2, 300))
    assert [(one.dtype, one.tolist()) for one in found] == [
        (fd.int64, [0, 0]), (fd.int64, [100, 7])]  # fmt: skip


def test_weights_of_covariances_have_a_say_in_the_dtype() -> None:
    x = fd.tensor([[1.0, 2.0, 4.0]], dtype=fd.float16)
    assert fd.cov(x, aweights=fd.ones(3)).dtype is fd.float32
    assert fd.cov(x, fweights=fd.tensor([1, 2, 1])).dtype is fd.float16


def test_type_takes_a_memory_format() -> None:
    found = fd.ones(1, 2, 2, 2).type(fd.float64, memory_format=fd.channels_last)
    assert found.dtype is fd.float64 and found.stride() == (8, 1, 4, 2)


def test_slopes_are_a_tuple_and_no_spacing_is_1() -> None:
    x = fd.tensor([1.0, 2.0, 4.0])
    found = fd.gradient(x, spacing=None, dim=0)
    assert isinstance(found, tuple) and found[0].tolist() == [1.0, 1.5, 2.0]


def test_a_list_of_tensors_gets_its_axes_one_by_one() -> None:
    found = fd.atleast_2d([fd.tensor(1), fd.tensor([1, 2])])
    assert isinstance(found, tuple) and [one.shape for one in found] == [(1, 1), (1, 2)]
