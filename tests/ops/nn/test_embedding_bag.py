"""Embeddings: renormalized rows, gradients scaled by frequency, bags, and rejected arguments."""

from __future__ import annotations

from typing import Any

import pytest

import fastdist as fd
from fastdist.nn import functional as F


@pytest.mark.parametrize("bags", [False, True])
def test_rows_that_are_longer_than_max_norm_are_shortened_where_they_stand(bags: bool) -> None:
    weight = fd.tensor([[3.0, 4.0], [0.3, 0.4], [6.0, 8.0]], requires_grad=True)
    i = fd.tensor([0, 1, 0])
    if bags:
        found = F.embedding_bag(i, weight, fd.tensor([0, 2]), max_norm=1.0, mode="sum")
        assert fd.allclose(found, fd.tensor([[0.9, 1.2], [0.6, 0.8]]))
    else:
        found = F.embedding(i, weight, max_norm=1.0)
        assert fd.allclose(found, fd.tensor([[0.6, 0.8], [0.3, 0.4], [0.6, 0.8]]))
    expected = fd.tensor([[0.6, 0.8], [0.3, 0.4], [6.0, 8.0]])
    assert fd.allclose(weight, expected) and weight.is_leaf
    found.sum().backward()
    assert weight.grad[:, 0].tolist() == [2.0, 1.0, 0.0]


def test_gradients_are_divided_by_how_often_a_row_is_looked_up() -> None:
    i, factors = fd.tensor([0, 1, 0, 0]), fd.tensor([[1.0], [2.0], [4.0], [7.0]])
    weight = fd.ones(3, 1, requires_grad=True)
    (F.embedding(i, weight, scale_grad_by_freq=True) * factors).sum().backward()
    assert weight.grad.flatten().tolist() == [4.0, 2.0, 0.0]
    weight.grad = None
    bags = F.embedding_bag(i, weight, fd.tensor([0, 2]), scale_grad_by_freq=True, mode="sum")
    (bags * fd.tensor([[1.0], [4.0]])).sum().backward()
    assert weight.grad.flatten().tolist() == [3.0, 1.0, 0.0]


def test_the_last_offset_may_be_the_end() -> None:
    weight, i = fd.tensor([[1.0], [2.0], [4.0]]), fd.tensor([0, 1, 2])
    plain = F.embedding_bag(i, weight, fd.tensor([0, 2]), mode="sum")
    found = F.embedding_bag(i, weight, fd.tensor([0, 2, 3]), mode="sum", include_last_offset=True)
    assert plain.tolist() == found.tolist() == [[3.0], [4.0]]


def test_rows_may_be_given_first_as_they_were_long_ago() -> None:
    weight, i = fd.tensor([[1.0], [2.0], [4.0]]), fd.tensor([0, 1, 2])
    with pytest.warns(UserWarning, match="is the old order of arguments"):
        found = F.embedding_bag(weight, i, fd.tensor([0, 2]), mode="sum")
    assert found.tolist() == F.embedding_bag(i, weight, fd.tensor([0, 2]), mode="sum").tolist()


def test_a_bag_of_padding_alone_gives_zeros() -> None:
    weight, i = fd.tensor([[-1.0], [-2.0]]), fd.tensor([[1, 1], [0, 1]])
    for mode in ("sum", "mean", "max"):
        found = F.embedding_bag(i, weight, mode=mode, padding_idx=1)
        assert found.tolist() == [[0.0], [-1.0]]


def test_no_bags_give_no_rows() -> None:
    none = fd.tensor([], dtype=fd.int64)
    for mode in ("sum", "mean", "max"):
        assert F.embedding_bag(none, fd.ones(2, 3), none, mode=mode).shape == (0, 3)
        assert F.embedding_bag(none, fd.ones(2, 3), fd.tensor([0]), mode=mode).tolist() == [[0] * 3]


INDEX, W = fd.tensor([0, 1, 2, 1]), fd.ones(3, 2)


