"""Softmax, layer normalisation, cross entropy and linear layers on few numbers, row by row.

NumPy spends 400 ns more on an operand that is to be broadcast than on one of the result's shape. So
where every element of a row needs the row's sum, a product with a matrix of ones makes it: the sum,
once per element, in the time of one call.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import numpy as np

from ..index.indices import refuse_class
from ..linalg.product import product, suits_panels
from ..reduce import reductions
from ..reduce.sums import add_up
from ..rows import long_cross_entropy, long_rows
from ..silence import silent
from .call_facts import (
    TERMS,
    CallFacts,
    Run,
    adder_of_columns,
    adder_of_rows,
    gradients,
    in_float64,
    number,
    ones,
    row_starts,
    small,
)
from .center_rows import centred, squared_rest

# Rows up to so long are added up by a square of ones, whose cost grows with the length.
_SQUARE: Final = 16
# Between these bounds exp needs no shift: sums of 1024 terms and their quotients stay normal
# float32 numbers, and rounding is no worse than that of x - max(x).
_SAFE: Final = 40.0
# For logarithms of such sums the bounds are narrower: x - log(sum) cancels. Up to 1 the result of
# two terms or more is at least 0.12, and as exact as the shifted form's; at 4 it can be 3e-4 with
# the rounding of 4. A single term's must be 0.
_EXACT: Final = 1.0
# The sum of a row's powers of which the greatest is 1, where no other share is over 1/16.
_ONE_LARGE: Final = 1.0625
# Above this the logarithm of a share leaves few digits to what is left of 1.
_LARGE_LOG: Final = -0.0645
# A mean of a short row whose square is so many variances at most costs a normalised number 5e-7 at
# most.
_NEAR: Final = 64.0


@lru_cache(maxsize=64)
def _square(length: int, dtype: Any) -> Any:
    made = np.ones((length, length), dtype)
    made.flags.writeable = False
    return made


@silent
def _spread_sums(rows: int, length: int, dtype: Any) -> Callable[[Any], Any]:
    """Return the function that gives each element of a matrix the sum of its row."""
    if length <= _SQUARE:
        square = _square(length, dtype)
        return lambda x: x.dot(square)
    add, wide = adder_of_rows(length, dtype), ones(length, dtype).reshape(1, length)
    return lambda x: add(x).reshape(rows, 1).dot(wide)


@silent
def _shifted(rows: int, length: int, dtype: Any) -> Callable[[Any], Any]:
    """Return the function that takes each row's maximum from it."""
    starts, wide = row_starts(rows, length), ones(length, dtype).reshape(1, length)
    subtract, add = np.subtract, np.add

    def shift(x: Any) -> Any:
        # argmax finds NaN first, and is five times as fast as np.maximum.reduce.
        where = x.argmax(1)
        top = x.ravel()[add(where, starts, where)]
        return subtract(x, top.reshape(rows, 1).dot(wide))

    return shift


def _without_top(rows: int, length: int) -> Callable[[Any, Any], Any]:
    """Return the function that takes rows and their powers, and gives the powers with 0 for the
    greatest number of each row.
    """
    starts = row_starts(rows, length)

    def without_top(x: Any, powers: Any) -> Any:
        powers.ravel()[x.argmax(1) + starts] = 0.0
        return powers

    return without_top


def _rows(facts: CallFacts) -> tuple[int, int] | None:
    """Return number and length of the rows if the axis is the last one of a small input."""
    shape, axis = facts.shapes[0], facts.numbers[0]
    if not shape or axis != len(shape) - 1 or not facts.small or shape[-1] > TERMS:
        return None
    return math.prod(shape[:-1]), shape[-1]


def _as_rows(run: Run, shape: Any, rows: tuple[int, int]) -> Run:
    """Return run, of one matrix, for inputs of a shape with more or fewer axes."""
    if len(shape) == 2:
        return run
    return lambda *arrays: run(*[array.reshape(rows) for array in arrays]).reshape(shape)


