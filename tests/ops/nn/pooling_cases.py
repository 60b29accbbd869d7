"""Sample calls of pooling."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

import fastdist as fd
from tests.ops.cases import F, case, plain

Ranges = list[tuple[int, int, int]]


def windows(n: int, kernel: int, stride: int, padding: int = 0, dilation: int = 1) -> Ranges:
    """Return (first, end, step) of all windows along an axis of n elements."""
    found = []
    for begin in range(-padding, n + padding - dilation * (kernel - 1), stride):
        places = [i for i in range(begin, begin + kernel * dilation, dilation) if 0 <= i < n]
        found.append((places[0], places[-1] + 1, dilation))
    return found


def parts(n: int, count: int) -> Ranges:
    return [(i * n // count, -(-(i + 1) * n // count), 1) for i in range(count)]


def over(x: np.ndarray, ranges: list[Ranges], reduce: Callable[..., Any]) -> np.ndarray:
    """Return the results of `reduce` for all windows along the last axes."""
    axes = len(ranges)
    lead = x.shape[: x.ndim - axes]
    out = np.empty((*lead, *[len(r) for r in ranges]))
    for where in itertools.product(*[enumerate(r) for r in ranges]):
        index = tuple(i for i, _ in where)
        part = x[(..., *[slice(*one) for _, one in where])]
        out[(..., *index)] = reduce(part.reshape(*lead, -1), -1)
    return out


def unpooled(x: np.ndarray) -> np.ndarray:
    top = over(x, [windows(x.shape[-1], 2, 2)], np.max)
    return np.where(np.repeat(top, 2, -1) == x, x, 0)


def power(x: np.ndarray, axis: int) -> np.ndarray:
    return (np.abs(x) ** 3).sum(axis) ** (1 / 3)


CASES = {
    "max_pool1d": [
        case(
            lambda x: F.max_pool1d(x, 3, 2, 1),
            lambda x: over(x, [windows(x.shape[-1], 3, 2, 1)], np.max),
            (2, 3, 9),
        )
    ],
    "max_pool2d": [
        case(
            lambda x: fd.max_pool2d(x, 2),
            lambda x: over(x, [windows(n, 2, 2) for n in x.shape[2:]], np.max),
            (2, 2, 6, 40),
        ),
        case(
            lambda x: F.max_pool2d(x, (3, 2), (2, 1), 1, (1, 2)),
            lambda x: over(x, [windows(7, 3, 2, 1), windows(6, 2, 1, 1, 2)], np.max),
            (3, 7, 6),
        ),
        case(
            lambda x: F.max_pool2d(x, 3, 2, 1),
            lambda x: over(x, [windows(n, 3, 2, 1) for n in x.shape[2:]], np.max),
            (1, 2, 7, 41),
        ),
    ],
    "max_pool3d": [
        case(
            lambda x: F.max_pool3d(x, 2, (1, 2, 1)),
            lambda x: over(x, [windows(3, 2, 1), windows(4, 2, 2), windows(5, 2, 1)], np.max),
            (1, 2, 3, 4, 5),
        )
    ],
    "max_pool1d_with_indices": [
        plain(
            lambda x: F.max_pool1d_with_indices(x, 2)[1],
            lambda x: over(x, [windows(x.shape[-1], 2, 2)], np.argmax) + 2 * np.arange(3),
            (2, 3, 6),
        )
    ],
    "max_pool2d_with_indices": [
        case(
            lambda x: F.max_pool2d_with_indices(x, 2, 1)[0],
            lambda x: over(x, [windows(n, 2, 1) for n in x.shape[2:]], np.max),
            (1, 2, 4, 5),
        )
    ],
    "max_pool3d_with_indices": [
        case(
            lambda x: F.max_pool3d_with_indices(x, 2, 1)[0],
            lambda x: over(x, [windows(n, 2, 1) for n in x.shape[2:]], np.max),
            (1, 1, 3, 3, 3),
        )
    ],
    "adaptive_max_pool1d": [
        case(
            lambda x: F.adaptive_max_pool1d(x, 4),
            lambda x: over(x, [parts(10, 4)], np.max),
            (2, 3, 10),
        )
    ],
    "adaptive_max_pool2d": [
        case(
            lambda x: F.adaptive_max_pool2d(x, (3, None)),
            lambda x: over(x, [parts(7, 3), parts(4, 4)], np.max),
            (1, 2, 7, 4),
        )
    ],
    "adaptive_max_pool3d": [
        case(
            lambda x: F.adaptive_max_pool3d(x, 2),
            lambda x: over(x, [parts(n, 2) for n in x.shape[1:]], np.max),
            (2, 3, 4, 5),
        )
    ],
    "max_unpool1d": [
        case(
            lambda x: F.max_unpool1d(*F.max_pool1d(x, 2, return_indices=True), 2), unpooled, (3, 6)
        )
    ],
    "avg_pool1d": [
        case(
            lambda x: fd.avg_pool1d(x, 3, 2, 1, count_include_pad=False),
            lambda x: over(x, [windows(x.shape[-1], 3, 2, 1)], np.mean),
            (2, 3, 9),
        ),
        case(
            lambda x: F.avg_pool1d(x, 4, 1, 2),
            lambda x: over(x, [windows(x.shape[-1], 4, 1, 2)], np.sum) / 4,
            (3, 7),
        ),
        case(
            lambda x: F.avg_pool1d(x, 2, 3, ceil_mode=True),
            lambda x: over(np.pad(x, ((0, 0), (0, 1)), "edge"), [windows(8, 2, 3)], np.mean),
            (3, 7),
        ),
    ],
    "avg_pool2d": [
        case(
            lambda x: F.avg_pool2d(x, 2),
            lambda x: over(x, [windows(n, 2, 2) for n in x.shape[2:]], np.mean),
            (2, 2, 4, 6),
        ),
        case(
            lambda x: F.avg_pool2d(x, (3, 2), 1, 1),
            lambda x: over(x, [windows(5, 3, 1, 1), windows(4, 2, 1, 1)], np.sum) / 6,
            (2, 5, 4),
        ),
        case(
            lambda x: F.avg_pool2d(x, 2, divisor_override=5),
            lambda x: over(x, [windows(n, 2, 2) for n in x.shape[1:]], np.sum) / 5,
            (2, 4, 4),
        ),
    ],
    "avg_pool3d": [
        case(
            lambda x: F.avg_pool3d(x, 2, 1),
            lambda x: over(x, [windows(n, 2, 1) for n in x.shape[2:]], np.mean),
            (1, 2, 3, 3, 4),
        )
    ],
    "adaptive_avg_pool1d": [
        case(
            lambda x: fd.adaptive_avg_pool1d(x, 4),
            lambda x: over(x, [parts(10, 4)], np.mean),
            (2, 3, 10),
        )
    ],
    "adaptive_avg_pool2d": [
        case(
            lambda x: F.adaptive_avg_pool2d(x, (3, None)),
            lambda x: over(x, [parts(7, 3), parts(4, 4)], np.mean),
            (1, 2, 7, 4),
        ),
        case(
            lambda x: F.adaptive_avg_pool2d(x, 1),
            lambda x: x.mean((2, 3), keepdims=True),
            (2, 2, 3, 4),
        ),
    ],
    "adaptive_avg_pool3d": [
        case(
            lambda x: F.adaptive_avg_pool3d(x, 2),
            lambda x: over(x, [parts(n, 2) for n in x.shape[1:]], np.mean),
            (2, 3, 4, 5),
        )
    ],
    "lp_pool1d": [
        case(
            lambda x: F.lp_pool1d(x, 3, 2),
            lambda x: over(x, [windows(6, 2, 2)], power),
            (2, 6),
            low=0.5,
        )
    ],
    "lp_pool2d": [
        case(
            lambda x: F.lp_pool2d(x, 3, 2, 1),
            lambda x: over(x, [windows(n, 2, 1) for n in x.shape[1:]], power),
            (1, 3, 4),
            low=0.5,
        ),
        case(
            lambda x: F.lp_pool2d(x, float("inf"), 2),
            lambda x: over(np.abs(x), [windows(n, 2, 2) for n in x.shape[1:]], np.max),
            (2, 4, 4),
        ),
    ],
    "lp_pool3d": [
        case(
            lambda x: F.lp_pool3d(x, 3, (2, 2, 2)),
            lambda x: over(x, [windows(n, 2, 2) for n in x.shape[1:]], power),
            (1, 2, 4, 2),
            low=0.5,
        )
    ],
}
COVERED_BY = {
    "averages_back": "avg_pool1d",
    "adaptive_max_pool1d_with_indices": "adaptive_max_pool1d",
    "adaptive_max_pool2d_with_indices": "adaptive_max_pool2d",
    "adaptive_max_pool3d_with_indices": "adaptive_max_pool3d",
    "largest": "max_pool2d",
    "max_unpool2d": "max_unpool1d",
    "max_unpool3d": "max_unpool1d",
    "pick": "max_pool2d",
    "spread": "max_pool2d",
    "weigh": "avg_pool2d",
}
# Functions with random results.
ELSEWHERE = frozenset(
    {
        "fractional_max_pool2d",
        "fractional_max_pool2d_with_indices",
        "fractional_max_pool3d",
        "fractional_max_pool3d_with_indices",
    }
)
