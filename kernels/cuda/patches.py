"""The patches of images under a sliding kernel, laid out as columns and added back, on CUDA."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from .launch import (
    C_TYPES,
    THREADS,
    Launch,
    adding_type,
    headers_for,
    int64_fields,
    launch,
    text_of,
)
from .layout import element_strides
from .prepared import only_launches

Sizes = tuple[int, ...]


@only_launches
def unfold(
    x: Any, out: Any, kernel: Sizes, grid: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes
) -> None:
    """Write the columns of x into out. Shapes (n, c, *image) -> (n, c * kernel, grid)."""
    launch(plan_unfold(x, out, kernel, grid, stride, padding, dilation))


@only_launches
def fold(
    x: Any, out: Any, kernel: Sizes, grid: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes
) -> None:
    """Write the sums of columns at their places of images into out: the adjoint of unfold.

    Shapes (n, c * kernel, grid) -> (n, c, *image). float16 adds in float32 and rounds once.
    """
    launch(plan_fold(x, out, kernel, grid, stride, padding, dilation))


def plan_unfold(images: Any, columns: Any, kernel: Sizes, grid: Sizes, *how: Sizes) -> list[Launch]:
    """Return the launch of unfold; none if columns is empty."""
    return _plan("unfold", images, columns, (kernel, grid, *how), columns.size)


def plan_fold(columns: Any, images: Any, kernel: Sizes, grid: Sizes, *how: Sizes) -> list[Launch]:
    """Return the launch of fold; none if images is empty."""
    return _plan("fold", images, columns, (kernel, grid, *how), images.size)


def _plan(
    name: str, images: Any, columns: Any, sliding: tuple[Sizes, ...], size: int
) -> list[Launch]:
    if not size:
        return []
    steps = element_strides(images)
    axes = [steps[0], steps[1], *(0,) * (5 - len(steps)), *steps[2:]]
    fields = [images.shape[1], *three_axes(images.shape[2:], *sliding), *axes]
    task = int64_fields(size, *fields, *element_strides(columns))
    source = source_of_patches(images.dtype, wide=size + THREADS >= 2**32)
    pair = (images, columns) if name == "unfold" else (columns, images)
    return [Launch(source, name, (-(-size // THREADS), 1), (*pair, task))]


def three_axes(*sliding: Sizes) -> list[int]:
    """Return image, kernel, grid, stride, padding and dilation as if there were three axes."""
    fills = (1, 1, 1, 1, 0, 1)
    found: list[int] = []
    for fill, one in zip(fills, sliding, strict=True):
        found += [fill] * (3 - len(one)) + list(one)
    return found


@functools.lru_cache(maxsize=256)
def source_of_patches(dtype: np.dtype[Any], *, wide: bool = False) -> str:
    """Return the text for arrays of one dtype."""
    real = adding_type(dtype)
    return f"""{headers_for([dtype])}
typedef {C_TYPES[dtype]} Stored;
typedef {real} Real;
typedef {"unsigned long long" if wide else "unsigned int"} Index;
{text_of("patches.cu")}"""
