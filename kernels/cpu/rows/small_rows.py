"""Softmax, norms, losses and reductions of few numbers along rows, by the exact kernels.

Each function takes the CallFacts of a call. It returns the function that computes the results, or
None if the ordinary kernel must be used.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from ..index.indices import ALL_INSIDE, INSIDE, refuse_class
from ..jit.array_objects import ARRAY, gapless
from ..silence import silent
from ..small.call_facts import CallFacts, Run, Shape, ones
from .small_loops import bound, result_by
from .small_tables import table

Array = np.ndarray[Any, Any]
# The number of rows that are added in sequence.
_BAND: Final = 32
# The largest number of elements of cumulative sums here, because one thread computes them all.
_SCANNED: Final = 1 << 16


def _rows(facts: CallFacts) -> tuple[int, int] | None:
    """Return the number and length of the rows if the axis is the last one."""
    shape, axis = facts.shapes[0], facts.numbers[0]
    if not shape or axis != len(shape) - 1 or not facts.one_dtype:
        return None
    return math.prod(shape[:-1]), shape[-1]


def _reduced(facts: CallFacts) -> tuple[int, int] | None:
    """Return the number and length of the rows if the axes are the last ones."""
    shape, axes = facts.shapes[0], facts.numbers[0]
    if shape is None or not facts.contiguous[0] or not facts.one_dtype:
        return None
    axes = tuple(range(len(shape))) if axes is None else tuple(axes)
    first = len(shape) - len(axes)
    if axes != tuple(range(first, len(shape))):
        return None
    return math.prod(shape[:first]), math.prod(shape[first:])


def _final(facts: CallFacts) -> Any:
    return facts.shape if facts.view_shape is None else facts.view_shape


def _turned(facts: CallFacts) -> tuple[CallFacts, Shape, Shape] | None:
    """Return the facts of a call of few numbers after its axes are moved to the end, the order of
    the axes that does this, and the order that undoes it. None if the axes are the last ones.

    Note    two copies of few numbers take less time than NumPy's calls on columns: softmax of 8 x
            64 float32 along axis 0 takes 2.6 us instead of 7.5 (AMD EPYC, Zen 5)
    """
    shape, axes = facts.shapes[0], facts.numbers[0]
    if not shape or axes is None or not facts.small or not facts.one_dtype:
        return None
    given, ndim = axes if isinstance(axes, tuple) else (axes,), len(shape)
    order = (*[axis for axis in range(ndim) if axis not in given], *given)
    if not given or order == tuple(range(ndim)):
        return None
    last = tuple(range(ndim - len(given), ndim)) if isinstance(axes, tuple) else ndim - 1
    moved, numbers = tuple([shape[axis] for axis in order]), (last, *facts.numbers[1:])
    shapes = tuple([moved if one == shape else one for one in facts.shapes])
    final = moved if facts.shape == shape else facts.shape
    back = tuple([order.index(axis) for axis in range(ndim)])
    return facts._replace(shapes=shapes, shape=final, numbers=numbers), order, back


def mapped(facts: CallFacts, name: str) -> Run | None:
    """Return the function that runs the kernel `name` over rows along an axis."""
    turned = _turned(facts)
    if turned is not None:
        inner, order, back = turned
        run = mapped(inner, name)
        return run and (lambda x: run(x.transpose(order).copy()).transpose(back).copy())
    rows = _rows(facts)
    return None if rows is None else result_by(name, facts.shape, facts.dtype, *rows)


def mapped_gradient(facts: CallFacts, name: str) -> tuple[Run | None, ...] | None:
    """Return the function for the gradient by the kernel `name`, from g and the result."""
    turned = _turned(facts)
    if turned is not None:
        inner, order, back = turned
        (run,) = mapped_gradient(inner, name) or (None,)
        if run is None:
            return None
        return (lambda g, y: run(g.transpose(order), y.transpose(order)).transpose(back).copy(),)
    rows = _rows(facts)
    if rows is None:
        return None
    name = f"{name}_wide" if facts.dtype.itemsize == 8 else name
    return (of_several(name, facts.shape, facts.dtype, *rows),)


def of_several(name: str, shape: Any, dtype: Any, rows: int, n: int, a: float = 0.0) -> Run:
    """Return the function that computes a result of this shape from several arrays."""
    empty, lengths, launch, array_type = np.empty, table(n), bound(name, dtype, rows, n, a), ARRAY

    def make(*arrays: Array) -> Array:
        made = empty(shape, dtype)
        for array in arrays:
            if type(array) is not array_type or not array.flags.c_contiguous:
                arrays = tuple(gapless(*arrays))
                break
        launch((*arrays, made, lengths))
        return made

    return make


def cumsum(facts: CallFacts) -> Run | None:
    """Return the function for cumulative sums along the last axis."""
    rows = _scanned(facts)
    if rows is None or not facts.contiguous[0]:
        return None
    name = "small_cumsum_of_row" if rows[0] == 1 else "small_cumsum"
    return result_by(name, facts.shape, facts.dtype, *rows)


def cumsum_gradient(facts: CallFacts) -> tuple[Run | None, ...] | None:
    """Return the function for the gradient of cumulative sums, which is the cumulative sums of g
    from the last number on.
    """
    rows = _scanned(facts)
    if rows is None:
        return None
    name = "small_cumsum_gradient_of_row" if rows[0] == 1 else "small_cumsum_gradient"
    return (of_several(name, facts.shape, facts.dtype, *rows),)


def _scanned(facts: CallFacts) -> tuple[int, int] | None:
    rows = _rows(facts)
    is_some = rows is not None and 0 < rows[0] * rows[1] <= _SCANNED
    return rows if is_some and facts.dtype.kind == "f" and facts.dtype.itemsize >= 4 else None


def reduced(facts: CallFacts, name: str, a: float = 0.0) -> Run | None:
    """Return the function for the reduction by the kernel `name` over some axes."""
    turned = _turned(facts)
    if turned is not None:
        inner, order, _ = turned
        run = reduced(inner, name, a)
        return run and (lambda x: run(x.transpose(order).copy()))
    found = _reduced(facts)
    return None if found is None else result_by(name, _final(facts), facts.dtype, *found, a)


def reduction_gradient(
    facts: CallFacts, name: str, a: float = 0.0
) -> tuple[Run | None, ...] | None:
    """Return the function for the gradient of a reduction by the kernel `name`, from g and the
    kernel's other operands, the last of which is the array that is reduced.
    """
    turned = _turned(facts)
    if turned is not None:
        inner, order, back = turned
        (run,) = reduction_gradient(inner, name, a) or (None,)
        return run and (
            lambda *arrays: run(*arrays[:-1], arrays[-1].transpose(order)).transpose(back).copy(),
        )
    found = _reduced(facts)
    if found is None:
        return None
    return (of_several(name, facts.shapes[0], facts.dtype, *found, a),)


def logsumexp(facts: CallFacts) -> Run | None:
    """Return the function for log(sum(exp(x))) over some axes."""
    turned = _turned(facts)
    if turned is not None:
        inner, order, _ = turned
        run = logsumexp(inner)
        return run and (lambda x: run(x.transpose(order).copy()))
    found = _reduced(facts)
    if found is None:
        return None
    rows, n = found
    final, dtype, size = _final(facts), facts.dtype, rows * n
    launch, lengths = bound("small_logsumexp", dtype, rows, n), table(n)
    empty, array_type = np.empty, ARRAY

    def make(x: Array) -> Array:
        made = empty(final, dtype)
        if type(x) is not array_type:
            (x,) = gapless(x)
        launch((x, empty(size, dtype), made, lengths))
        return made

    return make


def _left(facts: CallFacts) -> float:
    """Return the number by which a sum of squared deviations is divided."""
    n = math.prod([(facts.shapes[0] or ())[axis] for axis in facts.numbers[0]])
    return float(n - facts.numbers[1])


def var(facts: CallFacts, name: str = "small_var") -> Run | None:
    """Return the function for the variance over some axes."""
    left = _left(facts)
    return reduced(facts, name, 1.0 / left) if left > 0 else None


def var_gradient(facts: CallFacts) -> tuple[Run | None, ...] | None:
    """Return the function for the gradient of the variance, from g and x."""
    left = _left(facts)
    return reduction_gradient(facts, "small_var_gradient", 2.0 / left) if left > 0 else None


def in_order(*arrays: Array) -> bool:
    """Return whether arrays are plain NumPy arrays in C order."""
    for array in arrays:  # all() would take twice the time
        if type(array) is ARRAY and array.flags.c_contiguous:
            continue
        return False
    return True


def is_plain(facts: CallFacts) -> bool:
    """Return whether all given inputs of a call have one dtype and are in C order."""
    given = zip(facts.contiguous, facts.shapes, strict=True)
    return facts.one_dtype and all(is_dense or shape is None for is_dense, shape in given)


def layer_norm(facts: CallFacts) -> Run | None:
    """Return the function for layer norm of a matrix. It returns the result, and the mean and
    deviation of each row.
    """
    if not is_plain(facts):
        return None
    shape, dtype, eps = facts.shape, facts.dtype, float(facts.numbers[0])
    rows, n = shape
    nothing = np.zeros(n, dtype)
    one, column, lengths, empty, array_type = ones(n, dtype), (rows, 1), table(n), np.empty, ARRAY
    launch = bound("small_layer_norm", dtype, rows, n, eps)

    def of_rows(x: Array, weight: Any, bias: Any) -> tuple[Array, Array, Array]:
        if weight is None:
            weight = one
        if bias is None:
            bias = nothing
        if not (type(x) is type(weight) is type(bias) is array_type):
            x, weight, bias = gapless(x, weight, bias)
        out, mean, deviation = empty(shape, dtype), empty(column, dtype), empty(column, dtype)
        launch((x, weight, bias, out, mean, deviation, lengths))
        return out, mean, deviation

    return of_rows


@silent
def _joined(totals: Array) -> Array:
    """Return the sum over the bands."""
    return np.add.reduce(totals, 0)  # type: ignore[no-any-return]


def layer_norm_gradient(facts: CallFacts) -> tuple[Run | None, ...] | None:
    """Return functions for the gradients of layer norm by input, weight and bias, computed
    together.
    """
    if not is_plain(facts):
        return None
    (rows, n), dtype = facts.shape, facts.dtype
    one, lengths, empty, shape = ones(n, dtype), table(n), np.empty, (rows, n)
    bands = -(-rows // _BAND)
    of_bands = n if bands == 1 else (bands, n)
    alone = bound("small_layer_norm_gradient", dtype, rows, n)
    told = bands, n, float(rows), float(_BAND)
    all_three = bound("small_layer_norm_gradients", dtype, *told)
    down = bound("small_normal_bands", dtype, *told)

    def by_all(g: Array, others: Any, x: Array, weight: Any, wanted: Any) -> tuple[Any, Any, Any]:
        mean, deviation = others
        if weight is None:
            weight = one
        if not in_order(g, x, weight, mean, deviation):
            g, x, weight, mean, deviation = gapless(g, x, weight, mean, deviation)
        made = empty(shape, dtype) if wanted[0] else None
        if not (wanted[1] or wanted[2]):
            alone((g, x, mean, deviation, weight, made, lengths))
            return made, None, None
        by_weight, by_bias = empty(of_bands, dtype), empty(of_bands, dtype)
        if made is None:
            down((g, x, mean, deviation, by_weight, by_bias, lengths))
        else:
            all_three((g, x, mean, deviation, weight, made, by_weight, by_bias, lengths))
        if bands > 1:
            by_weight, by_bias = _joined(by_weight), _joined(by_bias)
        return made, by_weight, by_bias

    return by_all, None, None


def rms_norm(facts: CallFacts) -> Run | None:
    """Return the function for RMS norm of a matrix. It returns the result and each row's factor."""
    if not is_plain(facts):
        return None
    shape, dtype, eps = facts.shape, facts.dtype, float(facts.numbers[0])
    rows, n = shape
    one, column, lengths, empty, array_type = ones(n, dtype), (rows, 1), table(n), np.empty, ARRAY
    launch = bound("small_rms_norm", dtype, rows, n, eps)

    def of_rows(x: Array, weight: Any) -> tuple[Array, Array]:
        if weight is None:
            weight = one
        if not (type(x) is type(weight) is array_type):
            x, weight = gapless(x, weight)
        out, scale = empty(shape, dtype), empty(column, dtype)
        launch((x, weight, out, scale, lengths))
        return out, scale

    return of_rows


