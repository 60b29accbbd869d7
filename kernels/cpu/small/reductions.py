"""Sums, means and extremes of small arrays, with few NumPy calls."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..rows import long_columns, long_rows, small_rows
from ..silence import silent
from .call_facts import (
    TERMS,
    CallFacts,
    Run,
    adder_along,
    adder_of_columns,
    adder_of_rows,
    gradients,
    number,
    ones,
    row_starts,
    small,
)


def _axes(facts: CallFacts) -> tuple[Any, Any, tuple[int, ...]]:
    """Return the first input's shape, the number of elements per result, and the axes."""
    shape, axes = facts.shapes[0] or (), facts.numbers[0]
    axes = tuple(range(len(shape))) if axes is None else axes
    return shape, math.prod([shape[axis] for axis in axes]), axes


def _final(facts: CallFacts) -> tuple[int, ...]:
    return facts.shape if facts.view_shape is None else facts.view_shape


@silent
def _seen(run: Run, shape: tuple[int, ...], final: tuple[int, ...]) -> Run:
    """Return a function that runs `run` and views its result in the shape `final`."""
    return run if shape == final else lambda x: run(x).reshape(final)


@silent
def _summed(facts: CallFacts) -> Run | None:
    shape, n, axes = _axes(facts)
    if not facts.small or facts.dtype != facts.dtypes[0]:
        return None
    final, dtype, ndim = _final(facts), facts.dtype, len(shape)
    empty = np.empty
    reduce: Run = np.add.reduce
    if 0 < len(axes) < ndim and axes == tuple(range(len(axes))):
        columns = math.prod(facts.shape)
        down = adder_of_columns(n, columns, dtype)
        return _seen(
            down if ndim == 2 else lambda x: down(x.reshape(n, columns)), (columns,), final
        )
    if axes and axes == tuple(range(axes[0], axes[-1] + 1)) and axes[-1] < ndim - 1:
        before, after = (math.prod(part) for part in (shape[: axes[0]], shape[axes[-1] + 1 :]))
        along = adder_along(before, n, after, dtype)
        return _seen(along, (before, after), final)
    if n > TERMS:

        def many(x: Any) -> Any:
            out = empty((), dtype)
            reduce(x, None, None, out)
            return out

        return _seen(many, (), final) if len(axes) == ndim else None
    one = ones(n, dtype)
    if len(axes) == ndim:

        def all_of_it(x: Any) -> Any:
            out = empty((), dtype)
            x.ravel().dot(one, out)
            return out

        return _seen(all_of_it, (), final)
    if axes == tuple(range(ndim - len(axes), ndim)):
        rows = math.prod(facts.shape)
        add = adder_of_rows(n, dtype)
        return _seen(add if ndim == 2 else lambda x: add(x.reshape(rows, n)), (rows,), final)
    return None


@small("reduce.reductions.sum")
def _sum(facts: CallFacts) -> Run | None:
    return _summed(facts) or long_columns.sum(facts) or long_rows.sum(facts)


@small("reduce.reductions.mean")
def _mean(facts: CallFacts) -> Run | None:
    total = _summed(facts)
    if total is None:
        return long_columns.sum(facts, is_mean=True) or long_rows.mean(facts)
    n, divide = number(_axes(facts)[1], facts.dtype), np.divide

    def mean(x: Any) -> Any:
        out = total(x)
        return divide(out, n, out)

    return mean


def _repeated(facts: CallFacts) -> Run | None:
    """Return the function that expands a gradient to the shape of the reduced array."""
    shape, _, axes = _axes(facts)
    if math.prod(shape) == 0 or facts.dtype != facts.dtypes[0]:
        return None
    steps_of = [i for i in range(len(shape)) if i not in axes]
    kept = facts.view_shape is not None
    ndarray, dtype = np.ndarray, facts.dtype

    def repeat(g: Any) -> Any:
        # ndarray() takes a tenth of np.broadcast_to's time, but needs a buffer, and so C order.
        if not g.flags.c_contiguous:
            g = g.copy()
        given = g.strides
        steps = [0] * len(shape)
        for place, axis in enumerate(steps_of):
            steps[axis] = given[axis if kept else place]
        view: Any = ndarray(shape, dtype, g, 0, steps)
        view.flags.writeable = False
        return view

    return repeat


