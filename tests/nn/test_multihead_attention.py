"""MultiheadAttention: masks, weights, added keys and errors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist import nn

PADDING = fd.tensor([[False, False, True], [False, True, True]])


def test_weights_are_shares_of_the_keys() -> None:
    layer, x = nn.MultiheadAttention(4, 2), fd.randn(3, 2, 4)
    _, averaged = layer(x, x, x)
    _, each = layer(x, x, x, average_attn_weights=False)
    assert averaged.shape == (2, 3, 3) and each.shape == (2, 2, 3, 3)
    assert fd.allclose(averaged.sum(-1), fd.ones(2, 3))
    assert fd.allclose(each.mean(1), averaged)


def test_nobody_looks_at_padding() -> None:
    layer, x = nn.MultiheadAttention(4, 2, batch_first=True), fd.randn(2, 3, 4)
    found, weights = layer(x, x, x, key_padding_mask=PADDING)
    assert (weights[PADDING.unsqueeze(1).expand(2, 3, 3)] == 0).all()
    alone, _ = layer(x[1, :1].unsqueeze(0), x[1, :1].unsqueeze(0), x[1, :1].unsqueeze(0))
    assert fd.allclose(found[1, 0], alone[0, 0], atol=1e-6)


@pytest.mark.parametrize("with_padding", [False, True])
def test_the_output_does_not_depend_on_whether_weights_are_needed(with_padding: bool) -> None:
    layer, x = nn.MultiheadAttention(4, 2, add_bias_kv=True, add_zero_attn=True), fd.randn(3, 2, 4)
    mask: Any = nn.Transformer.generate_square_subsequent_mask(3)
    given = {"attn_mask": mask < 0, "key_padding_mask": PADDING if with_padding else None}
    found, weights = layer(x, x, x, **given)
    quick, none = layer(x, x, x, need_weights=False, **given)
    assert weights.shape == (2, 3, 5) and none is None
    assert fd.allclose(found, quick, atol=1e-6)


def test_is_causal_stands_for_the_mask_that_it_describes() -> None:
    layer, x = nn.MultiheadAttention(4, 2), fd.randn(3, 4)
    mask = nn.Transformer.generate_square_subsequent_mask(3)
    found, _ = layer(x, x, x, attn_mask=mask, need_weights=False, is_causal=True)
    expected, _ = layer(x, x, x, attn_mask=mask)
    assert fd.allclose(found, expected, atol=1e-6)
    with pytest.raises(RuntimeError, match=r"^Need attn_mask if specifying the is_causal hint"):
        layer(x, x, x, is_causal=True)


def test_first_values_are_xavier_s_and_biases_zero() -> None:
    layer = nn.MultiheadAttention(64, 4)
    values = layer.in_proj_weight.detach().numpy()
    bound = math.sqrt(6 / (64 + 192))
    assert np.abs(values).max() <= bound
    assert values.std() == pytest.approx(bound / math.sqrt(3), rel=0.02)
    assert not layer.in_proj_bias.any() and not layer.out_proj.bias.any()


def test_dropout_falls_on_weights_in_training_alone() -> None:
    layer, x = nn.MultiheadAttention(4, 2, dropout=0.5), fd.randn(30, 2, 4)
    _, weights = layer(x, x, x, average_attn_weights=False)
    assert 0.4 < (weights == 0).to(fd.float32).mean().item() < 0.6
    layer.eval()
    assert not (layer(x, x, x)[1] == 0).any()


def test_masks_of_different_kinds_are_warned_of() -> None:
    layer, x = nn.MultiheadAttention(4, 2), fd.randn(3, 2, 4)
    with pytest.warns(UserWarning, match="Support for mismatched key_padding_mask and attn_mask"):
        layer(x, x, x, key_padding_mask=PADDING, attn_mask=fd.zeros(3, 3))


def test_static_keys_and_values_stand_for_the_projected_ones() -> None:
    x, w, o = fd.randn(3, 1, 4), fd.randn(12, 4), fd.eye(4)
    static = fd.randn(2, 5, 2)
    found, weights = nn.functional.multi_head_attention_forward(
        *(x, x, x, 4, 2, w, None, None, None, False, 0.0, o, None),
        static_k=static,
        static_v=fd.ones(2, 5, 2),
    )
    assert weights.shape == (1, 3, 5)
    assert fd.allclose(found, fd.ones(3, 1, 4), atol=1e-6)


X = fd.ones(3, 2, 4)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda m: nn.MultiheadAttention(5, 2), AssertionError, "embed_dim must be divisible by n"),
        (lambda m: nn.MultiheadAttention(0, 2), ValueError, "embed_dim and num_heads must be gre"),
        (lambda m: m(X[0, 0], X, X), AssertionError, "query should be unbatched 2D or batched 3D"),
        (lambda m: m(X, X[0], X), AssertionError, r"For batched \(3-D\) `query`, expected `key` a"),
        (
            lambda m: m(X, X, X, fd.ones(2, dtype=fd.bool)),
            AssertionError,
            r"For batched \(3-D\) `query`, expected `key_padding_mask` to be `None` or 2-D but fou",
        ),
        (
            lambda m: m(X, X, X, fd.ones(3, 3, dtype=fd.bool)),
            AssertionError,
            r"Expected key_padded_mask.shape\[0\] to be 2, but got 3",
        ),
        (
            lambda m: m(X, X, X, fd.ones(2, 3, dtype=fd.int64)),
            AssertionError,
            "only bool and floating types of key_padding_mask are supported",
        ),
        (
            lambda m: m(X, X, X, attn_mask=fd.zeros(2, 3)),
            RuntimeError,
            r"The shape of the 2D attn_mask is .*2, 3.* but should be \(3, 3\)",
        ),
        (
            lambda m: m(X, X, X, attn_mask=fd.zeros(2, 3, 3)),
            RuntimeError,
            r"The shape of the 3D attn_mask is .*2, 3, 3.* but should be \(4, 3, 3\)",
        ),
        (lambda m: m(X, X, X[:2]), AssertionError, "key shape .* does not match value shape"),
        (
            lambda m: m(fd.ones(3, 5), fd.ones(3, 5), fd.ones(3, 5)),
            AssertionError,
            "was expecting embedding dimension of 4, but got 5",
        ),
    ],
)
def test_what_does_not_fit_is_refused_in_words(call: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=f"^{text}"):
        call(nn.MultiheadAttention(4, 2))
