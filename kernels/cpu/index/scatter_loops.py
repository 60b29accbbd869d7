"""gather and scatter along one axis, compiled, for many elements.

Memory is the bottleneck, because each step accesses a distant address. Each loop stops at the first
index that is out of bounds, and returns this index: see Note [Indices that change] in bounds.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ..jit.compiler import compiled
from .bounds import outside
from .indices import INSIDE


@compiled("index_add")
def add_rows(into: Any, index: Any, x: Any) -> Any:
    """Add row i of the matrix x to row index[i] of the matrix `into`, in order."""
    for i in range(len(index)):
        place = np.uint64(index[i])
        if place >= np.uint64(len(into)):
            return outside(place)
        to, row = into[place], x[i]
        for j in range(len(to)):
            to[j] += row[j]
    return INSIDE


# Note [Four indices at a time]
# LLVM does not unroll a loop that may stop at each index. So loops along an axis load and check
# four indices, then use them in order. A second loop over single indices handles the remainder, and
# groups of four in which an index is out of bounds.


@compiled("gather")
def gather_lines(x: Any, index: Any, out: Any) -> Any:
    """Gather along the last axis of matrices."""
    end = np.uint64(x.shape[1])
    for o in range(index.shape[0]):
        line, places, to = x[o], index[o], out[o]
        k = 0
        while k < len(places) - 3:
            a, b = np.uint64(places[k]), np.uint64(places[k + 1])
            c, d = np.uint64(places[k + 2]), np.uint64(places[k + 3])
            if a >= end or b >= end or c >= end or d >= end:
                break
            to[k], to[k + 1], to[k + 2], to[k + 3] = line[a], line[b], line[c], line[d]
            k += 4
        while k < len(places):
            a = np.uint64(places[k])
            if a >= end:
                return outside(a)
            to[k] = line[a]
            k += 1
    return INSIDE


@compiled("gather")
def gather(x: Any, index: Any, out: Any) -> Any:
    for o in range(index.shape[0]):
        for k in range(index.shape[1]):
            for j in range(index.shape[2]):
                place = np.uint64(index[o, k, j])
                if place >= np.uint64(x.shape[1]):
                    return outside(place)
                out[o, k, j] = x[o, place, j]
    return INSIDE


@compiled(inline=True)
def _set(old: Any, new: Any) -> Any:
    return new


@compiled(inline=True)
def _add(old: Any, new: Any) -> Any:
    return old + new


@compiled(inline=True)
def _multiply(old: Any, new: Any) -> Any:
    return old * new


@compiled(inline=True)
def _larger(old: Any, new: Any) -> Any:
    return new if new > old or new != new else old


@compiled(inline=True)
def _smaller(old: Any, new: Any) -> Any:
    return new if new < old or new != new else old


_MEETINGS: Final = {
    "set": _set, "sum": _add, "mean": _add, "prod": _multiply, "amax": _larger, "amin": _smaller
}  # fmt: skip


@functools.cache
def scatter_lines(way: str) -> Callable[..., int]:
    """Return the loop that scatters along the last axis of matrices."""
    met = _MEETINGS[way]

    @compiled("scatter")
    def loop(index: Any, src: Any, out: Any) -> Any:
        end = np.uint64(out.shape[1])
        for o in range(index.shape[0]):
            places, given, line = index[o], src[o], out[o]
            k = 0
            # See Note [Four indices at a time].
            while k < len(places) - 3:
                a, b = np.uint64(places[k]), np.uint64(places[k + 1])
                c, d = np.uint64(places[k + 2]), np.uint64(places[k + 3])
                if a >= end or b >= end or c >= end or d >= end:
                    break
                line[a] = met(line[a], given[k])
                line[b] = met(line[b], given[k + 1])
                line[c] = met(line[c], given[k + 2])
                line[d] = met(line[d], given[k + 3])
                k += 4
            while k < len(places):
                a = np.uint64(places[k])
                if a >= end:
                    return outside(a)
                line[a] = met(line[a], given[k])
                k += 1
        return INSIDE

    return loop  # type: ignore[no-any-return]


@functools.cache
def scatter(way: str) -> Callable[..., int]:
    met = _MEETINGS[way]

    @compiled(alone=False)
    def slice_(src: Any, out: Any) -> None:
        for j in range(len(src)):
            out[j] = met(out[j], src[j])

    @compiled(alone=False)
    def row(index: Any, src: Any, out: Any) -> Any:
        end, k = np.uint64(len(out)), 0
        # See Note [Four indices at a time].
        while k < len(index) - 3:
            a, b = np.uint64(index[k]), np.uint64(index[k + 1])
            c, d = np.uint64(index[k + 2]), np.uint64(index[k + 3])
            if a >= end or b >= end or c >= end or d >= end:
                break
            out[a, k] = met(out[a, k], src[k])
            out[b, k + 1] = met(out[b, k + 1], src[k + 1])
            out[c, k + 2] = met(out[c, k + 2], src[k + 2])
            out[d, k + 3] = met(out[d, k + 3], src[k + 3])
            k += 4
        while k < len(index):
            a = np.uint64(index[k])
            if a >= end:
                return outside(a)
            out[a, k] = met(out[a, k], src[k])
            k += 1
        return INSIDE

    @compiled("scatter")
    def loop(index: Any, src: Any, out: Any) -> Any:
        for o in range(index.shape[0]):
            for k in range(index.shape[1]):
                if index.strides[2] == 0:  # one index for a whole slice, as in index_reduce
                    place = np.uint64(index[o, k, 0])
                    if place >= np.uint64(out.shape[1]):
                        return outside(place)
                    slice_(src[o, k], out[o, place])
                    continue
                found = row(index[o, k], src[o, k], out[o])
                if found != INSIDE:
                    return found
        return INSIDE

    return loop  # type: ignore[no-any-return]
