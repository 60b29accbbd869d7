"""Pooling: indices of maxima, unpooling, and errors with PyTorch's messages."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist.nn import functional as F

X = fd.arange(24.0).reshape(1, 2, 3, 4)


def test_indices_count_through_the_plane() -> None:
    values, indices = F.max_pool2d(X, 2, return_indices=True)
    assert values.tolist() == [[[[5, 7]], [[17, 19]]]]
    assert indices.tolist() == [[[[5, 7]], [[5, 7]]]]


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_a_window_of_padding_alone_gives_the_lowest_number(axes: int) -> None:
    for axis in range(axes):
        kernel, padding, dilation = [1] * axes, [0] * axes, [1] * axes
        kernel[axis], padding[axis], dilation[axis] = 2, 1, 2
        shape = [3 if i != axis else 1 for i in range(axes)]
        pool: Any = getattr(F, f"max_pool{axes}d")
        x = fd.ones(1, *shape)
        found, places = pool(x, kernel, 1, padding, dilation, return_indices=True)
        assert (found == -fd.inf).all()
        assert ((places >= 0) & (places < x.numel())).all()


def test_integers_are_pooled_over_two_axes_and_not_over_one() -> None:
    assert fd.max_pool2d(X.long(), 3).tolist() == [[[[10]], [[22]]]]
    assert F.avg_pool2d(X.long(), 3).dtype is fd.int64
    with pytest.raises(NotImplementedError, match="\"max_pool1d_impl\" not implemented for 'Long'"):
        fd.max_pool1d(X[0].long(), 2)


def test_averages_of_whole_numbers_are_exact() -> None:
    assert (F.avg_pool2d(fd.ones(1, 1, 21, 21), 7, 3) == 1).all()


def test_ceil_mode_adds_windows_that_begin_inside() -> None:
    x = fd.arange(7.0).reshape(1, 7)
    assert F.max_pool1d(x, 2, 3, ceil_mode=True).tolist() == [[1, 4, 6]]
    assert F.avg_pool1d(x, 2, 3, ceil_mode=True).tolist() == [[0.5, 3.5, 6]]
    assert F.avg_pool1d(x, 2, 3, 1, ceil_mode=True).tolist() == [[0, 2.5, 5.5]]


def test_a_window_far_longer_than_its_row_takes_no_longer_than_the_row() -> None:
    x = fd.ones(1, 7, dtype=fd.float64, requires_grad=True)
    wide = 2**36
    found = F.avg_pool1d(x, wide, 1, wide // 2)
    assert found.tolist() == [[7 / wide] * 8]
    found.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [[8 / wide] * 7]


def test_a_batch_of_none_gives_none() -> None:
    assert F.max_pool2d(X[:0], 2).shape == (0, 2, 1, 2)
    assert F.adaptive_avg_pool2d(X[:0], (2, 3)).shape == (0, 2, 2, 3)


def test_unpooling_writes_what_overlapping_windows_share_once() -> None:
    x = fd.tensor([[1.0, 5.0, 2.0, 3.0]])
    values, indices = F.max_pool1d(x, 2, 1, return_indices=True)
    assert F.max_unpool1d(values, indices, 2, 1).tolist() == [[0, 5, 0, 3]]
    assert F.max_unpool1d(values, indices, 2, 1, output_size=(4,)).shape == (1, 4)


def test_fractional_windows_begin_where_is_drawn() -> None:
    x = (fd.arange(30.0, dtype=fd.float64) % 7).reshape(1, 1, 5, 6).requires_grad_()
    samples = fd.tensor([[[0.3, 0.8]]], dtype=fd.float64)
    values, indices = F.fractional_max_pool2d(
        x, 2, output_size=(3, 4), return_indices=True, _random_samples=samples
    )
    # The expected numbers are results of PyTorch 2.13.
    assert values.flatten().tolist() == [6, 2, 4, 5, 6, 6, 3, 4, 5, 6, 6, 2]
    assert indices.flatten().tolist() == [6, 2, 4, 5, 6, 13, 10, 11, 19, 20, 27, 23]
    values.sum().backward()
    counted = np.bincount(indices.numpy().ravel(), minlength=30)
    assert x.grad.flatten().tolist() == counted.tolist()


def test_fractional_windows_in_three_dimensions() -> None:
    x = (fd.arange(80.0, dtype=fd.float64) % 11).reshape(1, 1, 4, 4, 5)
    samples = fd.tensor([[[0.3, 0.8, 0.5]]], dtype=fd.float64)
    values, indices = F.fractional_max_pool3d_with_indices(x, 2, (2, 1, 3), _random_samples=samples)
    assert values.flatten().tolist() == [10, 10, 8, 10, 9, 10]
    assert indices.flatten().tolist() == [10, 32, 19, 76, 53, 54]
    assert F.fractional_max_pool3d(x, 2, output_ratio=0.5).shape == (1, 1, 2, 2, 2)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: F.max_pool2d(X, 0), "stride should not be zero"),
        (lambda: F.max_pool2d(X, 2, 2, 2), "pad should be at most half of effective kernel size"),
        (lambda: F.max_pool2d(X, 2, 2, -1), "pad must be non-negative, but got pad: -1"),
        (lambda: F.max_pool2d(X, 5), r"Given input size: \(2x3x4\). Calculated output size: \(2x"),
        (lambda: F.max_pool2d(X, (2,) * 3), "max_pool2d: kernel_size must either be a single int"),
        (lambda: F.max_pool2d(X, 2, 1, 0, 0), "dilation should be greater than zero"),
        (lambda: F.max_pool1d(X[0], 0), r"max_pool1d\(\) kernel_size must be greater than zero"),
        (lambda: F.avg_pool2d(X, 2, divisor_override=0), "divisor must be not zero"),
        (lambda: F.avg_pool3d(X, 4), r"input image \(T: 2 H: 3 W: 4\) smaller than kernel size"),
        (lambda: F.adaptive_avg_pool2d(X, (1, 2, 3)), "adaptive_avg_pool2d: output_size must be 2"),
        (lambda: F.adaptive_avg_pool2d(X, -1), "elements of output_size must be greater than or"),
        (lambda: F.adaptive_max_pool2d(X[..., :0], 2), "with dimension 3 being empty"),
        (lambda: F.fractional_max_pool2d(X, 2, output_size=3), "pool height 2 too large relative"),
        (lambda: F.max_unpool2d(X, X.long() + 100, 2), "Found an invalid max index: 123"),
        (lambda: F.max_unpool2d(X, X.int(), 2), "elements in indices should be type int64"),
    ],
)
def test_what_cannot_be_is_refused_in_pytorch_s_words(call: Callable[[], Any], text: str) -> None:
    with pytest.raises(RuntimeError, match=text):
        call()


def test_numbers_that_are_no_ints_are_a_type_error() -> None:
    with pytest.raises(TypeError, match="argument 'kernel_size' must be tuple of ints, not float"):
        F.max_pool2d(X, 2.0)
    with pytest.raises(ValueError, match="either an output_size or an output_ratio"):
        F.fractional_max_pool2d(X, 2)


@pytest.mark.parametrize(
    "words", [(2,), (2, 1), (3, 2, 1), (2, 2, 0, True, False), (2, 3, 0, False, True, 5)]
)
@pytest.mark.parametrize("axes", [2, 3])
def test_later_averages_have_the_bits_and_the_node_of_the_first(axes: int, words: Any) -> None:
    pool = {2: F.avg_pool2d, 3: F.avg_pool3d}[axes]
    x = fd.randn(1, 2, *[7] * axes)
    x[0, 0, 0, 0] = math.nan
    general = pool.__wrapped__
    for given in (x, x.double(), x.requires_grad_()):
        expected = general(given, *words)
        for _ in range(3):
            out = pool(given, *words)
            assert fd.equal(out.isnan(), expected.isnan())
            assert fd.equal(out.nan_to_num(), expected.nan_to_num())
            assert (out.grad_fn and out.grad_fn.name()) == (
                expected.grad_fn and expected.grad_fn.name()
            )
    slopes = [fd.autograd.grad(one(x, *words).nansum(), x)[0] for one in (general, pool)]
    assert fd.equal(*slopes)
    with fd.no_grad():
        assert not pool(x, *words).requires_grad
    with pytest.raises(TypeError):
        pool(x, 2.0)
    with pytest.raises(RuntimeError):
        pool(x, 2, 1, 2)