@gradients("reduce.reductions.sum")
def _sum_gradient(facts: CallFacts) -> tuple[Run | None, ...] | None:
    repeat = _repeated(facts)
    return None if repeat is None else (repeat,)


@gradients("reduce.reductions.mean")
def _mean_gradient(facts: CallFacts) -> tuple[Run | None, ...] | None:
    repeat = _repeated(facts)
    if repeat is None:
        return None
    n, divide, array = number(_axes(facts)[1], facts.dtype), np.divide, np.asarray
    return (lambda g: repeat(array(divide(g, n))),)


def _extreme(facts: CallFacts, best: Any) -> Run | None:
    """Return the function for amax or amin by argmax or argmin, which find NaN first."""
    shape, n, axes = _axes(facts)
    if not facts.small:
        return None
    final, dtype, array = _final(facts), facts.dtype, np.array
    if len(axes) == len(shape):
        return _seen(lambda x: array(x.item(best(x)), dtype), (), final)
    if axes != (1,) or len(shape) != 2:
        return None
    starts, add = row_starts(shape[0], n), np.add

    def along(x: Any) -> Any:
        where = best(x, 1)
        return x.ravel()[add(where, starts, where)]

    return _seen(along, (shape[0],), final)


@small("reduce.reductions.amax")
def _amax(facts: CallFacts) -> Run | None:
    return _extreme(facts, np.ndarray.argmax) or long_rows.extreme(facts, "top")


@small("reduce.reductions.amin")
def _amin(facts: CallFacts) -> Run | None:
    return _extreme(facts, np.ndarray.argmin) or long_rows.extreme(facts, "bottom")


@gradients("reduce.reductions.amax", "reduce.reductions.amin")
def _extreme_gradient(facts: CallFacts) -> tuple[Run | None, ...] | None:
    # Without axes, this is the gradient of max or min over all elements: NaN counts as an extreme.
    of_all = facts.numbers[0] is None
    return long_rows.reduction_gradient(facts, "max_gradient" if of_all else "extreme_gradient")


@silent
def _with_places(facts: CallFacts, best: Any) -> Run | None:
    shape, axis = facts.shapes[0], facts.numbers[0]
    if not shape or not facts.few:
        return None
    n, after = shape[axis], math.prod(shape[axis + 1 :])
    add, multiply, step = np.add, np.multiply, number(after, np.int64)
    starts = add(row_starts(math.prod(shape[:axis]), n * after)[:, None], np.arange(after))
    starts = starts.reshape(facts.shape)

    def along_rows(x: Any) -> tuple[Any, Any]:
        where = best(x, axis)
        return x.ravel()[add(where, starts)], where

    def across_rows(x: Any) -> tuple[Any, Any]:
        where = best(x, axis)
        places = multiply(where, step)
        return x.ravel()[add(places, starts, places)], where

    def of_vector(x: Any) -> tuple[Any, Any]:
        where = best(x)
        return array(x.item(where), dtype), array(where)

    find = of_vector if len(shape) == 1 else along_rows if after == 1 else across_rows
    array, dtype, final = np.array, facts.dtype, facts.view_shape
    if final is None:
        return find

    def in_view_shape(x: Any) -> tuple[Any, Any]:
        found, where = find(x)
        return found.reshape(final), where.reshape(final)

    return in_view_shape


@small("reduce.reductions.max_along")
def _max_along(facts: CallFacts) -> Run | None:
    return _with_places(facts, np.ndarray.argmax)


@small("reduce.reductions.min_along")
def _min_along(facts: CallFacts) -> Run | None:
    return _with_places(facts, np.ndarray.argmin)


def _place(facts: CallFacts, best: Any) -> Run | None:
    shape, axis = facts.shapes[0], facts.numbers[0]
    if not shape or not facts.small:
        return None
    final, array = _final(facts), np.array
    if axis is None:
        return _seen(lambda x: array(best(x)), (), final)
    return _seen(lambda x: best(x, axis), facts.shape, final) if len(shape) > 1 else None


