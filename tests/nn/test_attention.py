"""nn.attention: causal masks, and attention whose scores a user's function changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastdist
from fastdist.nn import attention
from fastdist.nn.attention import bias, flex_attention
from fastdist.nn.functional import scaled_dot_product_attention


def inputs(queries: int = 5, keys: int = 5) -> list[fastdist.Tensor]:
    rng = np.random.default_rng(0)
    lengths = (queries, keys, keys)
    return [fastdist.tensor(rng.normal(size=(1, 2, n, 4))) for n in lengths]


def causal(b: Any, h: Any, q: Any, k: Any) -> Any:
    return q >= k


def test_without_functions_it_is_plain_attention() -> None:
    found = flex_attention.flex_attention(*inputs())
    np.testing.assert_allclose(found, scaled_dot_product_attention(*inputs()), atol=1e-12)


def test_a_causal_mask_in_blocks_is_that_of_a_causal_bias() -> None:
    mask = flex_attention.create_block_mask(causal, None, None, 5, 5, BLOCK_SIZE=2)
    found = flex_attention.flex_attention(*inputs(), block_mask=mask)
    expected = scaled_dot_product_attention(*inputs(), attn_mask=bias.causal_upper_left(5, 5))
    assert type(expected) is fastdist.Tensor
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert mask.to_dense().tolist() == [[[[1, 0, 0], [1, 1, 0], [1, 1, 1]]]]
    assert mask.shape == (1, 1, 5, 5)


def test_a_function_of_the_scores_is_differentiated() -> None:
    query, key, value = inputs(2, 2)
    slope = fastdist.tensor([0.5, 1.0], dtype=fastdist.float64, requires_grad=True)

    def total(slopes: fastdist.Tensor) -> fastdist.Tensor:
        return flex_attention.flex_attention(
            query, key, value, lambda score, b, h, q, k: score + slopes[h] * (q - k)
        ).sum()

    assert fastdist.autograd.gradcheck(total, (slope,))


def test_a_query_that_sees_nothing_gets_zeros() -> None:
    mask = flex_attention.create_block_mask(lambda b, h, q, k: (q > 0) & (k >= 0), None, None, 2, 2)
    found, more = flex_attention.flex_attention(
        *inputs(2, 2), block_mask=mask, return_aux=flex_attention.AuxRequest(max_scores=True)
    )
    assert found[0, 0, 0].tolist() == [0.0] * 4
    assert (more.lse, more.max_scores.shape) == (None, (1, 2, 2))


def test_masks_are_combined() -> None:
    near = flex_attention.and_masks(causal, lambda b, h, q, k: q - k < 2)
    either = flex_attention.or_masks(near, lambda b, h, q, k: k == 0)
    mask = flex_attention.create_mask(either, None, None, 3, 3)
    assert mask[0, 0].tolist() == [[True, False, False], [True, True, False], [True, True, True]]
    every = flex_attention.create_mask(flex_attention.noop_mask, 2, 1, 2, 1)
    assert (every.shape, bool(every.all())) == ((2, 1, 2, 1), True)
    with pytest.raises(RuntimeError, match="callable mask_mods"):
        flex_attention.and_masks(3)  # type: ignore[arg-type]


def test_shapes_that_do_not_fit_are_refused() -> None:
    query, key, value = inputs()
    with pytest.raises(ValueError, match="4 dimensions"):
        flex_attention.flex_attention(query[0], key, value)
    with pytest.raises(ValueError, match="enable_gqa=True"):
        flex_attention.flex_attention(query, key[:, :1], value[:, :1])
    mask = flex_attention.create_block_mask(causal, None, None, 4, 4)
    with pytest.raises(ValueError, match="q_len=5 and kv_len=5"):
        flex_attention.flex_attention(query, key, value, block_mask=mask)


def test_a_causal_mask_knows_its_variant() -> None:
    mask = bias.causal_lower_right(2, 3)
    assert isinstance(mask, bias.CausalBias) and mask.variant == bias.CausalVariant.LOWER_RIGHT
    assert mask._materialize().tolist() == [[True, True, False], [True, True, True]]
    with pytest.raises(RuntimeError, match="2 sizes"):
        bias.causal_upper_left(2)
    assert attention.SDPBackend.MATH == 0
