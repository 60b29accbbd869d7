"""Compiled loops of x[i, j] and x[i, j] = y, for many places that vectors name.

Vectors name places along adjoining axes: i and j along n and m of arrays (outer, n, m, width), or i
alone, where j is empty and m is 1. Such arrays must be views of what is indexed. An index below 0
counts from the end of its axis. Loops check as Note [Indices that change] in bounds.py has it, and
return the index that they refuse and its axis: 0, 1, or -1 if there is none.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ..jit.compiler import compiled
from .indices import INSIDE, refuse

Array = np.ndarray[Any, Any]


@compiled(inline=True)
def _from_begin(place: Any, length: Any) -> Any:
    """Return the unsigned place that an index names; it is at least length if it is outside."""
    return np.uint64(place + length if place < 0 else place)


@compiled("index")
def _take(x: Any, i: Any, j: Any, out: Any) -> Any:
    n, m, is_pair = np.int64(x.shape[1]), np.int64(x.shape[2]), len(j) > 0
    for o in range(x.shape[0]):
        for k in range(len(i)):
            first, second = i[k], np.int64(0)
            a, b = _from_begin(first, n), np.uint64(0)
            if a >= np.uint64(n):
                return first, 0
            if is_pair:
                second = j[k]
                b = _from_begin(second, m)
                if b >= np.uint64(m):
                    return second, 1
            if x.shape[3] == 1:
                out[o, k, 0] = x[o, a, b, 0]
            else:
                for t in range(x.shape[3]):
                    out[o, k, t] = x[o, a, b, t]
    return np.int64(INSIDE), -1


@compiled("index")
def _take_line(x: Any, i: Any, out: Any) -> Any:
    """Take from a vector: the same, and its launch costs less."""
    n = np.int64(len(x))
    for k in range(len(i)):
        first = i[k]
        a = _from_begin(first, n)
        if a >= np.uint64(n):
            return first, 0
        out[k] = x[a]
    return np.int64(INSIDE), -1


@compiled(inline=True)
def _new(old: Any, new: Any) -> Any:
    return new


@compiled(inline=True)
def _sum(old: Any, new: Any) -> Any:
    return old + new


def _putting(met: Any) -> Any:
    @compiled("index_put")
    def put(x: Any, i: Any, j: Any, out: Any) -> Any:
        n, m, is_pair = np.int64(out.shape[1]), np.int64(out.shape[2]), len(j) > 0
        for o in range(out.shape[0]):
            for k in range(len(i)):
                first, second = i[k], np.int64(0)
                a, b = _from_begin(first, n), np.uint64(0)
                if a >= np.uint64(n):
                    return first, 0
                if is_pair:
                    second = j[k]
                    b = _from_begin(second, m)
                    if b >= np.uint64(m):
                        return second, 1
                row = k if x.shape[1] > 1 else 0  # or one row for all places
                if out.shape[3] == 1:
                    out[o, a, b, 0] = met(out[o, a, b, 0], x[o, row, 0])
                else:
                    for t in range(out.shape[3]):
                        out[o, a, b, t] = met(out[o, a, b, t], x[o, row, t])
        return np.int64(INSIDE), -1

    return put


def _putting_in_line(met: Any) -> Any:
    @compiled("index_put")
    def put(x: Any, i: Any, out: Any) -> Any:
        """Put into a vector: the same, by a loop of fewer instructions."""
        n = np.int64(len(out))
        for k in range(len(i)):
            first = i[k]
            a = _from_begin(first, n)
            if a >= np.uint64(n):
                return first, 0
            out[a] = met(out[a], x[k])
        return np.int64(INSIDE), -1

    return put


_write, _add = _putting(_new), _putting(_sum)
_write_line, _add_line = _putting_in_line(_new), _putting_in_line(_sum)


@compiled("index_put")
def _first_outside(i: Any, length: Any) -> Any:
    """Return the number of the first index that an axis of a length does not have, or -1."""
    found: Any = False
    for k in range(len(i)):
        found |= np.uint64(i[k]) + np.uint64(length) >= np.uint64(2 * length)
    if found:
        for k in range(len(i)):
            if np.uint64(i[k]) + np.uint64(length) >= np.uint64(2 * length):
                return k
    return -1


@compiled("index")
def _join(i: Any, j: Any, n: Any, m: Any, own: Any) -> Any:
    """Write the places that i and j name along axes of n and m, made one axis, into own."""
    for k in range(len(i)):
        first, second = i[k], j[k]
        a, b = _from_begin(first, n), _from_begin(second, m)
        if a >= np.uint64(n):
            return first, 0
        if b >= np.uint64(m):
            return second, 1
        own[k] = np.int64(a) * m + np.int64(b)
    return np.int64(INSIDE), -1


class Pair:
    """Vectors of places along adjoining axes of an array, as the loops take them."""

    def __init__(self, vectors: list[Array], first_axis: int, shape: tuple[int, ...]) -> None:
        self.end = first_axis + len(vectors)
        self.outer, self.width = math.prod(shape[:first_axis]), math.prod(shape[self.end :])
        self._first, self._shape = first_axis, shape
        lengths = list(shape[first_axis : self.end])
        while len(vectors) > 2:
            axis = len(vectors) - 2
            own = np.empty(vectors[0].size, np.int64)
            self._require(_join(*vectors[axis:], *lengths[axis:], own), axis)
            vectors = [*vectors[:axis], own]
            lengths[axis:] = [math.prod(lengths[axis:])]
        self.count = vectors[0].size
        self.i, self.j = vectors if len(vectors) == 2 else (*vectors, np.empty(0, np.int64))
        self.n, self.m = lengths if len(lengths) == 2 else (lengths[0], 1)

    def _require(self, met: tuple[int, int], axis: int = 0) -> None:
        """Raise OutOfBounds for the index that a loop refused."""
        index, refused = met
        if refused >= 0:
            at = self._first + axis + refused
            refuse(index, self._shape[at], at)

    def run(self, loop: Callable[..., Any], x: Array, out: Array) -> None:
        """Run a loop that reads x and writes out.

        Raises  OutOfBounds
        """
        self._require(loop(x, self.i, self.j, out))

    def require_inside(self) -> None:
        """Raise OutOfBounds, before anything is written, for an index that is outside now."""
        for axis, (vector, length) in enumerate(((self.i, self.n), (self.j, self.m))):
            at = _first_outside(vector, length)
            if at >= 0:
                self._require((int(vector[at]), axis))


_UNSIGNED: Final = {size: np.dtype(f"u{min(size, 8)}") for size in (1, 2, 4, 8, 16)}


def _bits(x: Array) -> Array:
    """Return x with its numbers seen as unsigned integers; complex128, in C order, as two each."""
    return x.view(_UNSIGNED[x.dtype.itemsize])


def _rows(x: Array, shape: tuple[int, ...], pair: Pair) -> Array:
    """Return x, which broadcasts to shape, as (outer, count or 1, width) in C order."""
    if x.size == 1:
        return np.full((pair.outer, 1, pair.width), x.reshape(()))
    whole = np.ascontiguousarray(x if x.shape == shape else np.broadcast_to(x, shape))
    return whole.reshape(pair.outer, pair.count, pair.width)


def take_line(x: Array, written: Array, places: Array) -> None:
    """Copy what places name in the vector x to written; both of these in C order.

    Raises  OutOfBounds
    """
    index, refused = _take_line(_bits(x), places.reshape(-1), _bits(written).reshape(-1))
    if refused >= 0:
        refuse(index, len(x), 0)


def put_line(x: Array, written: Array, places: Array, *, add: bool) -> None:
    """Write or add x, which has the shape of places, at what these name in the vector written; all
    in C order.

    Raises  OutOfBounds; nothing is written unless an index changes during the call
    """
    line, names = x.reshape(-1), places.reshape(-1)
    at = _first_outside(names, len(written))
    if at >= 0:
        refuse(int(names[at]), len(written), 0)
    if add:
        index, refused = _add_line(line, names, written)
    else:
        index, refused = _write_line(_bits(line), names, _bits(written))
    if refused >= 0:
        refuse(index, len(written), 0)


def take(x: Array, written: Array, vectors: list[Array], first_axis: int) -> None:
    """Copy what vectors name along x's axes, from first_axis on, to written, which is in C order.

    Raises  OutOfBounds
    """
    pair = Pair(vectors, first_axis, x.shape)
    read = _bits(x.reshape(pair.outer, pair.n, pair.m, pair.width))
    pair.run(_take, read, _bits(written.reshape(pair.outer, pair.count, pair.width)))


def put(
    x: Array,
    written: Array,
    vectors: list[Array],
    first_axis: int,
    shape: tuple[int, ...],
    *,
    add: bool,
) -> None:
    """Write or add x at what vectors name along written's axes, from first_axis on; x
    broadcasts to shape, the shape of the indexed part.

    Raises  OutOfBounds; nothing is written unless an index changes during the call
    """
    pair = Pair(vectors, first_axis, written.shape)
    pair.require_inside()
    given, to = _rows(x, shape, pair), written.reshape(pair.outer, pair.n, pair.m, pair.width)
    if add:
        pair.run(_add, given, to)
    else:
        pair.run(_write, _bits(given), _bits(to))
