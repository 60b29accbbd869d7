"""The loops of windows.py, compiled: maxima of windows, and gather and scatter by positions."""

from __future__ import annotations

import functools
from typing import Any, Final

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.np.numpy_support import from_dtype

from ..index.bounds import outside
from ..index.indices import INSIDE
from ..jit.array_objects import HEADER
from ..jit.compiler import compiled, entry_point
from ..jit.machine import LOAD, STORE, intrinsic, select
from ..jit.vectors import INT32, INT64, Vectors

_get: Final = LOAD["int64"]


@compiled(inline=True)
def _four(words: Any) -> Any:
    return _get(words, 0), _get(words, 1), _get(words, 2), _get(words, 3)


@compiled(inline=True)
def _lesser(a: Any, b: Any) -> Any:
    # Python's min is not used, because Numba compiles a separate function for each use of it.
    return select(a < b, a, b)


@compiled(inline=True)
def _window(i: Any, length: Any, count: Any, one: Any) -> Any:
    """Return (first, end, step) of the positions of window i within an axis."""
    if one[0] == 0:
        return i * length // count, ((i + 1) * length + count - 1) // count, np.int64(1)
    first = i * one[1] - one[2]
    end = _lesser(first + (one[0] - 1) * one[3] + 1, length)
    if first < 0:
        first += (-first + one[3] - 1) // one[3] * one[3]
    return first, end, one[3]


def _neighbours(rows: int, columns: int, stride: int, lanes: int) -> Any:
    """Return the function that computes the outputs of `lanes` adjacent windows at once."""

    @intrinsic
    def make(
        typingctx: Any, x: Any, best: Any, places: Any, width: Any, place: Any, low: Any
    ) -> Any:
        """Write the maxima of the windows to the address `best`, and the maxima's positions to
        `places`. The first window begins at the address x, whose position in the plane is `place`.
        The type of `low` is the elements' type.
        """

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            address, best, places, width, place, low = args
            elements = Vectors(builder, low.type, lanes)
            # Positions relative to a window have 32 bits: a vector has as many of them as elements.
            nears, wheres = Vectors(builder, INT32, lanes), Vectors(builder, INT64, lanes)
            line, near_line = address, ir.Constant(INT32, 0)
            top = near = None
            for _ in range(rows):
                for column in range(columns):
                    value = elements.load(elements.moved(line, column), stride)
                    here = nears.splat(builder.add(near_line, ir.Constant(INT32, column)))
                    if top is None:
                        top, near = value, here
                        continue
                    larger = _is_larger(builder, value, top, signature.args[5])
                    top = builder.select(larger, value, top)
                    near = builder.select(larger, here, near)
                line = elements.behind(line, width)
                near_line = builder.add(near_line, builder.trunc(width, INT32))
            elements.store(top, best)
            first = builder.add(
                wheres.splat(place), wheres.constant(range(0, lanes * stride, stride))
            )
            wheres.store(builder.add(first, builder.sext(near, wheres.type)), places)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 5, low), codegen

    return make


def _is_larger(builder: Any, value: Any, top: Any, element: Any) -> Any:
    if isinstance(element, types.Float):
        larger = builder.fcmp_ordered(">", value, top)
        return builder.or_(larger, builder.fcmp_unordered("uno", value, value))
    return (builder.icmp_signed if element.signed else builder.icmp_unsigned)(">", value, top)


# Lines are short. With array arguments Numba counts references at each call, which takes longer
# than computing a line. So all functions for parts of lines take addresses.
def _one_by_one(dtype: str) -> Any:
    """Return the function that computes the outputs of a line one after the other."""
    load, store, store_place = LOAD[dtype], STORE[dtype], STORE["int64"]

    @compiled(inline=True)
    def one_by_one(
        flat: Any, sizes: Any, d: Any, h: Any, before: Any, left_out: Any, best: Any, places: Any,
        across: Any, low: Any,
    ) -> None:  # fmt: skip
        height, width, count = sizes
        for number in range(count - left_out):
            ow = select(number < before, number, number + left_out)
            left, right, step = _window(ow, width, count, across)
            top, place = low, (d[3] * height + h[3]) * width + _lesser(left, width - 1)
            for i in range(d[0], d[1], d[2]):
                for j in range(h[0], h[1], h[2]):
                    line = (i * height + j) * width
                    for k in range(left, right, step):
                        value = load(flat, line + k)
                        if value > top or value != value:
                            top, place = value, line + k
            store(best, ow, top)
            store_place(places, ow, place)

    return one_by_one


