"""Sample calls of reductions, sorts, norms and softmax."""

from __future__ import annotations

import numpy as np

import fastdist as fd
from tests.ops.cases import F, case, ints, plain

NAN = np.array([[1.0, np.nan, 2.0], [3.0, 2.0, 1.0]])
TIES = np.array([[2.0, 1.0, 2.0], [0.0, 0.0, 0.0]])
WHOLE = ints([[3, 0, -1], [0, 0, 5]])


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True)) if x.size else np.exp(x)
    return e / e.sum(axis, keepdims=True)


def sorted_places(x, axis=-1):
    return np.argsort(x, axis, kind="stable")


def places_from_largest(x, axis=-1):
    """Return indices in descending order of values; NaN comes first, and ties keep their order."""
    return np.lexsort((-x, ~np.isnan(x)), axis)


def from_largest(x, axis=-1):
    return np.take_along_axis(x, places_from_largest(x, axis), axis)


# With a zero, the gradient of a cumulative product cannot be computed by division.
HOLES = fd.tensor([[1, 0, 1, 1], [0, 1, 0, 1]])

CASES = {
    "sum": [
        case(lambda x: x.sum(), np.sum, (3, 4)),
        case(lambda x: fd.sum(x, 1), lambda x: x.sum(1), (3, 4)),
        case(
            lambda x: x.sum((0, -1), keepdim=True),
            lambda x: x.sum((0, 2), keepdims=True),
            (2, 3, 4),
        ),
        case(lambda x: x.sum(0), lambda x: x.sum(0), (0, 3)),
        case(lambda x: x.sum(), np.sum, ()),
        plain(lambda x: x.sum(), np.sum, WHOLE),
    ],
    "mean": [
        case(lambda x: x.mean(), np.mean, (3, 4)),
        case(lambda x: fd.mean(x, -1), lambda x: x.mean(-1), (3, 4)),
        case(lambda x: x.mean((0, 2), True), lambda x: x.mean((0, 2), keepdims=True), (2, 3, 4)),
        case(lambda x: x.mean(), np.mean, ()),
        case(lambda x: x.mean(1), lambda x: x.mean(1), (0, 3)),
    ],
    "prod": [
        case(lambda x: x.prod(), np.prod, (2, 3)),
        case(lambda x: fd.prod(x, 1), lambda x: x.prod(1), (3, 4)),
        case(lambda x: x.prod(0, True), lambda x: x.prod(0, keepdims=True), (3, 2)),
        case(lambda x: x.prod(), np.prod, np.array([2.0, 0.0, 3.0])),
        case(
            lambda x: x.prod(1), lambda x: x.prod(1), np.array([[0.0, 0.0, 3.0], [1.0, 2.0, 4.0]])
        ),
        case(lambda x: x.prod(), np.prod, ()),
        case(lambda x: x.prod(0), lambda x: x.prod(0), (0, 3)),
        plain(lambda x: x.prod(), np.prod, WHOLE),
    ],
    "amax": [
        case(lambda x: x.amax(), np.max, (3, 4)),
        case(lambda x: fd.amax(x, (0, 2)), lambda x: x.max((0, 2)), (2, 3, 4)),
        case(lambda x: x.amax(1, keepdim=True), lambda x: x.max(1, keepdims=True), (3, 4)),
        case(lambda x: x.amax(), np.max, ()),
        plain(lambda x: x.amax(1), lambda x: x.max(1), NAN),
    ],
    "amin": [
        case(lambda x: x.amin(), np.min, (3, 4)),
        case(lambda x: fd.amin(x, 1), lambda x: x.min(1), (3, 4)),
        plain(lambda x: x.amin(1), lambda x: x.min(1), NAN),
    ],
    "max": [
        case(lambda x: x.max(), np.max, (3, 4)),
        case(lambda x: x.max(1).values, lambda x: x.max(1), (3, 4)),
        case(lambda x: fd.max(x, 0, True)[0], lambda x: x.max(0, keepdims=True), (3, 4)),
        case(fd.max, np.maximum, (3, 4), (4,)),
        case(lambda x: x.max(0).values, lambda x: x, ()),
        plain(lambda x: x.max(1).indices, lambda x: x.argmax(1), TIES),
        plain(lambda x: x.max(1).values, lambda x: x.max(1), NAN),
    ],
    "min": [
        case(lambda x: x.min(), np.min, (3, 4)),
        case(lambda x: x.min(-1).values, lambda x: x.min(-1), (3, 4)),
        case(fd.min, np.minimum, (3, 4), (4,)),
        plain(lambda x: x.min(1).indices, lambda x: x.argmin(1), TIES),
    ],
    "aminmax": [
        case(lambda x: x.aminmax(dim=1).max, lambda x: x.max(1), (3, 4)),
        case(lambda x: fd.aminmax(x).min, np.min, (3, 4)),
    ],
    "argmax": [
        plain(lambda x: x.argmax(), np.argmax, (3, 4)),
        plain(lambda x: fd.argmax(x, 1, keepdim=True), lambda x: x.argmax(1)[:, None], (3, 4)),
        plain(lambda x: x.argmax(1), lambda x: x.argmax(1), NAN),
    ],
    "argmin": [
        plain(lambda x: x.argmin(), np.argmin, (3, 4)),
        plain(lambda x: fd.argmin(x, 0), lambda x: x.argmin(0), (3, 4)),
    ],
    "all": [
        plain(lambda x: x.all(), np.all, WHOLE),
        plain(lambda x: fd.all(x, 1), lambda x: np.all(x, 1), WHOLE),
        plain(lambda x: x.all(0), lambda x: np.all(x, 0), np.ones((0, 2), bool)),
    ],
    "any": [
        plain(lambda x: x.any(), np.any, WHOLE),
        plain(lambda x: fd.any(x, 1, True), lambda x: np.any(x, 1, keepdims=True), WHOLE),
    ],
    "count_nonzero": [
        plain(lambda x: x.count_nonzero(), np.count_nonzero, WHOLE),
        plain(lambda x: fd.count_nonzero(x, 1), lambda x: np.count_nonzero(x, 1), WHOLE),
    ],
    "var": [
        case(lambda x: x.var(), lambda x: x.var(ddof=1), (3, 4)),
        case(lambda x: fd.var(x, 1, unbiased=False), lambda x: x.var(1), (3, 4)),
        case(lambda x: x.var((0, 1), correction=2), lambda x: x.var((0, 1), ddof=2), (3, 4, 2)),
        case(lambda x: x.var(0, keepdim=True), lambda x: x.var(0, ddof=1, keepdims=True), (3, 4)),
    ],
    "std": [
        case(lambda x: x.std(), lambda x: x.std(ddof=1), (3, 4)),
        case(lambda x: fd.std(x, 1, False), lambda x: x.std(1), (3, 4)),
        case(lambda x: x.std(0, keepdim=True), lambda x: x.std(0, ddof=1, keepdims=True), (3, 4)),
    ],
    "logsumexp": [
        case(lambda x: x.logsumexp(1), lambda x: np.log(np.exp(x).sum(1)), (3, 4)),
        case(
            lambda x: fd.logsumexp(x, (0, 1), True),
            lambda x: np.log(np.exp(x).sum(keepdims=True)),
            (3, 4),
        ),
        plain(
            lambda x: x.logsumexp(0),
            lambda x: np.array([np.inf, -np.inf, 1000 + np.log(2)]),
            np.array([[np.inf, -np.inf, 1000.0], [1.0, -np.inf, 1000.0]]),
        ),
        plain(lambda x: x.logsumexp(0), lambda x: np.array([-np.inf] * 2), (0, 2)),
    ],
    "cumsum": [
        case(lambda x: x.cumsum(1), lambda x: x.cumsum(1), (3, 4)),
        case(lambda x: fd.cumsum(x, 0), lambda x: x.cumsum(0), (3, 4)),
        case(lambda x: x.cumsum(0), lambda x: x, ()),
        plain(lambda x: x.cumsum(0), lambda x: x.cumsum(0), WHOLE),
    ],
    "cumprod": [
        case(lambda x: x.cumprod(1), lambda x: x.cumprod(1), (3, 4)),
        case(lambda x: fd.cumprod(x, 0), lambda x: x.cumprod(0), (3, 4)),
        case(lambda x: x.cumprod(0), lambda x: x, ()),
        case(
            lambda x: (x * HOLES.to(x.device)).cumprod(1),
            lambda x: (x * HOLES.numpy()).cumprod(1),
            (2, 4),
        ),
        plain(lambda x: x.cumprod(0), lambda x: x.cumprod(0), WHOLE),
    ],
    "norm": [
        case(lambda x: x.norm(), np.linalg.norm, (3, 4)),
        case(lambda x: fd.norm(x, 1, 1), lambda x: np.abs(x).sum(1), (3, 4)),
        case(
            lambda x: x.norm(3, 0, True),
            lambda x: (np.abs(x) ** 3).sum(0, keepdims=True) ** (1 / 3),
            (3, 4),
        ),
        case(lambda x: x.norm(1.5), lambda x: (np.abs(x) ** 1.5).sum() ** (1 / 1.5), (3, 4)),
        case(lambda x: x.norm(float("inf"), 1), lambda x: np.abs(x).max(1), (3, 4)),
        case(lambda x: x.norm(float("-inf"), 0), lambda x: np.abs(x).min(0), (3, 4)),
        case(lambda x: x.norm(0), lambda x: np.count_nonzero(x).__float__(), (3, 4)),
        case(lambda x: x.norm(), np.abs, ()),
    ],
    "softmax": [
        case(lambda x: x.softmax(1), lambda x: softmax(x, 1), (3, 4)),
        case(lambda x: F.softmax(x, 0), lambda x: softmax(x, 0), (3, 4)),
        case(lambda x: fd.softmax(x, 0), lambda x: np.ones(()), ()),
        case(lambda x: x.softmax(0), lambda x: x, (0, 3)),
        plain(
            lambda x: x.softmax(0),
            lambda x: np.array([0.5, 0.5, 0.0]),
            np.array([900.0, 900.0, -900.0]),
        ),
    ],
    "log_softmax": [
        case(lambda x: x.log_softmax(-1), lambda x: np.log(softmax(x, -1)), (3, 4)),
        case(lambda x: F.log_softmax(x, 0), lambda x: np.log(softmax(x, 0)), (3, 4, 2)),
        case(lambda x: fd.log_softmax(x, 0), lambda x: np.zeros(()), ()),
    ],
    "sort": [
        case(lambda x: x.sort().values, np.sort, (3, 4)),
        case(lambda x: fd.sort(x, 0, True)[0], lambda x: from_largest(x, 0), (3, 4)),
        case(lambda x: x.sort().values, lambda x: x, ()),
        plain(lambda x: x.sort(1).indices, sorted_places, TIES),
        plain(lambda x: x.sort(1, descending=True).indices, places_from_largest, TIES),
        plain(lambda x: x.sort(1).values, lambda x: np.sort(x, 1), NAN),
        plain(
            lambda x: x.sort(1, True).values, lambda x: np.array([[np.nan, 2, 1], [3, 2, 1.0]]), NAN
        ),
    ],
    "argsort": [
        plain(lambda x: x.argsort(0), lambda x: sorted_places(x, 0), (5, 2)),
        plain(lambda x: fd.argsort(x, descending=True), places_from_largest, (2, 5)),
    ],
    "msort": [case(fd.msort, lambda x: np.sort(x, 0), (4, 3))],
    "topk": [
        case(lambda x: x.topk(2).values, lambda x: from_largest(x)[:, :2], (3, 4)),
        case(lambda x: fd.topk(x, 3, 0, largest=False)[0], lambda x: np.sort(x, 0)[:3], (4, 3)),
        plain(lambda x: x.topk(2).indices, lambda x: places_from_largest(x)[:, :2], (3, 6)),
    ],
    "unique": [
        plain(lambda x: x.unique(), np.unique, WHOLE),
        plain(
            lambda x: fd.unique(x, return_counts=True)[1],
            lambda x: np.unique(x, return_counts=True)[1],
            WHOLE,
        ),
        plain(
            lambda x: x.unique(return_inverse=True)[1],
            lambda x: np.unique(x, return_inverse=True)[1].reshape(2, 3),
            WHOLE,
        ),
    ],
    "searchsorted": [
        plain(
            fd.searchsorted, np.searchsorted, np.array([1.0, 2, 3]), np.array([[0.0, 2], [9, 3]])
        ),
    ],
    "bucketize": [
        plain(
            lambda x, s: fd.bucketize(x, s, right=True),
            lambda x, s: np.searchsorted(s, x, "right"),
            np.array([1.0, 5]),
            np.array([1.0, 2]),
        ),
    ],
    "bincount": [
        plain(lambda x: x.bincount(), np.bincount, ints(1, 3, 1)),
        plain(
            lambda x, w: fd.bincount(x, w, 6),
            lambda x, w: np.bincount(x, w, 6),
            ints(1, 3, 1),
            (3,),
        ),
    ],
}
# Ops that users call through functions with other names.
COVERED_BY = {
    "sorted_places": "searchsorted",
    "max_along": "max",
    "min_along": "min",
    "max_of_all": "max",
    "min_of_all": "min",
    "variance": "var",
    "deviation": "std",
    "vector_norm": "norm",
    "sort_along": "sort",
    "topk_along": "topk",
    "recurrence": "cumprod",
}
