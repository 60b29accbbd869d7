"""Max pooling, its gradients, and weighted sums of neighbors, for small arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..index.indices import INSIDE, refuse
from ..jit.array_objects import ARRAY, gapless
from ..jit.background import is_numpys_turn
from ..nn import weighted_neighbours
from ..nn.windows import Windows, compiled, largest_by_numpy, loop_for, spread, three_axes
from .call_facts import CallFacts, Run, small

Array = np.ndarray[Any, Any]


def _in_space(shape: tuple[int, ...], windows: Windows) -> tuple[int, ...]:
    """Return a shape as (planes, depth, height, width); missing axes have length 1."""
    axes = len(windows)
    lead = shape[: len(shape) - axes]
    return math.prod(lead), *[1] * (3 - axes), *shape[len(shape) - axes :]


@small("nn.windows.largest")
def _largest(facts: CallFacts) -> Run | None:
    given, (windows,), dtype, shape = facts.shapes[0], facts.numbers, facts.dtypes[0], facts.shape
    if given is None or not facts.contiguous[0] or facts.dtype != dtype or not math.prod(given):
        return None
    seen, made, whole, empty = (
        _in_space(given, windows),
        _in_space(shape, windows),
        np.int64,
        np.empty,
    )
    three = three_axes(windows)
    kind = loop_for(three, math.prod(seen[1:]), dtype.name)
    low = dtype.type(-np.inf if dtype.kind == "f" else np.iinfo(dtype).min)
    words = np.array([seen, made, *three], np.int64)
    loop: Any = None

    def run(x: Array) -> tuple[Array, Array]:
        nonlocal loop
        out, places = empty(shape, dtype), empty(shape, whole)
        if type(x) is not ARRAY:
            (x,) = gapless(x)
        if loop is None:
            if is_numpys_turn(compiled, "entry", *kind):
                largest_by_numpy(
                    x.reshape(seen), out.reshape(made), places.reshape(made), three, low
                )
                return out, places
            loop = compiled("entry", *kind)
        loop(id(x), id(out), id(places), id(words), low)
        return out, places

    return run


@small("nn.windows.spread")
def _spread(facts: CallFacts) -> Run | None:
    (windows,), shape, dtype = facts.numbers, facts.shape, facts.dtype
    if not all(facts.contiguous) or facts.dtypes[0] != dtype or not math.prod(shape):
        return None
    of_x, space = facts.shapes[0], shape[len(shape) - len(windows) :]
    assert of_x is not None
    planes, empty, kind = math.prod(shape) // math.prod(space), np.empty, (dtype, facts.dtypes[1])
    from_, to = (planes, math.prod(of_x) // planes), (planes, math.prod(space))
    loop: Any = None

    def run(x: Array, places: Array) -> Array:
        nonlocal loop
        out = empty(shape, dtype)
        if loop is None:
            if is_numpys_turn(compiled, "spreading", *kind):
                spread(x, places, out, windows)
                return out
            loop = compiled("spreading", *kind)
        if loop(x.reshape(from_), places.reshape(from_), out.reshape(to)) != INSIDE:
            spread(x, places, out, windows)  # this raises the error
        return out

    return run


@small("nn.weighted_neighbours.weigh")
def _weigh(facts: CallFacts) -> Run | None:
    (taps,), shape, dtype = facts.numbers, facts.shape, facts.dtype
    if not (facts.small and math.prod(shape) > 0 and dtype == facts.dtypes[0]):
        return None
    of_x, axes, empty = facts.shapes[0], len(taps), np.empty
    assert of_x is not None
    ones = (1,) * (3 - axes)
    before, after = of_x[len(of_x) - axes :], shape[len(shape) - axes :]
    seen, made = (-1, *ones, *before), (-1, *ones, *after)
    kind = facts.dtypes[0], dtype, facts.dtypes[2], facts.dtypes[1]
    # The tables of the last call, and their parts by axis. Usually the next call has the same
    # tables.
    known: tuple[Any, ...] = None, None, None
    is_ready = False

    def run(x: Array, table: Array, weights: Array) -> Array:
        nonlocal known, is_ready
        out = empty(shape, dtype)
        if not is_ready:
            if is_numpys_turn(weighted_neighbours.compile_loop, *kind):
                weighted_neighbours.weigh(x, table, weights, out, taps)
                return out
            is_ready = True
        own, by, parts = known
        if own is not table or by is not weights:
            parts = weighted_neighbours.parts_of(table, weights, ones + after, ones + taps)
            known = table, weights, parts
        found, axis = weighted_neighbours.loops.weigh(x.reshape(seen), out.reshape(made), *parts)
        if axis:
            refuse(found, (*ones, *before)[axis - 1], axis)
        return out

    return run
