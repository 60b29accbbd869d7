"""Gradients of small softmaxes, norms and cross entropies, which are differentiated again.

The first gradients are computed by the usual kernels. The second gradients are computed by the
exact kernels along rows. See small_rows.py for what functions return.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..index.indices import ALL_INSIDE, INSIDE, refuse_class
from ..jit.array_objects import gapless
from ..nn.batch_norm import channels_gradients, gradients_maker
from ..reduce.sums import add_up
from ..silence import silent
from ..small.call_facts import CallFacts, Run, ones
from . import small_columns, small_groups, small_rows
from .small_loops import bound
from .small_rows import in_order
from .small_tables import table

Array = np.ndarray[Any, Any]


def _all_but_channels(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple([axis for axis in range(len(shape)) if axis != 1])


def _of_norm(facts: CallFacts) -> CallFacts:
    """Return the facts of the norm from the facts of its gradient, whose second and third arguments
    are the norm's input and weight.
    """
    return facts._replace(
        shapes=facts.shapes[1:3], dtypes=facts.dtypes[1:3], contiguous=(True, True)
    )


def _second(name: str, rows: int, n: int, dtype: Any) -> Run:
    """Return the function that computes the second gradients of normalized rows, with respect to u
    = g * weight and to the rows. It uses the kernel `name`.
    """
    launch, lengths, empty = bound(name, dtype, rows, n), table(n), np.empty

    def second(*given: Array) -> tuple[Array, Array]:
        if not in_order(*given):
            given = tuple(gapless(*given))
        by_u, by_x = empty((rows, n), dtype), empty((rows, n), dtype)
        launch((*given, by_u, by_x, lengths))
        return by_u, by_x

    return second


def _by_all(
    by_u: Array, by_x: Array, g: Array, weight: Any, axes: Any, wanted: Any
) -> tuple[Any, ...]:
    """Return the gradients by g, input and weight, where by_u is the gradient by u = g * weight.
    `axes` are the axes along which the weight is broadcast.
    """
    if weight is None:
        return by_u, by_x, None
    by_weight = add_up(np.multiply(g, by_u), axes) if wanted[2] else None
    return np.multiply(by_u, weight), by_x, by_weight


def softmax(facts: CallFacts, name: str) -> Run:
    """Return the function for the gradient of softmax or log_softmax, from g and the result."""
    *others, n = facts.shape
    return small_rows.of_several(name, facts.shape, facts.dtype, math.prod(others), n)


def softmax_gradient(facts: CallFacts, name: str) -> tuple[Run | None, ...]:
    """Return the function for the second gradients of softmax, by g and by the result, computed
    together by the kernel `name`.
    """
    *others, n = shape = facts.shape
    dtype, empty, lengths = facts.dtype, np.empty, table(n)
    launch = bound(name, dtype, math.prod(others), n)

    def by_both(given: Array, g: Array, y: Array) -> tuple[Array, Array]:
        if not in_order(given, g, y):
            given, g, y = gapless(given, g, y)
        by_g, by_y = empty(shape, dtype), empty(shape, dtype)
        launch((given, g, y, by_g, by_y, lengths))
        return by_g, by_y

    return by_both, None


def cross_entropy(facts: CallFacts) -> Run:
    """Return the function for the gradient of cross entropy by its input, from g, the input, the
    classes, exp(x) up to a factor per row, and the sum of these powers for each row.
    """
    _, shapes, *_ = facts.shapes
    by_rows = facts._replace(shapes=facts.shapes[1:3], dtypes=facts.dtypes[1:3],
                             contiguous=(True, True))  # fmt: skip
    (run, _) = small_rows.cross_entropy_gradient(by_rows) or (None, None)
    assert run is not None and shapes is not None

    def of_rows(g: Array, x: Array, target: Array, weights: Array, totals: Array) -> Array:
        return run(g, (weights, totals), x, target)  # type: ignore[no-any-return]

    return of_rows


@silent
def cross_entropy_gradient(facts: CallFacts) -> tuple[Run | None, ...]:
    """Return the function for the second gradients of cross entropy, by g and by the input."""
    (rows, n), dtype, (reduction,) = facts.shape, facts.dtype, facts.numbers
    scale, one = 1.0 / rows if reduction == 1 else 1.0, ones(rows, dtype)
    empty, lengths = np.empty, table(n)
    launch = bound("small_cross_entropy_second", dtype, rows, n, scale)
    copy_of = np.ndarray.copy

    def by_both(
        given: Array, g: Array, x: Array, target: Array, weights: Array, totals: Array
    ) -> tuple[Array, Array]:
        if not g.ndim:
            g = g * one
        if not in_order(given, g, target, weights, totals):
            given, g, target, weights, totals = gapless(given, g, target, weights, totals)
        by_x, by_g, wrong = empty((rows, n), dtype), empty(rows, dtype), copy_of(ALL_INSIDE)
        launch((given, g, target, weights, totals, by_x, by_g, wrong, lengths))
        if (found := wrong.item()) != INSIDE:
            refuse_class(found, n)
        return np.asarray(add_up(by_g)) if reduction else by_g, by_x

    return by_both, None, None, None, None


def layer_norm(facts: CallFacts) -> Run:
    """Return the function for the gradient of layer norm by its input, from g, the input, the
    weight, and the rows' means and deviations.
    """
    (rows, n), dtype = facts.shape, facts.dtype
    one, lengths, empty = ones(n, dtype), table(n), np.empty
    launch = bound("small_layer_norm_gradient", dtype, rows, n)

    def by_input(g: Array, x: Array, weight: Any, mean: Array, deviation: Array) -> Array:
        if weight is None:
            weight = one
        if not in_order(g, x, weight, mean, deviation):
            g, x, weight, mean, deviation = gapless(g, x, weight, mean, deviation)
        made = empty((rows, n), dtype)
        launch((g, x, mean, deviation, weight, made, lengths))
        return made

    return by_input


def rms_norm(facts: CallFacts) -> Run:
    """Return the function for the gradient of RMS norm by its input, from g, the input, the weight,
    and the rows' scales.
    """
    (rows, n), dtype = facts.shape, facts.dtype
    one, lengths, empty = ones(n, dtype), table(n), np.empty
    launch = bound("small_rms_norm_gradient", dtype, rows, n)

    def by_input(g: Array, x: Array, weight: Any, scale: Array) -> Array:
        if weight is None:
            weight = one
        if not in_order(g, x, weight, scale):
            g, x, weight, scale = gapless(g, x, weight, scale)
        made = empty((rows, n), dtype)
        launch((g, x, weight, scale, made, lengths))
        return made

    return by_input


@silent
def norm_gradient(facts: CallFacts, name: str) -> tuple[Run | None, ...]:
    """Return functions for the gradients of layer_norm or rms_norm of this module, by g, input and
    weight, computed by the kernel `name`.
    """
    (rows, n), dtype = facts.shape, facts.dtype
    second = _second(name, rows, n, dtype)

    def by_all(given: Array, g: Array, x: Array, weight: Any, *others: Any) -> tuple[Any, ...]:
        *statistics, wanted = others
        u = g if weight is None else np.multiply(g, weight)
        by_u, by_x = second(given, u, x, *statistics)
        return _by_all(by_u, by_x, g, weight, 0, wanted)

    return by_all, None, None, None, None


def group_norm(facts: CallFacts) -> Run:
    """Return the function for the gradient of group norm by its input, with layer_norm's
    arguments.
    """
    found = small_groups.group_norm_gradient(_of_norm(facts))
    assert found is not None
    run, only_input = found[0], (True, False, False)
    assert run is not None

    def by_input(g: Array, x: Array, weight: Any, mean: Array, deviation: Array) -> Any:
        return run(g, (mean, deviation), x, weight, only_input)[0]

    return by_input


@silent
def group_norm_gradient(facts: CallFacts) -> tuple[Run | None, ...]:
    """Return the functions for the gradients of group_norm by g, input and weight."""
    shape, dtype, groups = facts.shape, facts.dtype, facts.numbers[0]
    rows = shape[0] * groups
    matrix, axes = (rows, math.prod(shape) // rows), _all_but_channels(shape)
    second, column = _second("small_norm_second", *matrix, dtype), (-1, *[1] * (len(shape) - 2))

    def by_all(
        given: Array, g: Array, x: Array, weight: Any, mean: Array, deviation: Array, wanted: Any
    ) -> tuple[Any, ...]:
        by_channel = None if weight is None else weight.reshape(column)
        u = g if by_channel is None else np.multiply(g, by_channel)
        by_u, by_x = second(given, u, x, mean, deviation)
        by_u, by_x = by_u.reshape(shape), by_x.reshape(shape)
        return _by_all(by_u, by_x, g, by_channel, axes, wanted)

    return by_all, None, None, None, None


@silent
def batch_norm(facts: CallFacts) -> Run:
    """Return the function for the gradient of batch norm by its input, from g, the input, the
    weight, and the channels' means and variances.
    """
    of_norm, only_input = _of_norm(facts), (True, False, False)
    suits = small_columns.suits_columns(of_norm)
    found = small_columns.batch_norm_gradient(of_norm) if suits else gradients_maker(of_norm)
    run = None if found is None else found[0]
    shape, dtype, (eps,) = facts.shape, facts.dtype, facts.numbers
    empty, channels = np.empty, shape[1]

    def by_input(g: Array, x: Array, weight: Any, mean: Array, variance: Array) -> Any:
        if run is not None:
            return run(g, (mean, variance), x, weight, only_input)[0]
        out, by_weight, by_bias = (
            empty(shape, dtype),
            empty(channels, dtype),
            empty(channels, dtype),
        )
        channels_gradients(g, x, weight, mean, variance, out, by_weight, by_bias, eps)
        return out

    return by_input


@silent
def batch_norm_gradient(facts: CallFacts) -> tuple[Run | None, ...]:
    """Return the functions for the gradients of batch_norm by g, input and weight. A row of the
    kernel is one channel of all samples.
    """
    shape, dtype, (eps,) = facts.shape, facts.dtype, facts.numbers
    samples, channels = shape[:2]
    places, axes = math.prod(shape[2:]), _all_but_channels(shape)
    seen, matrix = (samples, channels, places), (channels, samples * places)
    second, column = _second("small_norm_second", *matrix, dtype), (-1, *[1] * (len(shape) - 2))

    def in_rows(x: Array) -> Array:
        return np.ascontiguousarray(x.reshape(seen).swapaxes(0, 1))

    def in_samples(x: Array) -> Array:
        turned = x.reshape(channels, samples, places).swapaxes(0, 1)
        return np.ascontiguousarray(turned).reshape(shape)

    def by_all(
        given: Array, g: Array, x: Array, weight: Any, mean: Array, variance: Array, wanted: Any
    ) -> tuple[Any, ...]:
        by_channel = None if weight is None else weight.reshape(column)
        u = g if by_channel is None else np.multiply(g, by_channel)
        deviation = np.sqrt(np.add(variance, eps))
        by_u, by_x = second(in_rows(given), in_rows(u), in_rows(x), mean, deviation)
        by_u, by_x = in_samples(by_u), in_samples(by_x)
        return _by_all(by_u, by_x, g, by_channel, axes, wanted)

    return by_all, None, None, None, None


def reduction(facts: CallFacts, name: str) -> Run:
    """Return the function for the gradient of a reduction of rows, from g and the rows, by the
    kernel `name`.
    """
    shape, (n, *scale) = facts.shape, facts.numbers
    return small_rows.of_several(name, shape, facts.dtype, math.prod(shape) // n, n, *scale)


def reduction_gradient(facts: CallFacts, name: str) -> tuple[Run | None, ...]:
    """Return the functions for the second gradients of a reduction, by g and by the rows. The rows
    are the last argument.
    """
    shape, dtype, (n, *scale) = facts.shape, facts.dtype, facts.numbers
    final, empty, lengths = facts.shapes[0], np.empty, table(n)
    assert final is not None
    launch = bound(name, dtype, math.prod(shape) // n, n, *scale)

    def by_both(*given: Array) -> tuple[Array, Array]:
        if not in_order(*given):
            given = tuple(gapless(*given))
        by_g, by_x = empty(final, dtype), empty(shape, dtype)
        launch((*given, by_g, by_x, lengths))
        return by_g, by_x

    return by_both, *[None] * (len(facts.shapes) - 1)
