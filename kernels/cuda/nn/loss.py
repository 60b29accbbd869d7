"""The negative log likelihood and its gradient, on CUDA arrays.

x has the classes along axis 1 (axis 0 of a vector); target has the class of each sample. Samples of
class `ignored` are ignored. `reduction` is 0 for none, 1 for the mean, 2 for the sum.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ..launch import (
    C_TYPES,
    THREADS,
    Launch,
    Scratch,
    computing_type,
    headers_for,
    int64_fields,
    launch,
    text_of,
)
from ..layout import element_strides
from ..prepared import only_launches
from ..reduce.reductions import plan_reduce, sum_dtype

DType = np.dtype[Any]


@only_launches
def nll(
    x: Any, target: Any, weight: Any, out: Any, total: Any, ignored: int, reduction: int
) -> None:
    """Write -weight[target] * x[target] of each sample, or their sum or weighted mean, into out.

    `total` gets the sum of the samples' weights. The loss of a class that is out of range is NaN.

    Thread  any; queued on the current stream of out's device
    """
    launch(plan_nll(x, target, weight, out, total, ignored, reduction))


@only_launches
def nll_gradient(
    g: Any, target: Any, weight: Any, total: Any, out: Any, ignored: int, reduction: int
) -> None:
    """Write the gradient of nll by x into out: -weight[target] * g at each sample's class."""
    launch(plan_nll_gradient(g, target, weight, total, out, ignored, reduction))


def plan_nll(
    x: Any, target: Any, weight: Any, out: Any, total: Any, ignored: int, reduction: int
) -> list[Launch]:
    """Return the launches of nll: one over the samples, and the launches that add the results."""
    added, shape = sum_dtype(x.dtype), target.shape or (1,)
    losses = Scratch(shape, added) if reduction else out
    weights = Scratch(shape, added)
    source = source_of_nll(
        x.dtype, losses.dtype, target.dtype, len(shape), weighed=weight is not None
    )
    launches = []
    if target.size:
        task = _task(x, target, weight, ignored, losses)
        args = (x, target, x if weight is None else weight, losses, weights, task)
        launches.append(Launch(source, "nll", (-(-target.size // THREADS), 1), args))
    if not reduction:
        return [*launches, *plan_reduce("Adding", weights, total, None)]
    sums = Scratch((), added), Scratch((), added)
    for each, one in zip((losses, weights), sums, strict=True):
        launches += plan_reduce("Adding", each, one, None)
    last = (*sums, out, total, np.int64(reduction == 1))
    source = source_of_nll(x.dtype, out.dtype, target.dtype)
    return [*launches, Launch(source, "reduced", (1, 1), last)]


def plan_nll_gradient(
    g: Any, target: Any, weight: Any, total: Any, out: Any, ignored: int, reduction: int
) -> list[Launch]:
    """Return the launch of nll_gradient; no launch if out is empty."""
    if not out.size:
        return []
    task = _task(out, target, weight, ignored, None if reduction else g, divides=reduction == 1)
    dims = max(target.ndim, 1)
    source = source_of_nll(out.dtype, out.dtype, target.dtype, dims, weighed=weight is not None)
    args = (g, target, out if weight is None else weight, total, out, task)
    return [Launch(source, "nll_gradient", (-(-out.size // THREADS), 1), args)]


def _task(
    x: Any, target: Any, weight: Any, ignored: int, losses: Any, *, divides: bool = False
) -> Any:
    """Return the kernels' argument `Task`. For nll, x and losses are its arrays. For nll_gradient,
    x stands for the gradient by x, and losses for the losses' gradients (None if all samples share
    one gradient).
    """
    shape, steps = target.shape or (1,), list(element_strides(x))
    classes_at = min(1, x.ndim - 1)
    step_class = steps.pop(classes_at)
    step_weight = 0 if weight is None else element_strides(weight)[0]
    by_sample = (0,) * len(shape) if losses is None else element_strides(losses) or (0,)
    numbers = (math.prod(shape), x.shape[classes_at], ignored, divides, step_class, step_weight)
    places = element_strides(target) or (0,)
    return int64_fields(*numbers, *shape, *(steps or (0,)), *places, *by_sample)


@functools.lru_cache(maxsize=256)
def source_of_nll(
    dtype: DType, written: DType, target: DType, dims: int = 1, *, weighed: bool = False
) -> str:
    """Return the CUDA source for dtypes of elements, losses and classes. `dims` is the number of
    axes of target.
    """
    return f"""{headers_for([dtype, written])}
typedef {C_TYPES[dtype]} Stored;
typedef {C_TYPES[target]} Target;
typedef {computing_type(dtype)} Real;
typedef {C_TYPES[sum_dtype(dtype)]} Sum;
typedef {C_TYPES[written]} Out;
constexpr int DIMS = {dims};
constexpr bool WEIGHED = {str(weighed).lower()};
{text_of("nn/loss.cu")}"""
