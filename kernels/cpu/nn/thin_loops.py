"""Compiled convolutions of groups of few channels, and their adjoints, without im2col.

With so few channels, matrix products have too few rows or columns for a BLAS. For each sample and
group, the channels are copied once to a zero-padded buffer, so that no loop needs to check for the
image's border. Then the sums of four lines of the grid, sixteen positions each, stay in registers
while the products of all kernel elements are added. Positions beyond the end of a line are computed
but not written. A weight's gradient is a sum of products of lines, with sixteen positions per
vector. All functions take addresses: with array arguments Numba counts references at each call,
which takes longer than computing a line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numba
import numpy as np
from numba import types

from ..jit.compiler import compiled, entry_point
from ..jit.machine import LOAD, STORE, intrinsic
from ..jit.vectors import INT64, Vectors, loop
from .patches import LANES

_LINES: Final = 4


def _summer(lines: int, stride: int) -> Any:
    """Return the function that computes one vector in each of `lines` lines. A stride of 0 stands
    for a stride that is known only at the call.
    """

    @intrinsic
    def summed(
        typingctx: Any, x: Any, x_line: Any, step: Any, offsets: Any, weights: Any, taps: Any,
        first: Any, out: Any, out_line: Any, count: Any,
    ) -> Any:  # fmt: skip
        """For each line, write `count` numbers, beginning at the address `out`. Number i of a line
        is `first` plus the sum of `taps` products. Product t is weights[t] times the element of x
        that is offsets[t] bytes behind element i * step of the line. `x_line` and `out_line` are in
        bytes, `step` is in elements.
        """

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            x, x_line, step, offsets, weights, taps, first, out, out_line, count = args
            lot, words = Vectors(builder, first.type, LANES), Vectors(builder, INT64, 1)
            by = stride or step

            def add(t: Any, sums: Any) -> Any:
                place = builder.add(x, words.number(words.behind(offsets, t)))
                weight = lot.splat(lot.number(lot.behind(weights, t)))
                made = []
                for one in sums:
                    made.append(lot.fma(weight, lot.load(place, by), one))
                    place = builder.add(place, x_line)
                return made

            for one in loop(builder, taps, [lot.splat(first)] * lines, add):
                lot.store_some(one, out, count)
                out = builder.add(out, out_line)
            return context.get_dummy_value()

        words = [types.int64] * 3
        return types.void(*[types.int64] * 6, first, *words), codegen

    return summed


def _correlator(stride: int) -> Any:
    @intrinsic
    def correlated(
        typingctx: Any, x: Any, x_line: Any, step: Any, y: Any, y_line: Any, lines: Any,
        count: Any, zero: Any,
    ) -> Any:  # fmt: skip
        """Return the sum of the products of the elements at the addresses x and y, over `lines`
        lines of `count` positions. The type of `zero` is the elements' type.
        """

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            x, x_line, step, y, y_line, lines, count, zero = args
            lot = Vectors(builder, zero.type, LANES)

            def add(i: Any, sums: Any) -> Any:
                ours = lot.load(builder.add(x, builder.mul(i, x_line)), stride or step)
                theirs = lot.load_some(builder.add(y, builder.mul(i, y_line)), count)
                # `theirs` has zeros after the end of the line. `ours` may have NaN there, and NaN
                # times zero is NaN.
                return [lot.fma(theirs, lot.first_of(ours, count), sums[0])]

            (total,) = loop(builder, lines, [lot.splat(zero)], add)
            return lot.total(total)

        return zero(*[types.int64] * 7, zero), codegen

    return correlated


def _laid_out(load: Any, store: Any) -> Any:
    @compiled(inline=True)
    def lay_out(x: Any, room: Any, channels: Any, size: Any, words: Any) -> None:
        """Copy channels from the address x to `room`, whose other elements are zeros already."""
        seen_d, seen_h, seen_w = words[1, 0], words[1, 1], words[1, 2]
        apart_d, apart_h, apart_w = words[2, 0], words[2, 1], words[2, 2]
        before_d, before_h, before_w = words[3, 0], words[3, 1], words[3, 2]
        depth, height, width = words[0, 0], words[0, 1], words[0, 2]
        for c in range(channels):
            for d in range(depth):
                to_d = d * apart_d + before_d
                for h in range(height):
                    to_h = h * apart_h + before_h
                    line = x + ((c * depth + d) * height + h) * width * size
                    to = ((c * seen_d + to_d) * seen_h + to_h) * seen_w + before_w
                    if 0 <= to_d < seen_d and 0 <= to_h < seen_h:
                        low = max(0, -(before_w // apart_w))
                        high = min(width, (seen_w - 1 - before_w) // apart_w + 1)
                        if apart_w == 1:
                            for w in range(low, high):
                                store(room, to + w, load(line, w))
                        else:
                            for w in range(low, high):
                                store(room, to + w * apart_w, load(line, w))

    return lay_out


def _convolution(dtype: Any, stride: int) -> Callable[..., None]:
    load, store = LOAD[str(dtype)], STORE[str(dtype)]
    size, lay_out = dtype.bitwidth // 8, _laid_out(load, store)
    many, one = _summer(_LINES, stride), _summer(1, stride)

    @compiled("convolutions of few channels")
    def convolve(
        x: Any, weight: Any, bias: Any, y: Any, room: Any, offsets: Any, words: Any
    ) -> None:
        images, groups, inputs = words[6, 0], words[6, 1], words[6, 2]
        outputs, grid_d, grid_h, grid_w = words[7, 0], words[4, 0], words[4, 1], words[4, 2]
        seen_h, seen_w = words[1, 1], words[1, 2]
        stride_d, stride_h, step = words[5, 0], words[5, 1], words[5, 2]
        plane = words[0, 0] * words[0, 1] * words[0, 2]
        taps, x_line, y_line = len(offsets), stride_h * seen_w * size, grid_w * size
        from_x, to_y, table = x.ctypes.data, y.ctypes.data, offsets.ctypes.data
        at_room, weights, biases = room.ctypes.data, weight.ctypes.data, bias.ctypes.data
        for part in range(images * groups):
            lay_out(from_x + part * inputs * plane * size, at_room, inputs, size, words)
            for o in range(outputs):
                channel = part % groups * outputs + o
                first, w = load(biases, channel), weights + channel * taps * size
                for d in range(grid_d):
                    for h in range(0, grid_h, _LINES):
                        at = at_room + (d * stride_d * seen_h + h * stride_h) * seen_w * size
                        lines = min(_LINES, grid_h - h)
                        for k in range(0, grid_w, LANES):
                            x_at, to, n = at + k * step * size, to_y + k * size, grid_w - k
                            if lines == _LINES:
                                many(x_at, x_line, step, table, w, taps, first, to, y_line, n)
                            else:
                                for _ in range(lines):
                                    one(x_at, 0, step, table, w, taps, first, to, 0, n)
                                    x_at += x_line
                                    to += y_line
                        to_y += lines * y_line

    flat = dtype[::1]
    signature = (*[flat] * 5, numba.int64[::1], numba.int64[:, ::1])
    return entry_point(convolve, signature)


def _correlation(dtype: Any, stride: int) -> Callable[..., None]:
    load, store = LOAD[str(dtype)], STORE[str(dtype)]
    size, lay_out = dtype.bitwidth // 8, _laid_out(load, store)
    correlated = _correlator(stride)
    zero = np.dtype(str(dtype)).type(0)

    @compiled("the gradient of convolutions of few channels")
    def correlate(x: Any, y: Any, out: Any, room: Any, offsets: Any, words: Any) -> None:
        images, groups, inputs = words[6, 0], words[6, 1], words[6, 2]
        outputs, grid_d, grid_h, grid_w = words[7, 0], words[4, 0], words[4, 1], words[4, 2]
        seen_h, seen_w = words[1, 1], words[1, 2]
        stride_d, stride_h, step = words[5, 0], words[5, 1], words[5, 2]
        plane = words[0, 0] * words[0, 1] * words[0, 2]
        taps, x_line, y_line = len(offsets), stride_h * seen_w * size, grid_w * size
        from_x, from_y = x.ctypes.data, y.ctypes.data
        at_room, to = room.ctypes.data, out.ctypes.data
        for part in range(images * groups):
            lay_out(from_x + part * inputs * plane * size, at_room, inputs, size, words)
            for o in range(outputs):
                k = (part % groups * outputs + o) * taps
                for tap in range(taps):
                    total = zero
                    for d in range(grid_d):
                        at = at_room + offsets[tap] + d * stride_d * seen_h * seen_w * size
                        other = from_y + d * grid_h * y_line
                        for w in range(0, grid_w, LANES):
                            a, b, n = at + w * step * size, other + w * size, grid_w - w
                            total += correlated(a, x_line, step, b, y_line, grid_h, n, zero)
                    store(to, k + tap, load(to, k + tap) + total)
                from_y += grid_d * grid_h * y_line

    flat = dtype[::1]
    signature = (*[flat] * 4, numba.int64[::1], numba.int64[:, ::1])
    return entry_point(correlate, signature)


def loop_of(name: str, dtype: str, step: int) -> Callable[..., None]:
    """Return the loop "convolve" or "correlate". step is the stride along the last axis, 1 or 2; 0
    means any other stride.
    """
    make = {"convolve": _convolution, "correlate": _correlation}[name]
    return make(getattr(numba, dtype), step)
