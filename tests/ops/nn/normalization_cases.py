"""Sample calls of normalizations of channels and rows, and of related functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.cases import F, case

Array = np.ndarray


def by_channel(x: Array, ndim: int) -> Array:
    if ndim < 2:
        raise ValueError("no axis of channels")
    return x.reshape(-1, *[1] * (ndim - 2))


def normal(x: Array, axes: tuple[int, ...], eps: float) -> Array:
    deviation = np.sqrt(x.var(axes, keepdims=True) + eps)
    result: Array = (x - x.mean(axes, keepdims=True)) / deviation
    return result


def batch_norm(x: Array, weight: Any = 1.0, bias: Any = 0.0, eps: float = 1e-5) -> Array:
    axes = tuple(axis for axis in range(x.ndim) if axis != 1)
    weight, bias = (by_channel(np.asarray(one), x.ndim) for one in (weight, bias))
    return normal(x, axes, eps) * weight + bias


def by_known(x: Array, mean: Array, variance: Array, weight: Array, bias: Array) -> Array:
    mean, variance, weight, bias = (by_channel(v, x.ndim) for v in (mean, variance, weight, bias))
    return (x - mean) / np.sqrt(variance + 0.1) * weight + bias


def instance_norm(x: Array, weight: Any = 1.0, bias: Any = 0.0) -> Array:
    weight, bias = (by_channel(np.asarray(one), x.ndim) for one in (weight, bias))
    return normal(x, tuple(range(2, x.ndim)), 0.01) * weight + bias


def group_norm(x: Array, groups: int, weight: Any = 1.0, bias: Any = 0.0) -> Array:
    rows = x.reshape(len(x), groups, -1)
    weight, bias = (by_channel(np.asarray(one), x.ndim) for one in (weight, bias))
    return normal(rows, (2,), 0.01).reshape(x.shape) * weight + bias


def rms_norm(x: Array, axes: tuple[int, ...], weight: Any = 1.0, eps: float = 0.1) -> Array:
    result: Array = x / np.sqrt((x * x).mean(axes, keepdims=True) + eps) * weight
    return result


def local_response_norm(x: Array, size: int, alpha: float, beta: float, k: float) -> Array:
    out = np.empty_like(x)
    for c in range(x.shape[1]):
        near = x[:, max(c - size // 2, 0) : c + (size - 1) // 2 + 1]
        out[:, c] = x[:, c] / (k + alpha / size * (near**2).sum(1)) ** beta
    return out


CASES = {
    "batch_norm": [
        case(lambda x: F.batch_norm(x, None, None, training=True), batch_norm, (4, 3)),
        case(
            lambda x, w, b: F.batch_norm(x, None, None, w, b, True, eps=0.1),
            lambda x, w, b: batch_norm(x, w, b, 0.1),
            *((4, 3, 5), (3,), (3,)),
        ),
        case(
            lambda x, w: F.batch_norm(x, None, None, w, training=True, eps=0.1),
            lambda x, w: batch_norm(x, w, 0.0, 0.1),
            *((2, 3, 2, 2), (3,)),
        ),
        case(
            lambda x, b: F.batch_norm(x, None, None, None, b, training=True, eps=0.1),
            lambda x, b: batch_norm(x, 1.0, b, 0.1),
            *((2, 2, 1, 2, 3), (2,)),
        ),
        case(
            lambda x, m, v, w, b: F.batch_norm(x, m, v.detach(), w, b, eps=0.1),
            by_known,
            *((2, 3, 4), (3,), np.array([0.5, 1.0, 2.0]), (3,), (3,)),
            differentiable=False,
        ),
        case(
            lambda x, w, b: F.batch_norm(x, w.detach() * 0, w.detach() * 0 + 1, w, b, eps=0.1),
            lambda x, w, b: by_known(x, w * 0, w * 0 + 1, w, b),
            *((2, 3, 2, 2), (3,), (3,)),
        ),
    ],
    "instance_norm": [
        case(lambda x: F.instance_norm(x, eps=0.01), instance_norm, (2, 3, 4)),
        case(
            lambda x, w, b: F.instance_norm(x, None, None, w, b, eps=0.01),
            instance_norm,
            *((2, 3, 2, 3), (3,), (3,)),
        ),
        case(
            lambda x, b: F.instance_norm(x, bias=b, eps=0.01),
            lambda x, b: instance_norm(x, 1.0, b),
            *((2, 3, 4), (3,)),
        ),
    ],
    "group_norm": [
        case(lambda x: F.group_norm(x, 2, eps=0.01), lambda x: group_norm(x, 2), (3, 4)),
        case(
            lambda x, w, b: F.group_norm(x, 2, w, b, eps=0.01),
            lambda x, w, b: group_norm(x, 2, w, b),
            *((2, 4, 3), (4,), (4,)),
        ),
        case(
            lambda x, w: F.group_norm(x, 3, w, eps=0.01),
            lambda x, w: group_norm(x, 3, w),
            *((2, 3, 2, 2), (3,)),
        ),
    ],
    "rms_norm": [
        case(lambda x: F.rms_norm(x, (4,), eps=0.1), lambda x: rms_norm(x, (-1,)), (3, 4)),
        case(
            lambda x, w: F.rms_norm(x, (2, 3), w),
            lambda x, w: rms_norm(x, (-2, -1), w, 0.0),
            *((4, 2, 3), (2, 3)),
        ),
    ],
    "local_response_norm": [
        case(
            lambda x, size=size: F.local_response_norm(x, size, 0.5, 0.75, 2.0),
            lambda x, size=size: local_response_norm(x, size, 0.5, 0.75, 2.0),
            (2, 4, 3),
        )
        for size in (1, 2, 3, 9)
    ],
}
# Ops that users call through functions with other names.
COVERED_BY = {
    "normalize_channels": "batch_norm",
    "normalize_channels_gradients": "batch_norm",
    "normalize_by_known": "batch_norm",
    "normalize_groups": "group_norm",
    "batch_norm_slope": "batch_norm",
    "group_norm_slope": "group_norm",
    "layer_norm_slope": "layer_norm",
    "rms_norm_slope": "rms_norm",
}
