"""Sample calls of margin losses, likelihood losses, and similarities along an axis."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import fastdist as fd
from tests.ops.cases import Case, F, case, ints

Array = np.ndarray
SIGNS = ints([[1, -1, 1], [-1, 1, -1]])
ROWS = ints(1, -1, 1)
COUNTS = np.array([[0.0, 1.0, 3.0], [7.0, 2.0, 1.0]])
TARGETS = ints([[3, 0, -1, 1], [1, 2, 3, -1], [-1, 2, 3, 0]])


def positive(x: Array) -> Array:
    return np.maximum(x, 0)


def hinge(x: Array, y: Array, margin: float) -> Array:
    return np.where(y == 1, x, positive(margin - x))


def multi_margin(x: Array, y: Array, p: int, margin: float, weight: Any = None) -> Array:
    losses = np.zeros(len(x))
    for i, row in enumerate(x):
        lacks = positive(margin - row[y[i]] + row) ** p
        losses[i] = (
            np.delete(lacks, y[i]).sum() / len(row) * (1 if weight is None else weight[y[i]])
        )
    return losses


def multilabel_margin(x: Array, y: Array) -> Array:
    losses = np.zeros(len(x))
    for i, row in enumerate(x):
        end = [*(y[i] < 0), True].index(True)
        wanted = y[i][:end]
        others = [c for c in range(len(row)) if c not in wanted]
        losses[i] = sum(max(0, 1 - row[a] + row[b]) for a in wanted for b in others) / len(row)
    return losses


def log_sigmoid(x: Array) -> Array:
    return -np.log1p(np.exp(-x))


def distance(x: Array, y: Array, p: float = 2.0, eps: float = 1e-6) -> Array:
    return np.linalg.norm(x - y + eps, p, -1)


def triplet(a: Array, p: Array, n: Array, margin: float, *, swap: bool) -> Array:
    far = distance(a, n)
    far = np.minimum(far, distance(p, n)) if swap else far
    return positive(margin + distance(a, p) - far)


def cosine(x: Array, y: Array, axis: int = -1) -> Array:
    lengths = np.linalg.norm(x, axis=axis) * np.linalg.norm(y, axis=axis)
    result: Array = (x * y).sum(axis) / lengths
    return result


def poisson(x: Array, y: Array) -> Array:
    big = np.maximum(y, 1)
    rest = big * np.log(big) - big + 0.5 * np.log(2 * math.pi * big)
    return np.exp(x) - y * x + np.where(y > 1, rest, 0)


LOSSES = {
    "hinge_embedding_loss": [
        case(
            lambda x, y: F.hinge_embedding_loss(x, y, 0.7, reduction="none"),
            lambda x, y: hinge(x, y, 0.7),
            *((2, 3), SIGNS),
        ),
        case(
            F.hinge_embedding_loss,
            lambda x, y: hinge(x, y, 1.0).mean(),
            *((2, 3), SIGNS),
        ),
    ],
    "margin_ranking_loss": [
        case(
            lambda x, y, t: F.margin_ranking_loss(x, y, t, 0.3, reduction="sum"),
            lambda x, y, t: positive(-t * (x - y) + 0.3).sum(),
            *((2, 3), (2, 3), SIGNS),
        )
    ],
    "soft_margin_loss": [
        case(
            F.soft_margin_loss,
            lambda x, y: np.log1p(np.exp(-x * y)).mean(),
            *((2, 3), SIGNS),
        )
    ],
    "multilabel_soft_margin_loss": [
        case(
            lambda x, y: F.multilabel_soft_margin_loss(x, (y > 0).to(x.dtype), reduction="none"),
            lambda x, y: -np.where(y > 0, log_sigmoid(x), log_sigmoid(-x)).mean(-1),
            *((2, 3), SIGNS),
        ),
        case(
            lambda x, w, y: F.multilabel_soft_margin_loss(x, (y > 0).to(x.dtype), w),
            lambda x, w, y: -(w * np.where(y > 0, log_sigmoid(x), log_sigmoid(-x))).mean(),
            *((2, 3), (3,), SIGNS),
        ),
    ],
    "multi_margin_loss": [
        case(
            lambda x, y, p=p: F.multi_margin_loss(x, y, p, 0.4, reduction="none"),
            lambda x, y, p=p: multi_margin(x, y, p, 0.4),
            *((3, 4), ints(1, 0, 3)),
        )
        for p in (1, 2)
    ],
    "multilabel_margin_loss": [
        case(
            lambda x, y: F.multilabel_margin_loss(x, y, reduction="none"),
            multilabel_margin,
            *((3, 4), TARGETS),
        ),
        case(
            F.multilabel_margin_loss,
            lambda x, y: multilabel_margin(x, y).mean(),
            *((3, 4), TARGETS),
        ),
    ],
    "cosine_embedding_loss": [
        case(
            lambda x, y, t: F.cosine_embedding_loss(x, y, t, 0.1, reduction="none"),
            lambda x, y, t: np.where(t == 1, 1 - cosine(x, y), positive(cosine(x, y) - 0.1)),
            *((3, 4), (3, 4), ROWS),
        )
    ],
    "triplet_margin_loss": [
        case(
            lambda a, p, n, swap=swap: F.triplet_margin_loss(
                a, p, n, 0.9, swap=swap, reduction="none"
            ),
            lambda a, p, n, swap=swap: triplet(a, p, n, 0.9, swap=swap),
            *((3, 4), (3, 4), (3, 4)),
        )
        for swap in (False, True)
    ],
    "triplet_margin_with_distance_loss": [
        case(
            lambda a, p, n: F.triplet_margin_with_distance_loss(
                a, p, n, distance_function=lambda x, y: (x - y).abs().sum(-1), margin=2.0
            ),
            lambda a, p, n: positive(2 + np.abs(a - p).sum(-1) - np.abs(a - n).sum(-1)).mean(),
            *((3, 4), (3, 4), (3, 4)),
        )
    ],
    "poisson_nll_loss": [
        case(
            lambda x, y: F.poisson_nll_loss(x, y.detach(), full=True, reduction="none"),
            poisson,
            *((2, 3), COUNTS),
            differentiable=False,
        ),
        case(
            lambda x, y: F.poisson_nll_loss(x, y, log_input=False, eps=0.1),
            lambda x, y: (x - y * np.log(x + 0.1)).mean(),
            *((2, 3), (2, 3)),
            low=0.2,
        ),
    ],
    "gaussian_nll_loss": [
        case(
            lambda x, y, v: F.gaussian_nll_loss(x, y, v, full=True),
            lambda x, y, v: (0.5 * (np.log(2 * math.pi * v) + (x - y) ** 2 / v)).mean(),
            *((2, 3), (2, 3), (2, 3)),
            low=0.2,
        ),
        case(
            lambda x, y, v: F.gaussian_nll_loss(x, y, v, reduction="none"),
            lambda x, y, v: 0.5 * (np.log(v[:, None]) + (x - y) ** 2 / v[:, None]),
            *((2, 3), (2, 3), (2,)),
            low=0.2,
        ),
    ],
    "normalize": [
        case(F.normalize, lambda x: x / np.linalg.norm(x, axis=1, keepdims=True), (3, 4)),
        case(lambda x: F.normalize(x, 1, 0), lambda x: x / np.abs(x).sum(0, keepdims=True), (3, 4)),
    ],
    "cosine_similarity": [
        case(fd.cosine_similarity, lambda x, y: cosine(x, y, 1), (3, 4), (3, 4)),
        case(lambda x, y: F.cosine_similarity(x, y, 0), lambda x, y: cosine(x, y, 0), (3,), (3,)),
    ],
    "pairwise_distance": [
        case(fd.pairwise_distance, distance, (3, 4), (3, 4)),
        case(
            lambda x, y: F.pairwise_distance(x, y, 1, 0.1, True),
            lambda x, y: distance(x, y, 1, 0.1)[:, None],
            *((3, 4), (3, 4)),
        ),
    ],
}
# No CASES for the table: few losses have results without elements or axes, or at infinity. So
# tests/ops/nn/test_margin_losses.py tests LOSSES.
CASES: dict[str, list[Case]] = {}
COVERED_BY: dict[str, str] = {}
ELSEWHERE = frozenset(
    {*LOSSES, "ctc_gradient", "ctc_loss", "ctc_losses", "gumbel_softmax", "linear_cross_entropy"}
)