def rms_norm_gradient(facts: CallFacts) -> tuple[Run | None, ...] | None:
    """Return functions for the gradients of RMS norm by its input and weight."""
    if not is_plain(facts):
        return None
    (rows, n), dtype = facts.shape, facts.dtype
    one, lengths, empty, shape = ones(n, dtype), table(n), np.empty, (rows, n)
    bands = -(-rows // _BAND)
    of_bands = n if bands == 1 else (bands, n)
    along = bound("small_rms_norm_gradient", dtype, rows, n)
    down = bound("small_scaled_bands", dtype, bands, n, float(rows), float(_BAND))

    def by_input(g: Array, others: Any, x: Array, weight: Any) -> Array:
        made, (scale,) = empty(shape, dtype), others
        if weight is None:
            weight = one
        if not in_order(g, x, weight, scale):
            g, x, weight, scale = gapless(g, x, weight, scale)
        along((g, x, weight, scale, made, lengths))
        return made

    def by_weight(g: Array, others: Any, x: Array) -> Array:
        total, (scale,) = empty(of_bands, dtype), others
        if not in_order(g, x, scale):
            g, x, scale = gapless(g, x, scale)
        down((g, x, scale, total, lengths))
        return total if bands == 1 else _joined(total)

    return by_input, by_weight


def cross_entropy(facts: CallFacts, *, is_alone: bool = False) -> Run | None:
    """Return the function for the cross entropy of rows. Its results are the loss, exp(x) up to a
    factor per row, and the sum of these powers for each row. If is_alone, the loss is the only
    result.
    """
    (rows, classes), dtype, (reduction,) = facts.shapes[0], facts.dtype, facts.numbers  # type: ignore[misc]
    if not facts.contiguous[1] or facts.dtypes[0] != dtype:
        return None
    empty, copy_of, array_type, shape = np.empty, np.ndarray.copy, ARRAY, (rows, classes)
    lengths, final = table(classes), () if reduction else rows
    name = "small_cross_entropy_of_all" if reduction else "small_cross_entropy"
    launch = bound(name, dtype, rows, classes, 1.0 / rows if reduction == 1 else 1.0)

    def of_rows(x: Array, target: Array) -> Any:
        if not (type(x) is type(target) is array_type):
            x, target = gapless(x, target)
        loss, weights, totals = empty(final, dtype), empty(shape, dtype), empty(rows, dtype)
        wrong = copy_of(ALL_INSIDE)
        launch((x, target, loss, weights, totals, wrong, lengths))
        if (found := wrong.item()) != INSIDE:
            refuse_class(found, classes)
        return loss if is_alone else (loss, weights, totals)

    return of_rows


def cross_entropy_gradient(facts: CallFacts) -> tuple[Run | None, ...] | None:
    """Return the function for the gradient of cross entropy by its input."""
    (rows, classes), dtype, (reduction,) = facts.shapes[0], facts.dtype, facts.numbers  # type: ignore[misc]
    if not facts.contiguous[1] or facts.dtypes[0] != dtype:
        return None
    empty, copy_of, shape, lengths = np.empty, np.ndarray.copy, (rows, classes), table(classes)
    scale, one = 1.0 / rows if reduction == 1 else 1.0, ones(rows, dtype)
    launch = bound("small_cross_entropy_gradient", dtype, rows, classes, scale)

    def by_input(g: Array, others: Any, x: Array, target: Array) -> Array:
        made, (weights, totals), wrong = empty(shape, dtype), others, copy_of(ALL_INSIDE)
        if not g.ndim:
            value, g = g.item(), one
            if value != 1.0:
                g = empty(rows, dtype)
                g.fill(value)
        if not in_order(g, target, weights, totals):
            g, target, weights, totals = gapless(g, target, weights, totals)
        launch((g, target, weights, totals, made, wrong, lengths))
        if (found := wrong.item()) != INSIDE:
            refuse_class(found, classes)
        return made

    return by_input, None
