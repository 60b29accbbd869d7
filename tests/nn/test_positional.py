"""PyTorch's top-level functions of layers and losses are the functions of nn.functional."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from tests.ops.differences import generator

F = fd.nn.functional
random = generator("positional")


def T(*shape: int) -> fd.Tensor:
    return fd.tensor(random.uniform(-2, 2, shape))


X, Y, Z = T(3, 4), T(3, 4), T(3, 4)
SIGNS = fd.tensor([1.0, -1.0, 1.0])
CHANNELS, OWN = T(2, 4, 5), (T(4), T(4), T(4), T(4).abs())
PICTURE, GRID, VOLUME = T(2, 1, 4, 4), T(2, 3, 3, 2), T(2, 1, 4, 4, 4)
GRID3 = T(2, 3, 3, 2, 3)
w, b, mean, var = OWN
LIKELY, TEXTS = T(6, 2, 4).log_softmax(2), fd.tensor([[1, 2], [3, 1]])
TABLE, PLACES = T(5, 2), fd.tensor([0, 3, 1])


@pytest.mark.parametrize(
    ("ours", "functional"),
    [
        (
            fd.batch_norm(CHANNELS, *OWN, False, 0.1, 1e-3, True),
            F.batch_norm(CHANNELS, mean, var, w, b, eps=1e-3),
        ),
        (
            fd.instance_norm(CHANNELS, w, b, None, None, True, 0.1, 1e-3, True),
            F.instance_norm(CHANNELS, weight=w, bias=b, eps=1e-3),
        ),
        (fd.group_norm(CHANNELS, 2, w, b, 1e-3), F.group_norm(CHANNELS, 2, w, b, 1e-3)),
        (fd.embedding(TABLE, PLACES), F.embedding(PLACES, TABLE)),
        (
            fd.adaptive_max_pool1d(CHANNELS, 2)[1],
            F.adaptive_max_pool1d(CHANNELS, 2, return_indices=True)[1],
        ),
        (fd.constant_pad_nd(X, (1, 0), 3), F.pad(X, (1, 0), value=3)),
        (fd.constant_pad_nd(X.byte(), (1, 0), -1), F.pad(X.byte(), (1, 0), value=255)),
        (
            fd.affine_grid_generator(T(2, 2, 3) * 0, (2, 1, 3, 4), False),
            F.affine_grid(T(2, 2, 3) * 0, (2, 1, 3, 4), False),
        ),
        (
            fd.grid_sampler(PICTURE, GRID, 1, 2, True),
            F.grid_sample(PICTURE, GRID, "nearest", "reflection", True),
        ),
        (
            fd.grid_sampler_2d(PICTURE, GRID, 2, 1, False),
            F.grid_sample(PICTURE, GRID, "bicubic", "border", False),
        ),
        (
            fd.grid_sampler_3d(VOLUME, GRID3, 0, 0, False),
            F.grid_sample(VOLUME, GRID3, align_corners=False),
        ),
        (fd.dropout(X, p=1.0, train=True), fd.zeros_like(X)),
        (fd.dropout(X, 0.5, False), X),
        (fd.alpha_dropout(X, 0.0, True), X),
        (fd.feature_alpha_dropout(X, p=0.5, train=False), X),
        (fd.dropout_(X.clone(), 1.0, True), fd.zeros_like(X)),
        (fd.feature_dropout(X, 1.0, True), fd.zeros_like(X)),
        (fd.feature_dropout_(X.clone(), 0.5, False), X),
        (fd.alpha_dropout_(X.clone(), 1.0, True), fd.zeros_like(X)),
        (fd.feature_alpha_dropout_(X.clone(), 0.5, False), X),
        (fd.fill(X, fd.tensor(2.0)), fd.full_like(X, 2.0)),
    ],
)
def test_a_layer_is_that_of_functional(ours: fd.Tensor, functional: fd.Tensor) -> None:
    assert fd.equal(ours, functional)


LOSSES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "binary_cross_entropy_with_logits": (
        lambda r: fd.binary_cross_entropy_with_logits(X, Y, None, w.abs(), r),
        lambda r: F.binary_cross_entropy_with_logits(X, Y, pos_weight=w.abs(), reduction=r),
    ),
    "cosine_embedding_loss": (
        lambda r: fd.cosine_embedding_loss(X, Y, SIGNS, 0.1, r),
        lambda r: F.cosine_embedding_loss(X, Y, SIGNS, 0.1, reduction=r),
    ),
    "ctc_loss": (
        lambda r: fd.ctc_loss(LIKELY, TEXTS, (6, 5), (2, 1), 0, r),
        lambda r: F.ctc_loss(LIKELY, TEXTS, (6, 5), (2, 1), reduction=r),
    ),
    "hinge_embedding_loss": (
        lambda r: fd.hinge_embedding_loss(X, Y.sign(), 0.5, r),
        lambda r: F.hinge_embedding_loss(X, Y.sign(), 0.5, reduction=r),
    ),
    "kl_div": (
        lambda r: fd.kl_div(X, Y, r, log_target=True),
        lambda r: F.kl_div(X, Y, reduction=r, log_target=True),
    ),
    "margin_ranking_loss": (
        lambda r: fd.margin_ranking_loss(X, Y, Z.sign(), 0.5, r),
        lambda r: F.margin_ranking_loss(X, Y, Z.sign(), 0.5, reduction=r),
    ),
    "poisson_nll_loss": (
        lambda r: fd.poisson_nll_loss(X, Y.abs(), True, True, 1e-8, r),
        lambda r: F.poisson_nll_loss(X, Y.abs(), True, True, reduction=r),
    ),
    "triplet_margin_loss": (
        lambda r: fd.triplet_margin_loss(X, Y, Z, 0.5, swap=True, reduction=r),
        lambda r: F.triplet_margin_loss(X, Y, Z, 0.5, swap=True, reduction=r),
    ),
}


@pytest.mark.filterwarnings("ignore:reduction:UserWarning")
@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_is_that_of_functional_for_each_reduction(name: str) -> None:
    ours, functional = LOSSES[name]
    for number, word in enumerate(("none", "mean", "sum")):
        assert fd.allclose(ours(number), functional(word))


def test_a_loss_without_reduction_is_not_reduced() -> None:
    assert fd.kl_div(X, Y.abs()).shape == X.shape
    assert fd.ctc_loss(LIKELY, TEXTS, (6, 5), (2, 1)).shape == (2,)


def test_embedding_bag_tells_what_lies_where() -> None:
    indices, offsets = fd.tensor([0, 1, 3, 1]), fd.tensor([0, 0, 2])
    found, bags, sizes, largest = fd.embedding_bag(
        TABLE, indices, offsets, False, 2, False, None, False, 1
    )
    expected = F.embedding_bag(indices, TABLE, offsets, mode="max", padding_idx=1)
    assert fd.equal(found, expected)
    assert (bags.tolist(), sizes.tolist()) == ([1, 1, 2, 2], [0, 1, 1])
    assert largest.tolist() == [[0, 0], [0, 0], [3, 3]]


def test_embedding_renorm_shortens_the_rows_that_are_named() -> None:
    table = fd.full((3, 2), 3.0)
    fd.embedding_renorm_(table, fd.tensor([1]), 1.0, 2.0)
    np.testing.assert_allclose(table.norm(2, 1).numpy(), [18**0.5, 1.0, 18**0.5], rtol=1e-6)


def test_conv_tbc_is_a_convolution_along_the_first_axis() -> None:
    x, weight, bias = T(6, 2, 3), T(2, 3, 4), T(4)
    found = fd.conv_tbc(x, weight, bias, 1)
    assert found.shape == (7, 2, 4)
    here = x[1] @ weight[0] + x[2] @ weight[1] + bias
    np.testing.assert_allclose(found[2].numpy(), here.numpy(), rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: fd.kl_div(X, Y, 3), ValueError),
        (lambda: fd.kl_div(X, Y, "mean"), TypeError),
        (lambda: fd.dropout_(X.clone(), 2.0, True), RuntimeError),
        (lambda: fd.dropout(X, 0.5), TypeError),
        (lambda: fd.alpha_dropout(X, 2.0, True), RuntimeError),
        (lambda: fd.grid_sampler_2d(VOLUME, GRID3, 0, 0, True), RuntimeError),
        (lambda: fd.conv_tbc(X, X, X), RuntimeError),
        (lambda: fd.batch_norm(CHANNELS), TypeError),
    ],
)
def test_what_makes_no_sense_is_refused(call: Callable[[], Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        call()