def _side_by_side(rows: int, columns: int, stride: int) -> Any:
    """Return the function that computes a line of outputs, several at once, for windows inside the
    image.

    A line must have at least four such outputs. The last vector overlaps the one before it.
    """
    eight, four = [_neighbours(rows, columns, stride, lanes) for lanes in (8, 4)]

    @compiled(inline=True)
    def inside(
        x: Any, best: Any, places: Any, size: Any, width: Any, place: Any, count: Any, low: Any
    ) -> None:
        lanes = 8 if count >= 8 else 4
        for begin in range(0, count, lanes):
            n = _lesser(begin, count - lanes)
            at = n * stride
            if lanes == 8:
                eight(x + at * size, best + n * size, places + n * 8, width, place + at, low)
            else:
                four(x + at * size, best + n * size, places + n * 8, width, place + at, low)

    return inside


@functools.cache
def _loop(rows: int, columns: int, stride: int, dtype: str) -> Any:
    """Return the loop over all windows, of rows x columns elements at this stride. It computes
    several windows inside the image at once. rows = 0 means windows of any other kind.
    """
    one_by_one, inside = _one_by_one(dtype), _side_by_side(rows, columns, stride)
    size = np.dtype(dtype).itemsize

    @compiled("max_pool")
    def largest(x: Any, out: Any, places: Any, words: Any, low: Any) -> None:
        # See Note [Reading array objects] in array_objects.py.
        flat, best, theirs = _get(x + HEADER, 0), _get(out + HEADER, 0), _get(places + HEADER, 0)
        words = _get(words + HEADER, 0)
        planes, depth, height, width = _four(words)
        _, lines_d, lines_h, count = _four(words + 32)
        deep, down, across = _four(words + 64), _four(words + 96), _four(words + 128)
        sizes = (height, width, count)
        begin = inner = count
        if rows:
            begin = _lesser((across[2] + stride - 1) // stride, count)
            inner = _lesser((width - columns + across[2]) // stride + 1, count)
            if inner - begin < 4:
                begin = inner = count
        for _ in range(planes):
            for od in range(lines_d):
                first, end, by = _window(od, depth, lines_d, deep)
                d = (first, end, by, _lesser(first, depth - 1))
                for oh in range(lines_h):
                    first, end, by = _window(oh, height, lines_h, down)
                    h = (first, end, by, _lesser(first, height - 1))
                    left, right = count, count
                    if rows and end - first == rows:
                        left, right = begin, inner
                        place = (d[0] * height + h[0]) * width + begin * stride - across[2]
                        at, to, many = flat + place * size, best + begin * size, inner - begin
                        inside(at, to, theirs + begin * 8, size, width, place, many, low)
                    # One call computes the left and the right border, so that the inlined loop is
                    # compiled only once.
                    one_by_one(flat, sizes, d, h, left, right - left, best, theirs, across, low)
                    best += count * size
                    theirs += count * 8
            flat += depth * height * width * size

    return largest


def entry(rows: int, columns: int, stride: int, dtype: str) -> Any:
    """Return largest(x, out, places, words, low): the compiled loop over windows of rows x columns
    elements at this stride, or over windows of any kind if rows is 0. The first four arguments are
    the ids of arrays; low is the lowest number of the dtype. words has the shapes of x and out,
    (planes, depth, height, width), and the windows of three axes.
    """
    loop = _loop(rows, columns, stride, dtype)
    return entry_point(loop, (*[types.int64] * 4, getattr(types, dtype)))


# The loops below check positions: see Note [Indices that change] in bounds.py.
@compiled("max_pool by its indices")
def _pick(x: Any, places: Any, out: Any) -> Any:
    """Write the elements of x at the positions `places` of each row into out."""
    for p in range(out.shape[0]):
        for i in range(out.shape[1]):
            place = np.uint64(places[p, i])
            if place >= np.uint64(x.shape[1]):
                return outside(place)
            out[p, i] = x[p, place]
    return INSIDE


@compiled("the gradient of max_pool")
def _spread(x: Any, places: Any, out: Any) -> Any:
    """Write zeros into out, and add x at the positions `places` of each row."""
    for p in range(out.shape[0]):
        row = out[p]
        row[:] = 0
        for i in range(places.shape[1]):
            place = np.uint64(places[p, i])
            if place >= np.uint64(len(row)):
                return outside(place)
            row[place] += x[p, i]
    return INSIDE


def picking(dtype: Any, places: Any) -> Any:
    """Return _pick compiled for C-ordered matrices: x and out of `dtype`, places of `places`."""
    return entry_point(_pick, (_matrix(dtype), _matrix(places), _matrix(dtype)))


def spreading(dtype: Any, places: Any) -> Any:
    """Return _spread compiled for the same kinds of matrices."""
    return entry_point(_spread, (_matrix(dtype), _matrix(places), _matrix(dtype)))


def _matrix(dtype: Any) -> Any:
    return types.Array(from_dtype(dtype), 2, "C")
