"""The patches of images under a sliding kernel, as columns (im2col), and their sums (col2im)."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ..launch import (
    C_TYPES,
    THREADS,
    Launch,
    adding_type,
    headers_for,
    int64_fields,
    launch,
    text_of,
)
from ..layout import element_strides
from ..prepared import only_launches

Sizes = tuple[int, ...]


@only_launches
def unfold(
    x: Any, out: Any, kernel: Sizes, grid: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes
) -> None:
    """Write the columns of x into out. Shapes (n, c, *image) -> (n, c * kernel, grid)."""
    sliding = (kernel, grid, stride, padding, dilation)
    launch(_plan("unfold", x, out, sliding, element_strides(out)))


@only_launches
def fold(
    x: Any, out: Any, kernel: Sizes, grid: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes
) -> None:
    """Add up columns at their positions in images, and write the images into out: the adjoint of
    unfold.

    Shapes (n, c * kernel, grid) -> (n, c, *image). float16 is added in float32 and rounded once.
    """
    sliding = (kernel, grid, stride, padding, dilation)
    launch(_plan("fold", out, x, sliding, element_strides(x)))


@only_launches
def unfold_together(images: Any, columns: Any, *sliding: Sizes) -> None:
    """Write the columns of all images as one matrix.

    Shapes (n, c, *image) -> (..., n * grid), in C order; the leading axes stand for the c * kernel
    rows.
    """
    launch(_plan("unfold", images, columns, sliding, _together(columns, sliding[1])))


@only_launches
def fold_together(columns: Any, images: Any, *sliding: Sizes) -> None:
    """Write the sums of a matrix's columns into images: the adjoint of unfold_together."""
    launch(_plan("fold", images, columns, sliding, _together(columns, sliding[1])))


def _together(columns: Any, grid: Sizes) -> tuple[int, ...]:
    return math.prod(grid), columns.shape[-1], 1


def _plan(
    name: str, images: Any, columns: Any, sliding: tuple[Sizes, ...], steps: tuple[int, ...]
) -> list[Launch]:
    """Return the launch of unfold or fold for columns with these strides (image, row, column); no
    launch if the output is empty.
    """
    n, channels, *image = images.shape
    axes = three_axes(image, *sliding)
    own = element_strides(images)
    all_steps = [*own[:2], *(0,) * (5 - len(own)), *own[2:], *steps]
    if name == "unfold":
        taps = _taps_of_a_thread(axes[3:6], columns.size)
        size, pair = columns.size // taps, (images, columns)
    else:
        taps, size, pair = 1, images.size, (columns, images)
    if not size:
        return []
    wide = _is_wide(n, channels, axes, all_steps) or size + THREADS >= 2**32
    source = source_of_patches(images.dtype, wide=wide)
    task = int64_fields(size, taps, n, channels, *axes, *all_steps)
    return [Launch(source, name, (-(-size // THREADS), 1), (*pair, task))]


def _taps_of_a_thread(kernel: list[int], size: int) -> int:
    """Return how many elements of a column a thread writes: as many as leave enough threads."""
    for taps in (math.prod(kernel), kernel[-1]):
        if size >= taps * _ENOUGH:
            return taps
    return 1


# The number of threads that keep a GPU busy.
_ENOUGH: Final = 1 << 17


def _is_wide(n: int, channels: int, axes: list[int], steps: list[int]) -> bool:
    """Return whether positions, or their indices in memory, need more than 32 bits."""
    image, kernel, grid, *_ = sizes = [axes[i : i + 3] for i in range(0, 18, 3)]
    # One step further than the last position, because a thread computes that address too.
    reach = [m + k * d + g * s + p for m, k, g, s, p, d in zip(*sizes, strict=True)]
    along = sum([far * abs(step) for far, step in zip(reach, steps[2:5], strict=True)])
    most = n * channels * max(math.prod(image), math.prod(kernel) * math.prod(grid))
    return bool(max(*reach, along, most) >= 2**31)


def three_axes(*sliding: Sequence[int]) -> list[int]:
    """Return image, kernel, grid, stride, padding and dilation extended to three axes."""
    fills = (1, 1, 1, 1, 0, 1)
    found: list[int] = []
    for fill, one in zip(fills, sliding, strict=True):
        found += [fill] * (3 - len(one)) + list(one)
    return found


@functools.lru_cache(maxsize=256)
def source_of_patches(dtype: np.dtype[Any], *, wide: bool = False) -> str:
    """Return the CUDA source for arrays of one dtype."""
    real = adding_type(dtype)
    place = "long long" if wide else "int"
    return f"""{headers_for([dtype])}
typedef {C_TYPES[dtype]} Stored;
typedef {real} Real;
typedef unsigned {place} Index;
typedef {place} Place;
{text_of("nn/patches.cu")}"""
