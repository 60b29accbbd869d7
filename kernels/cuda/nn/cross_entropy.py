"""Cross entropy of rows of logits with class indices, and its gradient, on CUDA arrays."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..launch import C_TYPES, Launch, Scratch, computing_type, int64_fields, launch, text_of
from ..layout import element_strides
from ..prepared import only_launches
from ..reduce.reductions import plan_reduce, sum_dtype
from ..rows import pack_of, rows_header, shared

DType = np.dtype[Any]


@only_launches
def rows(x: Any, target: Any, out: Any, weights: Any, totals: Any, reduction: int) -> None:
    """Write the losses log(sum(exp(x[i]))) - x[i, target[i]] of rows i, reduced, into out.

    weights: (rows, classes), gets exp(x) times one factor per row; totals: (rows,), gets the sums
    of the rows of weights; target: (rows,). reduction is 0 for none, 1 for the mean, 2 for the sum.
    NaN and inf are treated as in softmax.log_softmax. The loss of a class that is out of range is
    NaN.

    Thread  any; queued on the current stream of out's device
    """
    launch(plan_rows(x, target, out, weights, totals, reduction))


@only_launches
def losses(x: Any, target: Any, out: Any, reduction: int) -> None:
    """Write the same losses as `rows` into out, if no gradient is needed."""
    launch(plan_losses(x, target, out, reduction))


@only_launches
def rows_gradient(g: Any, target: Any, weights: Any, totals: Any, out: Any, reduction: int) -> None:
    """Write the gradient of `rows` by x into out: g * weights / totals, less g at the target."""
    launch(plan_rows_gradient(g, target, weights, totals, out, reduction))


@only_launches
def slope(g: Any, x: Any, target: Any, weights: Any, totals: Any, out: Any, reduction: int) -> None:
    """Do the same as rows_gradient; x is an argument because the second gradient needs it."""
    launch(plan_rows_gradient(g, target, weights, totals, out, reduction))


def plan_rows(
    x: Any, target: Any, out: Any, weights: Any, totals: Any, reduction: int
) -> list[Launch]:
    """Return the launches of `rows`: one over the rows, and the launches that reduce the losses."""
    return _plan_forward("rows", x, target, out, (weights, totals), reduction)


def plan_losses(x: Any, target: Any, out: Any, reduction: int) -> list[Launch]:
    """Return the launches of `losses`."""
    return _plan_forward("losses", x, target, out, (), reduction)


def _plan_forward(
    name: str, x: Any, target: Any, out: Any, kept: tuple[Any, ...], reduction: int
) -> list[Launch]:
    count, length = x.shape
    found = out if reduction == 0 else Scratch((count,), sum_dtype(x.dtype))
    reduced = []
    if reduction:
        reduced = plan_reduce("Averaging" if reduction == 1 else "Adding", found, out, None)
    if not x.size:
        return reduced
    pack = pack_of(length, x, *kept[:1])
    sharing = shared(length, pack)
    strides = [stride for one in kept for stride in element_strides(one)] if kept else [0, 0, 0]
    task = int64_fields(
        *(count, length, sharing.lanes, *element_strides(target), 0),
        *(*element_strides(x), *strides, *element_strides(found), 0),
    )
    source = source_of_cross_entropy(x.dtype, found.dtype, sharing.held, pack)
    return [
        Launch(source, name, sharing.grid(count), (x, target, found, *kept, task)),
        *reduced,
    ]


def plan_rows_gradient(
    g: Any, target: Any, weights: Any, totals: Any, out: Any, reduction: int
) -> list[Launch]:
    """Return the launch of rows_gradient; no launch if out is empty."""
    if not out.size:
        return []
    count, length = out.shape
    pack = pack_of(length, weights, out)
    sharing = shared(length, pack)
    task = int64_fields(
        *(count, length, sharing.lanes, *element_strides(target)),
        *(0 if reduction else element_strides(g)[0], 0, 0),
        *(*element_strides(weights), *element_strides(totals), *element_strides(out)),
    )
    share = np.float64(1 / count if reduction == 1 else 1)
    source = source_of_cross_entropy(out.dtype, out.dtype, sharing.held, pack)
    args = (g, target, weights, totals, out, share, task)
    return [Launch(source, "rows_gradient", sharing.grid(count), args)]


@functools.lru_cache(maxsize=256)
def source_of_cross_entropy(dtype: DType, loss: DType, held: int = 0, pack: int = 1) -> str:
    """Return the CUDA source for dtypes of elements and losses. A thread holds `held` elements in
    registers, and loads `pack` adjacent elements at a time.
    """
    return f"""{rows_header([dtype, loss], computing_type(dtype), held, pack)}
typedef {C_TYPES[dtype]} Stored;
typedef {C_TYPES[loss]} Loss;
{text_of("nn/cross_entropy.cu")}"""
