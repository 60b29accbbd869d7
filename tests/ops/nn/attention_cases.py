"""Sample calls of attention, embedding bags and bilinear products, with NumPy references."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import fastdist as fd
from fastdist.ops.nn.attention_blocks import attention_in_blocks
from fastdist.random_numbers import philox
from tests.ops.cases import F, bools, case, ints

Array = np.ndarray
MASK = bools("101", "011", "111", "100")


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attention(q: Array, k: Array, v: Array, mask: Any = 0.0, scale: float | None = None) -> Array:
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    return softmax(q @ k.swapaxes(-1, -2) * scale + mask) @ v


def words(seed: int, rows: int, keys: int) -> Array:
    """Return the random 32-bit words by which dropout decides, for the rows of two heads."""
    blocks = -(-keys // 4)
    drawn = philox.words32(seed, 0, rows * blocks * 4).reshape(2, rows // 2, blocks * 4)
    return drawn[..., :keys]


def dropped(q: Array, k: Array, v: Array, seed: int) -> Array:
    scores = q @ k.swapaxes(-1, -2) * 0.5
    rows, keys = scores.shape[1] * scores.shape[2], scores.shape[3]
    return (softmax(scores) * np.where(words(seed, rows, keys) < 0.4 * 2**32, 0, 1 / 0.6)) @ v


def added(mask: Array) -> Array:
    return np.where(mask, 0.0, -np.inf)


def of_blocks(keeps: bool) -> list[Any]:
    """Return cases of attention in blocks; `keeps` says whether the gradient uses kept weights."""

    def blocks(
        q: Any, k: Any, v: Any, mask: Any = None, seed: Any = None, *, causal: bool = False
    ) -> Any:
        numbers = 0.5, causal, 0.0 if seed is None else 0.4, keeps
        return attention_in_blocks.public(q, k, v, mask, seed, *numbers)[0]

    shapes = (2, 2, 4, 3), (2, 2, 5, 3), (2, 2, 5, 2)
    return [
        case(blocks, lambda q, k, v: attention(q, k, v, scale=0.5), *shapes),
        case(
            lambda q, k, v: blocks(q, k, v, causal=True),
            lambda q, k, v: attention(q, k, v, added(np.tri(4, 5, dtype=bool)), 0.5),
            *shapes,
        ),
        case(
            blocks,
            lambda q, k, v, mask: attention(q, k, v, added(mask), 0.5),
            *((1, 1, 4, 3), (1, 1, 3, 3), (1, 1, 3, 2), MASK[None, None]),
        ),
        case(
            blocks,
            lambda q, k, v, mask: attention(q, k, v, mask, 0.5),
            *((2, 2, 4, 3), (2, 2, 3, 3), (2, 2, 3, 2), (2, 1, 1, 3)),
        ),
        case(
            lambda q, k, v, seed: blocks(q, k, v, None, seed),
            lambda q, k, v, seed: dropped(q, k, v, int(seed[0])),
            *((1, 2, 4, 3), (1, 2, 5, 3), (1, 2, 5, 2), np.array([7])),
        ),
        case(
            blocks,
            lambda q, k, v: attention(q, k.repeat(2, 1), v.repeat(2, 1), scale=0.5),
            *((1, 4, 2, 3), (1, 2, 3, 3), (1, 2, 3, 2)),
        ),
    ]


def of_heads(x: Array, w: Array, b: Array, o: Array, d: Array) -> Array:
    """Return self-attention of two heads for x of shape (n, batch, 4)."""
    n, batch, size = x.shape
    q, k, v = (
        part.reshape(n, batch, 2, size // 2).transpose(1, 2, 0, 3)
        for part in np.split(x @ w.T + b, 3, -1)
    )
    return attention(q, k, v).transpose(2, 0, 1, 3).reshape(n, batch, size) @ o.T + d


def heads(x: Any, w: Any, b: Any, o: Any, d: Any, *, need_weights: bool) -> Any:
    return F.multi_head_attention_forward(
        *(x, x, x, 4, 2, w, b, None, None, False, 0.0, o, d), need_weights=need_weights
    )[0]


def products(x: Array, y: Array, w: Array) -> Array:
    return np.stack([((x @ matrix) * y).sum(-1) for matrix in w], -1)


BAG, BAGS, STARTS = ints(0, 3, 1, 3, 2), np.array([[0, 3], [1, 3], [2, 2]]), ints(0, 2, 2)


CASES = {
    "scaled_dot_product_attention": [
        case(F.scaled_dot_product_attention, attention, (2, 4, 3), (2, 3, 3), (2, 3, 5)),
        case(
            lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3),
            lambda q, k, v: attention(q, k, v, added(np.tri(4, 3, dtype=bool)), 0.3),
            *((2, 2, 4, 3), (2, 3, 3), (2, 1, 3, 5)),
        ),
        case(
            F.scaled_dot_product_attention,
            lambda q, k, v, mask: attention(q, k, v, added(mask)),
            *((2, 4, 3), (2, 3, 3), (2, 3, 5), MASK),
        ),
        case(F.scaled_dot_product_attention, attention, (4, 3), (3, 3), (3, 5), (4, 3)),
        case(
            lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
            lambda q, k, v: attention(q, k.repeat(2, 0), v.repeat(2, 0)),
            *((4, 4, 3), (2, 3, 3), (2, 3, 5)),
        ),
    ],
    "attention_in_blocks": [one for keeps in (False, True) for one in of_blocks(keeps)],
    "multi_head_attention_forward": [
        case(
            lambda *given, need=need: heads(*given, need_weights=need),
            of_heads,
            *((3, 2, 4), (12, 4), (12,), (4, 4), (4,)),
            tolerance=2e-5,
        )
        for need in (False, True)
    ],
    "embedding_bag": [
        case(
            lambda w, i, at: F.embedding_bag(i, w, at, mode="sum"),
            lambda w, i, at: np.stack([w[i[:2]].sum(0), np.zeros(3), w[i[2:]].sum(0)]),
            *((4, 3), BAG, STARTS),
        ),
        case(
            lambda w, i: F.embedding_bag(i, w, padding_idx=-1),
            lambda w, i: np.stack([w[0], w[1], w[2]]),
            *((4, 3), BAGS),
        ),
        case(
            lambda w, i, at: F.embedding_bag(i, w, at, mode="max"),
            lambda w, i, at: np.stack([w[i[:2]].max(0), np.zeros(3), w[i[2:]].max(0)]),
            *((4, 3), BAG, STARTS),
        ),
        case(
            lambda w, f, i: F.embedding_bag(i, w, mode="sum", per_sample_weights=f),
            lambda w, f, i: (w[i] * f[..., None]).sum(1),
            *((4, 3), (3, 2), BAGS),
        ),
    ],
    "bilinear": [
        case(
            F.bilinear,
            lambda x, y, w, b: products(x, y, w) + b,
            *((2, 3), (2, 4), (5, 3, 4), (5,)),
            tolerance=2e-5,
        ),
        case(fd.bilinear, products, (3,), (4,), (5, 3, 4)),
    ],
}
COVERED_BY = dict.fromkeys(("attention_gradient", "thinning"), "attention_in_blocks")
