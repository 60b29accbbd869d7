"""Copies of few numbers: unchanged, cast to another dtype, or selected by an index."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from fastdist.core.dtypes import FLOAT8

from ..index.indices import MANY, require_inside
from ..memory import LINES_FROM
from ..shape.copying import BITS, bits_of_triangle
from .call_facts import LIMIT, Array, CallFacts, Run, Shape, small

# The largest number of indices here; for more, compiled loops are used, see index/indices.py.
_FEW_PLACES: Final = MANY - 1
# A table of positions for more elements would take too much memory.
_FEW_MOVED: Final = 1024
_WRITTEN: Final = (np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.int64))


@small("shape.copying.cast")
def _cast(facts: CallFacts) -> Run | None:
    shape = facts.shapes[0]
    if not shape or math.prod(shape) > LIMIT:
        return None
    dtype = facts.dtype
    if dtype == facts.dtypes[0]:
        return np.ndarray.copy
    if dtype in FLOAT8 or facts.dtypes[0] in FLOAT8:
        return None
    return lambda x: x.astype(dtype, "C")


@small("shape.copying.place")
def _place(facts: CallFacts) -> Run | None:
    shape, dtype, (index, value) = facts.shape, facts.dtype, facts.numbers
    if math.prod(shape) * dtype.itemsize >= LINES_FROM or facts.dtypes[0] != dtype:
        return None
    empty = np.empty

    def place(x: Any) -> Any:
        out = empty(shape, dtype)
        out.fill(value)
        out[index] = x
        return out

    return place


@small("shape.copying.roll", "shape.copying.flip")
def _moved(facts: CallFacts) -> Run | None:
    """Return the function that takes elements by a table of flat positions."""
    shape = facts.shapes[0]
    if not shape or not 0 < math.prod(shape) <= _FEW_MOVED:
        return None
    table = np.arange(math.prod(shape)).reshape(shape)
    if len(facts.numbers) == 1:
        table = np.ascontiguousarray(np.flip(table, *facts.numbers))
    else:
        shifts, axes = facts.numbers
        table = np.roll(table, shifts[0] if axes is None else shifts, axes)
    return lambda x: x.take(table)


@small("shape.copying.triangle")
def _triangle(facts: CallFacts) -> Run | None:
    dtype, kind = facts.dtype, BITS.get(facts.dtype.itemsize)
    if kind is None or not facts.contiguous[0] or not 0 < math.prod(facts.shape) <= LIMIT:
        return None
    if facts.dtypes[0] != dtype or dtype in FLOAT8:
        return None
    (rows, columns), (diagonal, upper) = facts.shape[-2:], facts.numbers
    bits, keep = bits_of_triangle(rows, columns, diagonal, upper, kind), np.bitwise_and
    return lambda x: keep(x.view(kind), bits).view(dtype)


@small("shape.copying.place_diagonal")
def _place_diagonal(facts: CallFacts) -> Run | None:
    shape, given, (offset, dim1, dim2) = facts.shape, facts.shapes[0], facts.numbers
    if not given or len(shape) != 2 or not 0 < math.prod(shape) <= LIMIT or (dim1, dim2) != (0, 1):
        return None
    columns, dtype, empty = shape[1], facts.dtype, np.empty
    start = offset if offset > 0 else -offset * columns
    part = slice(start, start + given[0] * (columns + 1), columns + 1)

    def place_diagonal(x: Any) -> Any:
        out = empty(shape, dtype)
        out.fill(0)
        out.ravel()[part] = x
        return out

    return place_diagonal


@small("index.indexing.select")
def _select(facts: CallFacts) -> Run | None:
    shape, (axis,) = facts.shapes[0], facts.numbers
    if not shape or not shape[axis] or 0 in facts.shape or math.prod(facts.shape) > LIMIT:
        return None
    length = shape[axis]

    def select(x: Any, index: Any) -> Any:
        require_inside(index, length, axis)
        return x.take(index, axis)

    return select


def _flat_places(facts: CallFacts) -> Run | None:
    """Return the function that converts an index along an axis to flat indices in a contiguous copy
    of the first input. The function returns a new array, which no other code can change.
    """
    shape, wanted, (axis,) = facts.shapes[0], facts.shapes[1], facts.numbers
    if not (shape and wanted and facts.contiguous[0] and facts.dtypes[0] == facts.dtype):
        return None
    if facts.dtype not in _WRITTEN or not 0 < math.prod(wanted) <= _FEW_PLACES:
        return None
    if not 0 < math.prod(shape) <= LIMIT:
        return None
    steps = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
    starts, step, length = _starts(wanted, tuple(steps), axis), np.int64(steps[axis]), shape[axis]
    if step == 1:

        def places(index: Array) -> Array:
            require_inside(index, length, axis)
            return index + starts

        return places

    def places_apart(index: Array) -> Array:
        require_inside(index, length, axis)
        own = index * step
        own += starts
        return own

    return places_apart


def _starts(shape: Shape, steps: Shape, axis: int) -> Array:
    """Return, for each element of an index of this shape, the flat offset of the line along `axis`
    to which the element refers.
    """
    starts = np.zeros(shape, np.int64)
    for i, (n, step) in enumerate(zip(shape, steps, strict=True)):
        if i != axis:
            starts += (np.arange(n) * step).reshape(
                [-1 if j == i else 1 for j in range(len(shape))]
            )
    return starts


def _cut(shape: Shape | None, wanted: Shape | None) -> tuple[slice, ...] | None:
    """Return the slices of a source that the index covers; None if it covers all of the source."""
    assert shape is not None and wanted is not None
    return None if shape == wanted or not shape else tuple([slice(n) for n in wanted])


@small("index.indexing.gather")
def _gather(facts: CallFacts) -> Run | None:
    places = _flat_places(facts)
    return None if places is None else lambda x, index: x.take(places(index))


@small("index.indexing.scatter")
def _scatter(facts: CallFacts) -> Run | None:
    places = _flat_places(facts)
    if places is None:
        return None
    part = _cut(facts.shapes[2], facts.shapes[1])

    def scatter(x: Array, index: Array, src: Array) -> Array:
        out = x.copy()
        out.ravel()[places(index)] = src if part is None else src[part]
        return out

    return scatter


@small("index.indexing.scatter_add")
def _scatter_add(facts: CallFacts) -> Run | None:
    places = _flat_places(facts)
    if places is None or not facts.shapes[2]:
        return None
    part, add_at = _cut(facts.shapes[2], facts.shapes[1]), np.add.at

    def scatter_add(x: Array, index: Array, src: Array) -> Array:
        out = x.copy()
        # For vectors, NumPy adds at indices four times as fast as for other arrays.
        given = (src if part is None else src[part]).ravel()
        add_at(out.ravel(), places(index).ravel(), given)
        return out

    return scatter_add
