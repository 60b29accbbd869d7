"""Compiled loops of x[i, j] and x[i, j] = y, for long vectors of indices.

The vectors i and j index adjacent axes: those of lengths n and m of arrays (outer, n, m, width). If
only one axis is indexed, j is empty and m = 1. The arrays must be views of the indexed tensor. A
negative index counts from the end of its axis. Loops check indices as described in Note [Indices
that change] in bounds.py. They return the index that is out of bounds and its axis, 0 or 1; the
axis is -1 if all indices are in bounds.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..jit.compiler import compiled
from .indices import INSIDE


@compiled(inline=True)
def _from_begin(place: Any, length: Any) -> Any:
    """Return the position, as an unsigned number, that the index `place` means. The position is at
    least `length` if the index is out of bounds.
    """
    return np.uint64(place + length if place < 0 else place)


@compiled("index")
def take(x: Any, i: Any, j: Any, out: Any) -> Any:
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
def take_line(x: Any, i: Any, out: Any) -> Any:
    """Do the same as `take` for a vector, with a cheaper launch."""
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
                row = k if x.shape[1] > 1 else 0  # x may have one row for all indices
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
        """Combine x with the elements of the vector `out` at i; for vectors, fewer instructions are
        needed than for other arrays.
        """
        n = np.int64(len(out))
        for k in range(len(i)):
            first = i[k]
            a = _from_begin(first, n)
            if a >= np.uint64(n):
                return first, 0
            out[a] = met(out[a], x[k])
        return np.int64(INSIDE), -1

    return put


write, add = _putting(_new), _putting(_sum)
write_line, add_line = _putting_in_line(_new), _putting_in_line(_sum)


@compiled("index_put")
def first_outside(i: Any, length: Any) -> Any:
    """Return the position in i of the first index that is out of bounds, or -1."""
    found: Any = False
    for k in range(len(i)):
        found |= np.uint64(i[k]) + np.uint64(length) >= np.uint64(2 * length)
    if found:
        for k in range(len(i)):
            if np.uint64(i[k]) + np.uint64(length) >= np.uint64(2 * length):
                return k
    return -1


@compiled("index")
def join(i: Any, j: Any, n: Any, m: Any, own: Any) -> Any:
    """Merge the indices i and j of axes of lengths n and m to indices of one axis, in `own`."""
    for k in range(len(i)):
        first, second = i[k], j[k]
        a, b = _from_begin(first, n), _from_begin(second, m)
        if a >= np.uint64(n):
            return first, 0
        if b >= np.uint64(m):
            return second, 1
        own[k] = np.int64(a) * m + np.int64(b)
    return np.int64(INSIDE), -1