@small("nn.softmax.softmax")
def _softmax(facts: CallFacts) -> Run | None:
    found = _rows(facts)
    if found is None:
        return long_rows.mapped(facts, "softmax")
    total, shift = _spread_sums(*found, facts.dtype), _shifted(*found, facts.dtype)
    exp, divide = np.exp, np.divide

    def softmax(x: Any) -> Any:
        if x.item(x.argmax()) < _SAFE and x.item(x.argmin()) > -_SAFE:
            e = exp(x)
        else:
            away = shift(x)
            e = exp(away, away)
        return divide(e, total(e), e)

    return _as_rows(softmax, facts.shapes[0], found)


@gradients("nn.softmax.softmax")
def _softmax_gradient(facts: CallFacts) -> tuple[Run | None, ...] | None:
    found = _rows(facts)
    is_wide = facts.dtype.itemsize == 8
    if found is None:
        wide = "_wide" if is_wide else ""
        return long_rows.mapped_gradient(facts, f"softmax_gradient{wide}")
    total = _spread_sums(*found, facts.dtype)
    multiply, subtract = np.multiply, np.subtract

    def gradient(g: Any, out: Any) -> Any:
        t = multiply(g, out)
        if is_wide:
            # See Note [Slopes of rows with one large share] in fastdist/ops/nn/softmax.py.
            g = subtract(g, total(t))
            t = multiply(g, out, t)
        t = subtract(g, total(t))
        return multiply(t, out, t)

    return (_as_rows(gradient, facts.shapes[0], found),)


@small("nn.softmax.log_softmax")
def _log_softmax(facts: CallFacts) -> Run | None:
    found = _rows(facts)
    if found is None:
        return long_rows.mapped(facts, "log_softmax")
    total, shift = _spread_sums(*found, facts.dtype), _shifted(*found, facts.dtype)
    exp, log, log1p, subtract = np.exp, np.log, np.log1p, np.subtract
    exact, without_top = _EXACT if found[1] > 1 else -1.0, _without_top(*found)

    def log_softmax(x: Any) -> Any:
        if x.item(x.argmax()) <= exact and x.item(x.argmin()) >= -exact:
            t = total(exp(x))
            return subtract(x, log(t, t), t)
        x = shift(x)
        t = total(exp(x))
        # See Note [Rows with one large share] in row_steps.py.
        if t.item(t.argmin()) < _ONE_LARGE:
            t = total(without_top(x, exp(x)))
            return subtract(x, log1p(t, t), t)
        return subtract(x, log(t, t), t)

    return _as_rows(log_softmax, facts.shapes[0], found)


@gradients("nn.softmax.log_softmax")
def _log_softmax_gradient(facts: CallFacts) -> tuple[Run | None, ...] | None:
    found = _rows(facts)
    is_wide = facts.dtype.itemsize == 8
    if found is None:
        wide = "_wide" if is_wide else ""
        return long_rows.mapped_gradient(facts, f"log_softmax_gradient{wide}")
    total = _spread_sums(*found, facts.dtype)
    exp, expm1, multiply, subtract = np.exp, np.expm1, np.multiply, np.subtract

    def gradient(g: Any, out: Any) -> Any:
        t = exp(out)
        if is_wide and out.item(out.argmax()) > _LARGE_LOG:
            # See Note [Slopes of rows with one large share] in fastdist/ops/nn/softmax.py.
            large = out > _LARGE_LOG
            slopes = -multiply(g, expm1(out)) - multiply(t, total(multiply(g, ~large)))
            return np.where(large, slopes, subtract(g, multiply(t, total(g))))
        return subtract(g, multiply(t, total(g), t), t)

    return (_as_rows(gradient, facts.shapes[0], found),)


def _reduced_rows(facts: CallFacts) -> tuple[int, int] | None:
    """Return number and length of the rows if the axes to reduce are the last ones of a small
    input.
    """
    shape, axes = facts.shapes[0], facts.numbers[0]
    if not shape or not axes or not facts.small or facts.dtype != facts.dtypes[0]:
        return None
    first = len(shape) - len(axes)
    length = math.prod(shape[first:])
    if length > TERMS or tuple(axes) != tuple(range(first, len(shape))):
        return None
    return math.prod(shape[:first]), length


