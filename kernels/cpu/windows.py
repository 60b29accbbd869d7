"""The largest element of each window, and moving elements from where it stood and back, on the CPU.

x has one, two or three axes of space last; what comes before is planes. `windows` says of each axis
of space (kernel, stride, padding, dilation) of its windows, or (0, 0, 0, 0) where they are even
parts: window i of n then goes from floor(i * length / n) to ceil((i + 1) * length / n). A place
counts through the space of a plane in C order.
"""

from __future__ import annotations

import functools
from typing import Any, Final

import numpy as np

from .compiler import compiled
from .machine import select

Array = np.ndarray[Any, Any]
Windows = tuple[tuple[int, int, int, int], ...]


def _planes(x: Array, axes: int) -> Array:
    """Return x as (planes, depth, height, width) without gaps; missing axes have length 1."""
    planes = int(np.prod(x.shape[: x.ndim - axes], dtype=np.int64))
    return np.ascontiguousarray(x).reshape(planes, *[1] * (3 - axes), *x.shape[x.ndim - axes :])


def _flat(x: Array, axes: int) -> Array:
    """Return x as (planes, places) without gaps."""
    shape = x.shape[: x.ndim - axes], x.shape[x.ndim - axes :]
    return np.ascontiguousarray(x).reshape([int(np.prod(one, dtype=np.int64)) for one in shape])


def _three(windows: Windows) -> Array:
    return np.array([(1, 1, 0, 1)] * (3 - len(windows)) + list(windows), np.int64)


@compiled(inline=True)
def _window(i: Any, length: Any, count: Any, one: Any) -> Any:
    """Return (first, end, step) of the places of window i inside an axis."""
    if one[0] == 0:
        return i * length // count, ((i + 1) * length + count - 1) // count, np.int64(1)
    first = i * one[1] - one[2]
    end = min(first + (one[0] - 1) * one[3] + 1, length)
    if first < 0:
        first += (-first + one[3] - 1) // one[3] * one[3]
    return first, end, one[3]


@compiled(alone=False)
def _one_by_one(
    space: Any, d: Any, h: Any, begin: Any, end: Any, best: Any, places: Any, windows: Any, low: Any
) -> None:
    """Make outputs begin to end of a row, one after the other."""
    height, width = space.shape[1], space.shape[2]
    for ow in range(begin, end):
        left, right, step = _window(ow, width, len(best), windows[2])
        top, place = low, (d[0] * height + h[0]) * width + min(left, width - 1)
        for i in range(d[0], d[1], d[2]):
            for j in range(h[0], h[1], h[2]):
                row = space[i, j]
                for k in range(left, right, step):
                    if row[k] > top or row[k] != row[k]:
                        top, place = row[k], (i * height + j) * width + k
        best[ow], places[ow] = top, place


@compiled(inline=True)
def _larger(value: Any, place: Any, top: Any, near: Any) -> Any:
    # Without a branch, and places in 32 bits, so that a vector holds as many as of elements.
    larger = (value > top) | (value != value)  # NaN wins, the last one of several
    return select(larger, value, top), select(larger, np.int32(place), near)


