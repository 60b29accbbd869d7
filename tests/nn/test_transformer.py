"""The Transformer: masks, copies of layers, and invalid arguments."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import fastdist as fd
from fastdist import nn
from fastdist.nn import functional as F

SIZES: Any = (4, 2, 5, 0.0)


def test_the_causal_mask_lets_nobody_look_ahead() -> None:
    mask = nn.Transformer.generate_square_subsequent_mask(2, dtype=fd.float64)
    assert mask.tolist() == [[0.0, -float("inf")], [0.0, 0.0]] and mask.dtype is fd.float64
    layer, x = nn.TransformerEncoderLayer(*SIZES), fd.randn(3, 1, 4)
    mask = nn.Transformer.generate_square_subsequent_mask(3)
    found = layer(x, mask)
    assert fd.allclose(layer(x[:2], mask[:2, :2]), found[:2], atol=1e-6)


@pytest.mark.parametrize("is_causal", [None, True, False])
def test_a_causal_mask_gives_the_same_whether_it_is_told_or_found_out(is_causal: Any) -> None:
    layer = nn.TransformerEncoder(nn.TransformerEncoderLayer(*SIZES), 2)
    x, mask = fd.randn(3, 2, 4), nn.Transformer.generate_square_subsequent_mask(3)
    assert fd.allclose(layer(x, mask, is_causal=is_causal), layer(x, mask < 0), atol=1e-6)


def test_layers_begin_alike_and_learn_apart() -> None:
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(*SIZES), 2)
    first, second = (layer.linear1.weight for layer in encoder.layers)
    assert fd.equal(first, second) and first is not second


@pytest.mark.parametrize("batch_first", [False, True])
def test_a_batch_gives_what_each_gives_alone(batch_first: bool) -> None:
    model = nn.Transformer(4, 2, 1, 1, 5, 0.0, batch_first=batch_first)
    src, tgt = fd.randn(2, 5, 4), fd.randn(2, 3, 4)
    alone = fd.stack([model(*pair) for pair in zip(src, tgt, strict=True)])
    if batch_first:
        found = model(src, tgt)
    else:
        found = model(src.transpose(0, 1), tgt.transpose(0, 1)).transpose(0, 1)
    assert fd.allclose(found, alone, atol=1e-5)


def test_padding_of_the_memory_is_not_seen() -> None:
    layer, tgt, memory = nn.TransformerDecoderLayer(*SIZES), fd.randn(3, 1, 4), fd.randn(5, 1, 4)
    padding = fd.tensor([[False, False, True, True, True]])
    found = layer(tgt, memory, memory_key_padding_mask=padding)
    assert fd.allclose(found, layer(tgt, memory[:2]), atol=1e-6)


@pytest.mark.parametrize("kind", [nn.TransformerEncoderLayer, nn.TransformerDecoderLayer])
def test_the_activation_may_be_a_word_a_function_or_a_module(kind: Any) -> None:
    given = [fd.randn(3, 2, 4)] * (1 if kind is nn.TransformerEncoderLayer else 2)
    first = kind(*SIZES, "gelu")
    for other in (kind(*SIZES, F.gelu), kind(*SIZES, nn.GELU())):
        other.load_state_dict(first.state_dict())
        for one in (other, copy.deepcopy(other)):
            assert fd.equal(one(*given), first(*given))
    with pytest.raises(RuntimeError, match=r"^activation should be relu/gelu, not tanh"):
        kind(*SIZES, "tanh")


def test_a_transformer_is_pickled_with_what_it_has_learnt() -> None:
    model = nn.Transformer(4, 2, 1, 1, 5, 0.0)
    other = pickle.loads(pickle.dumps(model))
    src, tgt = fd.randn(2, 1, 4), fd.randn(3, 1, 4)
    assert fd.equal(other(src, tgt), model(src, tgt))


def test_encoders_and_decoders_of_one_s_own_take_the_places_of_ours() -> None:
    class Same(nn.Module):
        def forward(self, first: Any, *rest: Any, **masks: Any) -> Any:
            return first

    model = nn.Transformer(4, 2, custom_encoder=Same(), custom_decoder=Same())
    tgt = fd.randn(3, 1, 4)
    assert model(fd.randn(2, 1, 4), tgt) is tgt


def test_what_does_not_fit_is_refused_in_words() -> None:
    model = nn.Transformer(4, 2, 1, 1, 5)
    with pytest.raises(RuntimeError, match=r"^the batch number of src and tgt must be equal"):
        model(fd.ones(2, 1, 4), fd.ones(2, 2, 4))
    with pytest.raises(
        RuntimeError, match=r"^the feature number of src and tgt must be equal to d_"
    ):
        model(fd.ones(2, 1, 3), fd.ones(2, 1, 4))
