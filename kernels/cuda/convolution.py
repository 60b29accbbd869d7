"""Convolutions and their adjoints, on CUDA arrays: columns and cuBLAS, or directly."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from fastdist.core.scalar import parse

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
from .patches import plan_fold, plan_unfold, three_axes
from .pointwise import pointwise
from .product import product_of
from .reduce import plan_reduce

Sizes = tuple[int, ...]

_SUM: Final = parse("x + y", ("x", "y"))
_SAME: Final = parse("x", ("x",))
# Of so many bytes at most are the columns that a product takes at a time.
_COLUMN_BYTES: Final = 1 << 28
# Groups of so few channels, kernel places counted, give products too thin for cuBLAS.
_THIN: Final = 64


def forward(
    x: Any,
    weight: Any,
    bias: Any,
    out: Any,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    groups: int,
) -> None:
    """Write the sums of x under the sliding weight, and bias, into out.

    Shapes (n, c, *image), (o, c / groups, *kernel), (o) -> (n, o, *grid), one dtype; padding is
    what lies before an image.

    Thread  any; queued on the current stream of out's device
    """
    sliding = (x.shape[2:], weight.shape[2:], out.shape[2:], stride, padding, dilation)
    if _is_direct(weight, groups):
        _direct("forward", (x, weight, bias), out, (x.shape[0], weight, sliding, groups))
        return
    with out.device:
        for images, matrix, results, part in _parts(x, weight, out, groups):
            columns = _columns(images, matrix, results)
            launch(plan_unfold(images, columns, *sliding[1:]))
            product = product_of(matrix, columns)
            column = None if bias is None else bias[part].reshape((1, -1, 1))
            _store(product, column, _flat(results))


def by_input(
    y: Any,
    weight: Any,
    bias: Any,
    out: Any,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    groups: int,
) -> None:
    """Write the adjoint of forward in x, and bias, into out: each number of y spread over what it
    was summed from.

    Shapes (n, o, *grid), (o, c / groups, *kernel), (c) -> (n, c, *image), one dtype.
    """
    sliding = (out.shape[2:], weight.shape[2:], y.shape[2:], stride, padding, dilation)
    if _is_direct(weight, groups):
        _direct("by_input", (y, weight, bias), out, (y.shape[0], weight, sliding, groups))
        return
    import cupy

    with out.device:
        y = cupy.ascontiguousarray(y)
        for images, matrix, given, _ in _parts(out, weight, y, groups):
            columns = product_of(matrix.transpose((1, 0)), _flat(given))
            launch(plan_fold(columns, images, *sliding[1:]))
        if bias is not None:
            _store(_flat(out), bias.reshape((1, -1, 1)), _flat(out))


def by_weight(
    y: Any,
    x: Any,
    out: Any,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    groups: int,
) -> None:
    """Write the adjoint of forward in the weight into out: sums of y times what it was summed from.

    Shapes (n, o, *grid), (n, c, *image) -> (o, c / groups, *kernel), one dtype.
    """
    sliding = (x.shape[2:], out.shape[2:], y.shape[2:], stride, padding, dilation)
    if _is_direct(out, groups) or not x.shape[0]:
        _direct("by_weight", (y, x), out, (x.shape[0], out, sliding, groups))
        return
    import cupy

    with out.device:
        y = cupy.ascontiguousarray(y)
        begun: set[int] = set()
        for images, matrix, given, part in _parts(x, out, y, groups):
            columns = _columns(images, matrix, given)
            launch(plan_unfold(images, columns, *sliding[1:]))
            products = product_of(_flat(given), columns.transpose((0, 2, 1)))
            if part.start not in begun:
                launch(plan_reduce("Adding", products, matrix, (0,)))
            else:
                more = cupy.empty(matrix.shape, matrix.dtype)
                launch(plan_reduce("Adding", products, more, (0,)))
                pointwise(_SUM, [matrix, more], matrix)
            begun.add(part.start)


def _is_direct(weight: Any, groups: int) -> bool:
    length = math.prod(weight.shape[1:])
    return not length or (groups > 1 and length <= _THIN)


def _parts(x: Any, weight: Any, y: Any, groups: int) -> Iterator[tuple[Any, ...]]:
    """Yield, for some images at a time and each group: its channels of x, its weight as a matrix,
    its channels of y, and which of y's these are.
    """
    inputs, outputs = x.shape[1] // groups, y.shape[1] // groups
    column_bytes = math.prod(weight.shape[1:]) * math.prod(y.shape[2:]) * y.dtype.itemsize
    images = max(_COLUMN_BYTES // max(column_bytes, 1), 1)
    for start in range(0, x.shape[0], images):
        some = slice(start, start + images)
        for group in range(groups):
            part = slice(group * outputs, (group + 1) * outputs)
            ours = slice(group * inputs, (group + 1) * inputs)
            yield x[some, ours], weight[part].reshape((outputs, -1)), y[some, part], part


def _columns(images: Any, matrix: Any, y: Any) -> Any:
    import cupy

    shape = (images.shape[0], matrix.shape[1], math.prod(y.shape[2:]))
    return cupy.empty(shape, images.dtype)


def _flat(images: Any) -> Any:
    return images.reshape((*images.shape[:2], -1))


def _store(product: Any, column: Any, out: Any) -> None:
    if column is None:
        pointwise(_SAME, [product], out)
    else:
        pointwise(_SUM, [product, column], out)


def _direct(name: str, arrays: tuple[Any, ...], out: Any, how: tuple[Any, ...]) -> None:
    import cupy

    with out.device:
        given = [None if one is None else cupy.ascontiguousarray(one) for one in arrays]
        launch(plan_direct(name, given, out, *how))


def plan_direct(
    name: str, arrays: Any, out: Any, images: int, weight: Any, sliding: Any, groups: int
) -> list[Launch]:
    """Return the launch that makes forward, by_input or by_weight without columns; none if out is
    empty. All arrays are in C order.
    """
    if not out.size:
        return []
    inputs, outputs = weight.shape[1], weight.shape[0] // groups
    fields = (out.size, images, groups, inputs, outputs, *three_axes(*sliding))
    task = int64_fields(*fields, arrays[-1] is not None)
    # What is not there is not read, but something must stand for it.
    given = [arrays[0] if one is None else one for one in arrays]
    threads = out.size * (32 if name == "by_weight" else 1)
    source = source_of_convolution(out.dtype, wide=threads + THREADS >= 2**32)
    return [Launch(source, name, (-(-threads // THREADS), 1), (*given, out, task))]


@functools.lru_cache(maxsize=256)
def source_of_convolution(dtype: np.dtype[Any], *, wide: bool = False) -> str:
    """Return the text for arrays of one dtype."""
    real = adding_type(dtype)
    return f"""{headers_for([dtype])}
typedef {C_TYPES[dtype]} Stored;
typedef {real} Real;
typedef {"unsigned long long" if wide else "unsigned int"} Index;
{text_of("convolution.cu")}"""