@small("reduce.reductions.logsumexp")
def _logsumexp(facts: CallFacts) -> Run | None:
    found = _reduced_rows(facts)
    if found is None:
        return long_rows.logsumexp(facts)
    rows, length = found
    final, dtype = facts.shape if facts.view_shape is None else facts.view_shape, facts.dtype
    starts, wide = row_starts(rows, length), ones(length, dtype).reshape(1, length)
    exact, add_up_rows, inf = _EXACT if length > 1 else -1.0, adder_of_rows(length, dtype), math.inf
    add, exp, log, log1p, subtract = np.add, np.exp, np.log, np.log1p, np.subtract

    def logsumexp(x: Any) -> Any:
        high, low = x.item(x.argmax()), x.item(x.argmin())
        x = x.reshape(rows, length)
        if high <= exact and low >= -exact:
            totals = add_up_rows(exp(x))
            return log(totals, totals).reshape(final)
        if not (high < inf and low > -inf):
            # Infinite numbers and NaN
            out = np.empty(rows, dtype)
            reductions.logsumexp(x, out, (1,))
            return out.reshape(final)
        places = x.argmax(1)
        add(places, starts, places)
        tops = x.ravel()[places]
        powers = exp(subtract(x, tops.reshape(rows, 1).dot(wide)))
        totals = add_up_rows(powers)
        # See Note [Rows with one large share] in row_steps.py.
        if totals.item(totals.argmin()) < _ONE_LARGE:
            powers.ravel()[places] = 0.0
            totals = log1p(add_up_rows(powers))
        else:
            log(totals, totals)
        return add(totals, tops, totals).reshape(final)

    return logsumexp


@gradients("reduce.reductions.logsumexp")
def _logsumexp_gradient(facts: CallFacts) -> tuple[Run | None, ...] | None:
    found = _reduced_rows(facts)
    if found is None:
        return long_rows.reduction_gradient(facts, "logsumexp_gradient")
    (rows, length), shape = found, facts.shapes[0]
    wide = ones(length, facts.dtype).reshape(1, length)
    exp, multiply, subtract = np.exp, np.multiply, np.subtract

    def gradient(g: Any, out: Any, x: Any) -> Any:
        t = subtract(x.reshape(rows, length), out.reshape(rows, 1).dot(wide))
        exp(t, t)
        return multiply(t, g.reshape(rows, 1).dot(wide), t).reshape(shape)

    return (gradient,)


@silent
def _layer_norm_of_short_rows(facts: CallFacts, rows: int, length: int, of_huge: Run | None) -> Run:
    """Return layer norm by sums that are in each place; they may be rounded otherwise in each."""
    n, eps = number(length, facts.dtype), number(facts.numbers[0], facts.dtype)
    total = _spread_sums(rows, length, facts.dtype)
    column, of_rows, inf = ones(length, facts.dtype), (rows, 1), math.inf
    divide, subtract, square, add, sqrt, multiply = (
        np.divide, np.subtract, np.square, np.add, np.sqrt, np.multiply,
    )  # fmt: skip

    def of_short_rows(x: Any, weight: Any, bias: Any) -> Any:
        mean = total(x)
        divide(mean, n, mean)
        away = subtract(x, mean)
        deviation = total(square(away))
        add(divide(deviation, n, deviation), eps, deviation)
        far = max(mean.item(mean.argmax()), -mean.item(mean.argmin()))
        if not far * far <= _NEAR * deviation.item(deviation.argmin()) < inf:
            if of_huge is not None and not deviation.item(deviation.argmax()) < inf:
                return of_huge(x, weight, bias)
            mean, away = centred(x, divide(x.dot(column), n), column, n)
            mean = mean.reshape(of_rows)
            deviation = total(square(away))
            add(divide(deviation, n, deviation), eps, deviation)
        out = divide(away, sqrt(deviation, deviation), away)
        if weight is not None:
            multiply(out, weight, out)
        if bias is not None:
            add(out, bias, out)
        return out, mean[:, :1], deviation[:, :1]

    return of_short_rows