@pytest.mark.parametrize(
    ("given", "more", "error", "text"),
    [
        ((INDEX, W), {}, ValueError, "offsets has to be a 1D Tensor but got None"),
        (
            (INDEX, W, [1, 2]),
            {},
            RuntimeError,
            r"offsets\[0\] has to be 0, i.e., the first sequence",
        ),
        (
            (INDEX, W, [0, 5]),
            {},
            RuntimeError,
            r"offsets\[-1\] can not be greater than input's length",
        ),
        ((INDEX, W, [0, 3, 1]), {}, RuntimeError, "offsets has to rise"),
        (
            (INDEX.reshape(2, 2), W, [0]),
            {},
            ValueError,
            "if input is 2D, then offsets has to be None",
        ),
        (
            (INDEX.reshape(1, 2, 2), W),
            {},
            ValueError,
            "input has to be 1D or 2D Tensor, but got Tens",
        ),
        (
            (INDEX, fd.ones(3), [0]),
            {},
            ValueError,
            "weight has to be a 2D Tensor, but got Tensor of",
        ),
        ((INDEX, W, [0]), {"mode": "x"}, ValueError, "mode has to be one of sum, mean or max"),
        (
            (INDEX, W, [0]),
            {"mode": "max", "scale_grad_by_freq": True},
            ValueError,
            "max mode does not support scaling the gradient by the frequency",
        ),
        (
            (INDEX, W, [0]),
            {"per_sample_weights": fd.ones(4)},
            NotImplementedError,
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported",
        ),
        (
            (INDEX, W, [0]),
            {"mode": "sum", "per_sample_weights": fd.ones(3)},
            ValueError,
            r"embedding_bag: If per_sample_weights \(.*3.*\) is not None, then it must have the sa",
        ),
        (
            (INDEX, W, []),
            {"include_last_offset": True},
            RuntimeError,
            "include_last_offset: number of offset should be at least 1",
        ),
        (
            (INDEX, W, [0]),
            {"padding_idx": 5},
            RuntimeError,
            "padding_idx must be within the number of",
        ),
        (
            (INDEX, W, [0]),
            {"sparse": True, "mode": "max"},
            ValueError,
            "max mode does not support sparse weights",
        ),
    ],
)
def test_what_makes_no_bags_is_refused(given: Any, more: Any, error: Any, text: str) -> None:
    if len(given) == 3:
        given = (*given[:2], fd.tensor(given[2], dtype=fd.int64))
    with pytest.raises(error, match=f"^{text}"):
        F.embedding_bag(*given, **more)


def test_bilinear_says_which_size_does_not_fit() -> None:
    w = fd.ones(5, 3, 4)
    for x, y, text in (
        ([2, 3], [3, 4], "input batch dimensions do not match at dim 0: got 2 and 3"),
        ([3], [2, 4], "input dimensions do not match: got 1 and 2"),
        ([2, 2], [2, 4], "input1 size does not match weight size: got 2 but expected 3"),
        ([2, 3], [2, 3], "input2 size does not match weight size: got 3 but expected 4"),
    ):
        with pytest.raises(RuntimeError, match=rf"^bilinear\(\): {text}"):
            F.bilinear(fd.ones(*x), fd.ones(*y), w)
    with pytest.raises(RuntimeError, match=r"^bilinear\(\): bias size does not match weight size"):
        F.bilinear(fd.ones(3), fd.ones(4), w, fd.ones(4))


@pytest.mark.parametrize("least", [-1, -(2**62), -(2**63)])
@pytest.mark.parametrize("include_last_offset", [False, True])
def test_offsets_that_fall_by_any_number_are_refused(least: int, include_last_offset: bool) -> None:
    offsets = fd.tensor([0, 1, least])
    with pytest.raises(RuntimeError, match="offsets has to rise"):
        F.embedding_bag(
            fd.tensor([0, 1]), fd.ones(3, 2), offsets, include_last_offset=include_last_offset
        )
