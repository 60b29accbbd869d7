"""Convolutions of groups of few channels, and their adjoints, compiled: no columns.

Bound by memory: products of so few channels are too thin for a BLAS. What of the grid a place of
the kernel sees inside the image is found once for each place, so a line of the grid times one
number of the weight is a loop without conditions, which vectorises where the stride is 1; a plane
stays in the first-level cache while all places of the kernel go over it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numba
import numpy as np

from .compiler import compiled, entry_point


@compiled(inline=True)
def _inside(length: int, grid: int, stride: int, offset: int) -> tuple[int, int]:
    """Return from which to which place of the grid its place in the image is inside."""
    low = 0 if offset >= 0 else min((-offset + stride - 1) // stride, grid)
    high = 0 if offset >= length else min((length - 1 - offset) // stride + 1, grid)
    return low, max(low, high)


@compiled(inline=True)
def _add_to_y(x: Any, weight: Any, y: Any, at: Any, k: Any, to: Any, count: Any, step: Any) -> None:
    # Unsigned places: Numba counts negative ones from the end, and then no loop vectorises.
    w = weight[k]
    if step == np.uint64(1):
        for i in range(count):
            y[to + i] += w * x[at + i]
    else:
        for i in range(count):
            y[to + i] += w * x[at + i * step]


@compiled(inline=True)
def _add_to_x(x: Any, weight: Any, y: Any, at: Any, k: Any, to: Any, count: Any, step: Any) -> None:
    w = weight[k]
    if step == np.uint64(1):
        for i in range(count):
            x[at + i] += w * y[to + i]
    else:
        for i in range(count):
            x[at + i * step] += w * y[to + i]


@compiled(inline=True, fastmath={"reassoc", "contract", "nsz"})
def _add_to_weight(
    x: Any, weight: Any, y: Any, at: Any, k: Any, to: Any, count: Any, step: Any
) -> None:
    total = weight[k] * 0
    if step == np.uint64(1):
        for i in range(count):
            total += y[to + i] * x[at + i]
    else:
        for i in range(count):
            total += y[to + i] * x[at + i * step]
    weight[k] += total


@compiled(inline=True)
def _walk(x: Any, weight: Any, y: Any, words: Any, add_line: Any) -> None:
    depth, height, width = words[0]
    grid_d, grid_h, grid_w = words[2]
    stride_d, stride_h, step = words[3]
    images, groups, inputs = words[6]
    outputs = words[7, 0]
    for image in range(images):
        for group in range(groups):
            for o in range(outputs):
                to_plane = ((image * groups + group) * outputs + o) * grid_d
                k = ((group * outputs + o) * inputs) * words[1, 0] * words[1, 1] * words[1, 2]
                for c in range(inputs):
                    plane = ((image * groups + group) * inputs + c) * depth
                    for i in range(words[1, 0]):
                        at_d = i * words[5, 0] - words[4, 0]
                        first_d, last_d = _inside(depth, grid_d, stride_d, at_d)
                        for j in range(words[1, 1]):
                            at_h = j * words[5, 1] - words[4, 1]
                            first_h, last_h = _inside(height, grid_h, stride_h, at_h)
                            for m in range(words[1, 2]):
                                at_w = m * words[5, 2] - words[4, 2]
                                low, high = _inside(width, grid_w, step, at_w)
                                for d in range(first_d, last_d):
                                    slab = (plane + d * stride_d + at_d) * height + at_h
                                    for h in range(first_h, last_h):
                                        at = (slab + h * stride_h) * width + at_w + low * step
                                        to = ((to_plane + d) * grid_h + h) * grid_w + low
                                        add_line(
                                            x,
                                            weight,
                                            y,
                                            np.uint64(at),
                                            np.uint64(k),
                                            np.uint64(to),
                                            np.uint64(high - low),
                                            np.uint64(step),
                                        )
                                k += 1


def forward(x: Any, weight: Any, y: Any, words: Any) -> None:
    """Add the sums of x under the sliding weight to y. All flat; words as words_of has them."""
    _walk(x, weight, y, words, _add_to_y)


def by_input(x: Any, weight: Any, y: Any, words: Any) -> None:
    """Add y spread by the sliding weight to x."""
    _walk(x, weight, y, words, _add_to_x)


def by_weight(x: Any, weight: Any, y: Any, words: Any) -> None:
    """Add the sums of products of y and x to the weight."""
    _walk(x, weight, y, words, _add_to_weight)


def _loop(function: Callable[..., None], dtype: Any) -> Callable[..., None]:
    flat = dtype[::1]
    return entry_point(compiled()(function), (flat, flat, flat, numba.int64[:, ::1]))


LOOPS: Final = {
    (function.__name__, np.dtype(str(dtype))): _loop(function, dtype)
    for function in (forward, by_input, by_weight)
    for dtype in (numba.float32, numba.float64)
}