@functools.cache
def _loop(rows: int, columns: int, stride: int) -> Any:
    """Return the loop over all windows, which makes those of rows x columns elements at this stride
    many at once where they lie inside; rows 0 stands for windows of any other kind.
    """

    @compiled(alone=False)
    def inside(flat: Any, at: Any, width: Any, best: Any, places: Any) -> None:
        a, b, c = flat[at:], flat[at + min(rows - 1, 1) * width :], flat[at + (rows - 1) * width :]
        w = np.int32(width)
        # Written out: LLVM unrolls inner loops too late to make neighbours at once.
        for ow in range(len(best)):
            i = ow * stride
            top, near = a[i], np.int32(0)
            top, near = _larger(a[i + 1], np.int32(1), top, near)
            if columns == 3:
                top, near = _larger(a[i + 2], np.int32(2), top, near)
            if rows > 1:
                top, near = _larger(b[i], w, top, near)
                top, near = _larger(b[i + 1], w + np.int32(1), top, near)
                if columns == 3:
                    top, near = _larger(b[i + 2], w + np.int32(2), top, near)
            if rows > 2:
                top, near = _larger(c[i], np.int32(2) * w, top, near)
                top, near = _larger(c[i + 1], np.int32(2) * w + np.int32(1), top, near)
                top, near = _larger(c[i + 2], np.int32(2) * w + np.int32(2), top, near)
            best[ow] = top
            places[ow] = at + near + i

    @compiled()
    def largest(x: Any, out: Any, places: Any, windows: Any, low: Any) -> None:
        planes, depth, height, width = x.shape
        count = out.shape[3]
        for p in range(planes):
            for od in range(out.shape[1]):
                first, end, step = _window(od, depth, out.shape[1], windows[0])
                d = (min(first, depth - 1), end, step)
                for oh in range(out.shape[2]):
                    first, end, step = _window(oh, height, out.shape[2], windows[1])
                    h = (min(first, height - 1), end, step)
                    best, theirs, begin = out[p, od, oh], places[p, od, oh], count
                    if rows and end - first == rows:
                        begin = min((windows[2, 2] + stride - 1) // stride, count)
                        inner = min((width - columns + windows[2, 2]) // stride + 1, count)
                        inner = max(inner, begin)
                        _one_by_one(x[p], d, h, 0, begin, best, theirs, windows, low)
                        at = (d[0] * height + h[0]) * width + begin * stride - windows[2, 2]
                        inside(x[p].ravel(), at, width, best[begin:inner], theirs[begin:inner])
                        _one_by_one(x[p], d, h, inner, count, best, theirs, windows, low)
                    else:
                        _one_by_one(x[p], d, h, 0, count, best, theirs, windows, low)

    return largest


# Those of most models: rows, columns, stride.
_USUAL: Final = {(2, 2, 2), (3, 3, 2), (3, 3, 1), (1, 2, 2), (1, 3, 2)}


def _loop_for(windows: Array, plane: int) -> Any:
    (deep, *_), (rows, *_), (columns, stride, _, dilation) = windows.tolist()
    usual = (rows, columns, stride) in _USUAL and deep == dilation == 1 and plane < 1 << 31
    return _loop(rows, columns, stride) if usual and windows[1, 3] == 1 else _loop(0, 0, 1)


def largest(x: Array, out: Array, places: Array, windows: Windows) -> None:
    """Write the largest element of each window into out, and where it stands into places.

    NaN is larger than all. A window that lies in the padding alone gives the lowest number. float16
    is compared in float32.
    """
    axes = len(windows)
    wide = x.astype(np.float32) if x.dtype == np.float16 else x
    result = np.empty(out.shape, np.float32) if wide is not x else out
    low = -np.inf if wide.dtype.kind == "f" else np.iinfo(wide.dtype).min
    outs = [_planes(one, axes) for one in (result, places)]
    planes, three = _planes(wide, axes), _three(windows)
    _loop_for(three, planes[:1].size)(planes, *outs, three, wide.dtype.type(low))
    if result is not out:
        np.copyto(out, result)


@compiled()
def _pick(x: Any, places: Any, out: Any) -> None:
    for p in range(out.shape[0]):
        for i in range(out.shape[1]):
            out[p, i] = x[p, places[p, i]]


def pick(x: Array, places: Array, out: Array, windows: Windows) -> None:
    """Write the elements of x that stand at places of each plane into out."""
    axes = len(windows)
    if x.dtype == np.float16:
        _pick(_flat(x, axes).view(np.int16), _flat(places, axes), _flat(out, axes).view(np.int16))
    else:
        _pick(*[_flat(one, axes) for one in (x, places, out)])


@compiled()
def _spread(x: Any, places: Any, out: Any) -> None:
    for p in range(out.shape[0]):
        row = out[p]
        row[:] = 0
        for i in range(places.shape[1]):
            row[places[p, i]] += x[p, i]


def spread(x: Array, places: Array, out: Array, windows: Windows) -> None:
    """Write zeros into out and add x at places of each plane, each of which stands in the window
    that its own position names: the adjoint of pick.
    """
    axes = len(windows)
    wide = out if out.dtype != np.float16 else np.empty(out.shape, np.float32)
    _spread(_flat(x.astype(wide.dtype, copy=False), axes), _flat(places, axes), _flat(wide, axes))
    if wide is not out:
        np.copyto(out, wide, casting="unsafe")