@small("reduce.reductions.argmax")
def _argmax(facts: CallFacts) -> Run | None:
    return _place(facts, np.ndarray.argmax)


@small("reduce.reductions.argmin")
def _argmin(facts: CallFacts) -> Run | None:
    return _place(facts, np.ndarray.argmin)


def _of_bools(facts: CallFacts, best: Any) -> Run | None:
    shape, axes = facts.shapes[0], facts.numbers[0]
    if facts.dtypes[0].kind != "b" or not shape or 0 in shape or len(axes) != len(shape):
        return None
    array = np.array
    return _seen(lambda x: array(x.item(best(x))), (), _final(facts))


@small("reduce.reductions.any")
def _any(facts: CallFacts) -> Run | None:
    return _of_bools(facts, np.ndarray.argmax)


@small("reduce.reductions.all")
def _all(facts: CallFacts) -> Run | None:
    return _of_bools(facts, np.ndarray.argmin)


@small("reduce.reductions.var")
def _var(facts: CallFacts) -> Run | None:
    return small_rows.var(facts) if facts.small else long_rows.var(facts)


@gradients("reduce.reductions.var")
def _var_gradient(facts: CallFacts) -> tuple[Run | None, ...] | None:
    return small_rows.var_gradient(facts) if facts.small else long_rows.var_gradient(facts)


@small("reduce.reductions.std")
def _std(facts: CallFacts) -> Run | None:
    return small_rows.var(facts, "small_std") if facts.small else long_rows.std(facts)


@silent
def _norm_across(facts: CallFacts) -> Run | None:
    """Return the function for the norm of order 1 or 2 over axes that do not include the last one,
    by a sum of absolute values or squares.
    """
    (shape, _, axes), order = _axes(facts), facts.numbers[1]
    if order not in (1.0, 2.0) or len(shape) - 1 in axes:
        return None
    total, square, sqrt = _summed(facts) or long_columns.sum(facts), np.square, np.sqrt
    if total is None:
        return None
    if order == 1.0:
        absolute = np.abs
        return lambda x: total(absolute(x))

    def norm(x: Any) -> Any:
        out = total(square(x))
        return sqrt(out, out)

    return norm


@silent
def _sizes(facts: CallFacts) -> Run | None:
    """Return the function for norms of one element each."""
    (shape, n, _), dtype, final = _axes(facts), facts.dtype, _final(facts)
    if n != 1 or facts.numbers[1] == 0.0 or dtype != facts.dtypes[0]:
        return None
    absolute, empty = np.abs, np.empty
    return lambda x: absolute(x, empty(shape, dtype)).reshape(final)


@small("reduce.reductions.norm")
def _norm(facts: CallFacts) -> Run | None:
    sizes = _sizes(facts)
    if sizes is not None:
        return sizes
    if facts.numbers[1] == 2.0 and facts.small:
        return _norm_across(facts) or small_rows.reduced(facts, "small_norm")
    return long_rows.norm(facts) or _norm_across(facts)


@gradients("reduce.reductions.norm")
def _norm_gradient(facts: CallFacts) -> tuple[Run | None, ...] | None:
    if facts.numbers[1] != 2.0:
        return None
    if facts.small:
        return small_rows.reduction_gradient(facts, "small_norm_gradient")
    return long_rows.reduction_gradient(facts, "norm_gradient")


@small("reduce.scan.cumsum")
def _cumsum(facts: CallFacts) -> Run | None:
    found, shape, axis = small_rows.cumsum(facts), facts.shapes[0], facts.numbers[0]
    if found is not None or not facts.small or not shape or facts.dtype != facts.dtypes[0]:
        return found
    empty, accumulate, dtype = np.empty, np.add.accumulate, facts.dtype

    def cumsum(x: Any) -> Any:
        out = empty(shape, dtype)
        accumulate(x, axis, None, out)
        return out

    return cumsum


@gradients("reduce.scan.cumsum")
def _cumsum_gradient(facts: CallFacts) -> tuple[Run | None, ...] | None:
    return small_rows.cumsum_gradient(facts)