@small("nn.normalization.layer_norm")
def _layer_norm(facts: CallFacts) -> Run | None:
    shape = facts.shapes[0]
    if not facts.small or shape is None or shape[1] > TERMS or not facts.one_dtype:
        return long_rows.layer_norm(facts)
    rows, length = shape
    of_huge = in_float64("nn.normalization.layer_norm", facts)
    if length <= _SQUARE:
        return _layer_norm_of_short_rows(facts, rows, length, of_huge)
    n, eps = number(length, facts.dtype), number(facts.numbers[0], facts.dtype)
    column, wide = ones(length, facts.dtype), ones(length, facts.dtype).reshape(1, length)
    of_rows, least = (rows, 1), squared_rest(length, 4 * float(np.finfo(facts.dtype).eps))
    divide, subtract, add, sqrt, multiply, inner, inf = (
        np.divide, np.subtract, np.add, np.sqrt, np.multiply, np.vecdot, math.inf,
    )  # fmt: skip

    def layer_norm(x: Any, weight: Any, bias: Any) -> Any:
        mean = x.dot(column)
        divide(mean, n, mean)
        away = subtract(x, mean.reshape(of_rows).dot(wide))
        deviation = inner(away, away)
        rest = away.dot(column)
        if not rest.dot(rest) <= least * deviation.item(deviation.argmin()) < inf:
            if of_huge is not None and not deviation.item(deviation.argmax()) < inf:
                return of_huge(x, weight, bias)
            mean, away = centred(x, mean, column, n)
            deviation = inner(away, away)
        add(divide(deviation, n, deviation), eps, deviation)
        deviation = sqrt(deviation, deviation).reshape(of_rows)
        out = divide(away, deviation.dot(wide), away)
        if weight is not None:
            multiply(out, weight, out)
        if bias is not None:
            add(out, bias, out)
        return out, mean.reshape(of_rows), deviation

    return layer_norm


@gradients("nn.normalization.layer_norm")
def _layer_norm_gradient(facts: CallFacts) -> tuple[Run | None, ...] | None:
    return None if facts.small else long_rows.layer_norm_gradient(facts)


@small("nn.normalization.rms_norm")
def _rms_norm(facts: CallFacts) -> Run | None:
    return None if facts.small else long_rows.rms_norm(facts)


@gradients("nn.normalization.rms_norm")
def _rms_norm_gradient(facts: CallFacts) -> tuple[Run | None, ...] | None:
    return None if facts.small else long_rows.rms_norm_gradient(facts)


@small("nn.cross_entropy.rows")
def _cross_entropy(facts: CallFacts) -> Run | None:
    shape = facts.shapes[0]
    if not facts.small or shape is None or shape[1] > TERMS or shape[0] > TERMS:
        return long_cross_entropy.cross_entropy(facts)
    (rows, classes), dtype, (reduction,) = shape, facts.dtype, facts.numbers
    starts, one = row_starts(rows, classes), ones(rows, dtype)
    shift, count = _shifted(rows, classes, dtype), number(rows, dtype)
    exact, add_up_rows = _EXACT if classes > 1 else -1.0, adder_of_rows(classes, dtype)
    without_top = _without_top(rows, classes)
    exp, log, log1p, add, subtract, divide, empty = (
        np.exp, np.log, np.log1p, np.add, np.subtract, np.divide, np.empty,
    )  # fmt: skip

    def cross_entropy(x: Any, target: Any) -> Any:
        is_shifted = not (x.item(x.argmax()) <= exact and x.item(x.argmin()) >= -exact)
        if is_shifted:
            x = shift(x)
        weights = exp(x)
        totals = add_up_rows(weights)
        if is_shifted and totals.item(totals.argmin()) < _ONE_LARGE:
            losses = log1p(add_up_rows(without_top(x, exp(x))))
        else:
            losses = log(totals)
        subtract(losses, x.ravel()[add(target, starts)], losses)
        if reduction == 0:
            return losses, weights, totals
        out = empty((), dtype)
        losses.dot(one, out)
        return divide(out, count, out) if reduction == 1 else out, weights, totals

    return cross_entropy


