"""The compiled loops that copy patches to columns (im2col), and add columns back (col2im).

The loops are limited by memory bandwidth: they read and write each number once. Images include
their padding, so no bounds are checked. A line of the grid is one inner loop, which is vectorized
if the stride is 1. On lines of 16 or more numbers, this loop takes a third of a nanosecond per
number (AMD EPYC, Zen 3); NumPy takes half a nanosecond to copy a number, and two to add it.

The code uses addresses, because Numba then compiles it twice as fast as code with arrays.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numba

from ..jit.array_objects import HEADER
from ..jit.compiler import compiled, entry_point
from ..jit.machine import LOAD, STORE, copy_bytes

_get = LOAD["int64"]


@functools.cache
def entry(name: str, dtype: str) -> Callable[[int, int, int], None]:
    """Return gather(padded, columns, words) or scatter(padded, columns, words), compiled for
    float32 or float64. The arguments of both are the ids of contiguous arrays.

    gather writes `columns`, one row after the other. scatter, the adjoint of gather, adds `columns`
    to `padded`. `words` is the array that Patches._words returns.
    """
    line = _copied(dtype) if name == "gather" else _added(dtype)
    return entry_point(_walked(line, 4 if dtype == "float32" else 8), (numba.int64,) * 3)


def _copied(dtype: str) -> Any:
    """Return the function that copies `count` numbers, each `step`-th from `at` on, to `to`."""
    load, store, size = LOAD[dtype], STORE[dtype], 4 if dtype == "float32" else 8

    @compiled(inline=True)
    def copy(at: Any, to: Any, count: Any, step: Any) -> None:
        if step != 1:
            for i in range(count):
                store(to, i, load(at, i * step))
        elif count >= 8:
            # Lines are short, so no loop copies the remainder: the last vector overlaps the one
            # before it.
            for i in range(count // 8):
                copy_bytes(at + i * (8 * size), to + i * (8 * size), 8 * size)
            last = (count - 8) * size
            copy_bytes(at + last, to + last, 8 * size)
        elif count >= 4:
            last = (count - 4) * size
            copy_bytes(at, to, 4 * size)
            copy_bytes(at + last, to + last, 4 * size)
        else:
            for i in range(count):
                store(to, i, load(at, i))

    return copy


def _added(dtype: str) -> Any:
    """Return the function that adds the `count` numbers at `to` to as many numbers at `at`: to each
    `step`-th one.
    """
    load, store = LOAD[dtype], STORE[dtype]

    @compiled(inline=True)
    def add(at: Any, to: Any, count: Any, step: Any) -> None:
        if step == 1:
            for i in range(count):
                store(at, i, load(at, i) + load(to, i))
        else:
            for i in range(count):
                store(at, i * step, load(at, i * step) + load(to, i))

    return add


def _walked(line: Any, size: int) -> Any:
    """Return the function that applies `line` to all lines of a block."""

    @compiled("convolutions, unfold and fold")
    def walk(padded: Any, columns: Any, words: Any) -> None:
        flat, to, words = (
            _get(padded + HEADER, 0),
            _get(columns + HEADER, 0),
            _get(words + HEADER, 0),
        )
        channels, depth, height, width = _four(words, 0)
        images, taps_d, taps_h, taps_w = _four(words, 4)
        _, slab_step, line_step, step = _four(words, 8)
        _, tap_d, tap_h, tap_w = _four(words, 12)
        start, first, grid_h, lines = _four(words, 16)
        count = _get(words, 20)
        for channel in range(channels):
            for i in range(taps_d):
                for j in range(taps_h):
                    for k in range(taps_w):
                        for image in range(images):
                            plane = (image * channels + channel) * depth * height * width
                            at = plane + start + i * tap_d + j * tap_h + k * tap_w
                            h = first
                            for _ in range(lines):
                                line(flat + at * size, to, count, step)
                                to += count * size
                                at += line_step
                                h += 1
                                if h == grid_h:
                                    h = 0
                                    at += slab_step - grid_h * line_step

    return walk


@compiled(inline=True)
def _four(words: Any, at: Any) -> Any:
    return _get(words, at), _get(words, at + 1), _get(words, at + 2), _get(words, at + 3)
