"""Batch norm over samples and positions of each channel, and its gradients, on CUDA arrays."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..launch import C_TYPES, Launch, headers_for, int64_fields, launch, text_of
from ..layout import element_strides, walk


def channels(
    x: Any, weight: Any, bias: Any, out: Any, mean: Any, variance: Any, eps: float
) -> None:
    """Write (x - mean) / sqrt(variance + eps) * weight + bias of each channel into out, and the
    channels' statistics into mean and variance.

    x and out: (samples, channels, ...); weight, bias, mean and variance: (channels,). For half
    types, mean and variance are float32. The variance is the sum of squared deviations divided by
    the number of elements.
    """
    if not x.size:
        mean.fill(np.nan)
        variance.fill(np.nan)
        return
    launch(plan_channels(x, weight, bias, out, mean, variance, eps))


def plan_channels(
    x: Any, weight: Any, bias: Any, out: Any, mean: Any, variance: Any, eps: float
) -> list[Launch]:
    """Return the launch of `channels`; x must not be empty."""
    axes, task = _task(x, x, out)
    source = source_of_channels(x.dtype, _dtype(weight), _dtype(bias), axes, x.size >= 2**32)
    parameters = [mean if one is None else one for one in (weight, bias)]
    arguments = (x, *parameters, out, mean, variance, np.float64(eps), task)
    return [Launch(source, "channels", (x.shape[1], 1), arguments)]


def channels_gradients(
    g: Any,
    x: Any,
    weight: Any,
    mean: Any,
    variance: Any,
    out: Any,
    by_weight: Any,
    by_bias: Any,
    eps: float,
) -> None:
    """Write the gradients of `channels` by x, weight and bias. Shapes as for `channels`; an empty
    output is skipped.
    """
    if not x.size:
        by_weight.fill(0)
        by_bias.fill(0)
        return
    launch(plan_gradients(g, x, weight, mean, variance, out, by_weight, by_bias, eps))


def plan_gradients(
    g: Any,
    x: Any,
    weight: Any,
    mean: Any,
    variance: Any,
    out: Any,
    by_weight: Any,
    by_bias: Any,
    eps: float,
) -> list[Launch]:
    """Return the launch of channels_gradients; x must not be empty."""
    axes, task = _task(g, x, out if out.size else x, is_whole=out.size > 0)
    source = source_of_channels(x.dtype, _dtype(weight), None, axes, x.size >= 2**32)
    scale = mean if weight is None else weight
    arguments = (g, x, scale, mean, variance, out, by_weight, by_bias, np.float64(eps), task)
    return [Launch(source, "channels_gradients", (x.shape[1], 1), arguments)]


def _dtype(parameter: Any) -> np.dtype[Any] | None:
    return None if parameter is None else parameter.dtype


def _task(g: Any, x: Any, out: Any, *, is_whole: bool = True) -> tuple[int, Any]:
    """Return the number of merged axes of a channel, and the kernels' argument `Task`."""
    steps = [element_strides(array) for array in (out, g, x)]
    others = [axis for axis in range(x.ndim) if axis != 1]
    across = walk([x.shape[a] for a in others], [[one[a] for a in others] for one in steps])
    fields = (*across.shape, *[step for one in across.strides for step in one])
    by_channel = [one[1] for one in (steps[1], steps[2], steps[0])]
    return len(across.shape), int64_fields(across.size, *by_channel, is_whole, *fields)


@functools.lru_cache(maxsize=256)
def source_of_channels(
    dtype: np.dtype[Any],
    weight: np.dtype[Any] | None = None,
    bias: np.dtype[Any] | None = None,
    kept: int = 1,
    wide: bool = False,
) -> str:
    """Return the CUDA source for the dtypes of x and of the parameters (None for a missing one),
    and for `kept` merged axes of positions.
    """
    real = np.dtype(np.float64 if dtype.itemsize == 8 else np.float32)
    read = [dtype, weight or real, bias or real]
    return f"""{headers_for(read)}
typedef {C_TYPES[dtype]} Stored;
typedef {C_TYPES[real]} Real;
typedef {C_TYPES[read[1]]} Scale;
typedef {C_TYPES[read[2]]} Shift;
typedef {"unsigned long long" if wide else "unsigned int"} Index;
constexpr int KEPT = {kept};
constexpr bool HAS_WEIGHT = {str(weight is not None).lower()};
constexpr bool HAS_BIAS = {str(bias is not None).lower()};
{text_of("nn/batch_norm.cu")}"""
