"""Attention with a score function, against PyTorch's."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import fastdist
from fastdist.nn.attention import bias, flex_attention

pytestmark = pytest.mark.interop("torch")


def attended(library: Any, flex: Any) -> tuple[list[Any], Any]:
    rng = np.random.default_rng(0)
    shapes = (2, 4, 20, 8), (2, 2, 12, 8), (2, 2, 12, 8)
    query, key, value = (library.tensor(rng.normal(size=shape).tolist()) for shape in shapes)
    slopes = library.tensor([0.1, 0.2, 0.3, 0.4])
    mask = flex.create_block_mask(
        lambda b, h, q, k: (q >= k) | (k < 3), None, None, 20, 12, device="cpu", BLOCK_SIZE=4
    )
    results = flex.flex_attention(
        query,
        key,
        value,
        score_mod=lambda score, b, h, q, k: score + slopes[h] * (q - k),
        block_mask=mask,
        enable_gqa=True,
        return_lse=True,
    )
    return list(results), mask


# Importing this module of PyTorch and compiling takes 2 s.
@pytest.mark.one_in(3)
def test_results_and_blocks_are_pytorchs() -> None:
    import torch
    from torch.nn.attention import flex_attention as theirs

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected, blocks = attended(torch, theirs)
    found, mask = attended(fastdist, flex_attention)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.asarray(one), other.numpy(), atol=2e-6)
    for name in ("kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices"):
        assert getattr(mask, name).tolist() == getattr(blocks, name).tolist(), name
    assert mask.sparsity() == pytest.approx(blocks.sparsity())


@pytest.mark.parametrize("name", ["causal_upper_left", "causal_lower_right"])
def test_causal_masks_are_pytorchs(name: str) -> None:
    from torch.nn.attention import bias as theirs

    expected = getattr(theirs, name)(2, 3)._materialize().tolist()
    assert getattr(bias, name)(2, 3).tolist() == expected