@small("nn.cross_entropy.losses")
def _cross_entropy_losses(facts: CallFacts) -> Run | None:
    if not facts.small:
        return long_cross_entropy.cross_entropy(facts, is_alone=True)
    run = _cross_entropy(facts)
    return None if run is None else lambda x, target: run(x, target)[0]


@gradients("nn.cross_entropy.rows")
def _cross_entropy_gradient(facts: CallFacts) -> tuple[Run | None, ...] | None:
    shape = facts.shapes[0]
    if not facts.small or shape is None:
        return long_cross_entropy.cross_entropy_gradient(facts)
    (rows, classes), dtype, (reduction,) = shape, facts.dtype, facts.numbers
    starts, count = row_starts(rows, classes), number(rows, dtype)
    add_up_rows, empty = adder_of_rows(classes, dtype), np.empty
    add, divide, multiply, subtract = np.add, np.divide, np.multiply, np.subtract
    inverse = number(1 / rows, dtype)

    def gradient(g: Any, kept: Any, x: Any, target: Any) -> Any:
        weights, totals = kept
        if reduction == 1:
            # A pass mostly begins with 1. An array: ufuncs take it in half a NumPy scalar's time.
            g = inverse if g.item() == 1.0 else divide(g, count, empty((), dtype))
        shares = divide(g, totals)
        flat = multiply(weights.ravel(), shares.repeat(classes))
        # target may have changed since the loss; the sum is private, as NumPy's loops need it.
        low, high = target.item(target.argmin()), target.item(target.argmax())
        if low < 0 or high >= classes:
            refuse_class(low if low < 0 else high, classes)
        places = add(target, starts)
        slopes = flat[places]
        subtract(slopes, g, slopes)
        # See Note [Rows with one large share] in row_steps.py. One gradient above 0 for all rows is
        # the commonest, and tells by less whether a share is large.
        common = g.item() if reduction else 0.0
        if not common > 0 or slopes.item(slopes.argmax()) > -0.0625 * common:
            others = weights.copy()
            others.ravel()[places] = 0.0
            large = weights.ravel()[places] > 0.9375 * totals
            slopes = np.where(large, multiply(add_up_rows(others), -shares), slopes)
        flat[places] = slopes
        return flat.reshape(shape)

    return (gradient, None)


@gradients("linalg.product.linear")
def _linear_gradient(facts: CallFacts) -> tuple[Run | None, ...] | None:
    if not facts.one_dtype or facts.dtype.itemsize < 4:
        return None
    rows, inputs = facts.shapes[0]  # type: ignore[misc]
    outputs = facts.shapes[1][0]  # type: ignore[index]
    has_axes = facts.shapes[2] != ()
    few = rows <= TERMS
    down: Run = adder_of_columns(rows, outputs, facts.dtype) if few else lambda g: add_up(g, 0)

    def by_bias(g: Any) -> Any:
        return down(g) if has_axes else np.asarray(add_up(g))

    if suits_panels(rows, outputs, inputs, facts.dtype):
        return product, lambda g, input: product(g.T, input), by_bias
    return lambda g, weight: g.dot(weight), lambda g, input: g.T.dot(input), by_bias


def _is_matrix_product(facts: CallFacts) -> bool:
    """Return whether NumPy's BLAS makes the result of matrices as they are."""
    a, b = facts.shapes
    assert a is not None and b is not None
    return (
        len(a) == len(b) == 2
        and a[1] > 0
        and facts.one_dtype
        and not suits_panels(*a, b[1], facts.dtype)
    )


@small("linalg.product.matmul")
def _matmul(facts: CallFacts) -> Run | None:
    # 325 ns as a method, 500 as np.dot, 910 as np.matmul.
    return np.ndarray.dot if _is_matrix_product(facts) else None


@gradients("linalg.product.matmul")
def _matmul_gradients(facts: CallFacts) -> tuple[Run | None, ...] | None:
    if not _is_matrix_product(facts):
        return None
    return lambda g, other: g.dot(other.T), lambda g, input: input.T.dot(g)
