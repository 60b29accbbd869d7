"""Convolutions and their adjoints, on CUDA arrays: columns and cuBLAS, or directly."""

from __future__ import annotations

import functools
import math
from typing import Any, Final, NamedTuple

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
from .patches import fold, fold_together, three_axes, unfold, unfold_together
from .pointwise import plan as plan_pointwise
from .pointwise import pointwise
from .prepared import PreparedTable, only_launches
from .product import matmul

Sizes = tuple[int, ...]

_SUM: Final = parse("x + y", ("x", "y"))
_SAME: Final = parse("x", ("x",))
# Of so many bytes at most are the columns that a product takes at a time.
_COLUMN_BYTES: Final = 1 << 28
# Images of so many places are multiplied apart.
_WIDE: Final = 1 << 10
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
    if _is_direct(weight, groups):
        sliding = (x.shape[2:], weight.shape[2:], out.shape[2:], stride, padding, dilation)
        _direct("forward", (x, weight, bias), out, (x.shape[0], weight, sliding, groups))
        return
    import cupy

    plan = _plan_of(x, weight, out, (stride, padding, dilation), groups, widest=_WIDE)
    with out.device:
        matrix = weight.reshape(plan.weight)
        for some in plan.parts:
            images, results = (x, out) if some is None else (x[some], out[some])
            columns = _columns(images, plan)
            if plan.is_apart:
                matmul(matrix, columns, results.reshape((*results.shape[:2], plan.places)))
            else:
                products = cupy.empty((*plan.weight[:-1], columns.shape[-1]), columns.dtype)
                matmul(matrix, columns, products)
                _SEPARATE.run(products, bias, results)
        if plan.is_apart and bias is not None:
            _SHIFT.run(bias, out)


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
    if _is_direct(weight, groups):
        sliding = (out.shape[2:], weight.shape[2:], y.shape[2:], stride, padding, dilation)
        _direct("by_input", (y, weight, bias), out, (y.shape[0], weight, sliding, groups))
        return
    import cupy

    plan = _plan_of(out, weight, y, (stride, padding, dilation), groups, widest=_WIDE)
    with out.device:
        turned = _turned(weight.reshape(plan.weight))
        for some in plan.parts:
            images, given = (out, y) if some is None else (out[some], y[some])
            given = _apart(given, plan) if plan.is_apart else _together(given, plan.weight[:-1])
            if plan.is_plain and plan.is_apart:
                matmul(turned, given, images.reshape((*images.shape[:2], plan.places)))
                continue
            lead = given.shape[:1] if plan.is_apart else plan.weight[:-2]
            columns = cupy.empty((*lead, plan.weight[-1], given.shape[-1]), given.dtype)
            matmul(turned, given, columns)
            if plan.is_plain:
                _SEPARATE.run(columns, None, images)
            else:
                plan.fold.run(columns, images)
        if bias is not None:
            _SHIFT.run(bias, out)


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
    if _is_direct(out, groups) or not x.shape[0]:
        sliding = (x.shape[2:], out.shape[2:], y.shape[2:], stride, padding, dilation)
        _direct("by_weight", (y, x), out, (x.shape[0], out, sliding, groups))
        return
    import cupy

    plan = _plan_of(x, out, y, (stride, padding, dilation), groups, widest=None)
    with out.device:
        total = out.reshape(plan.weight)
        for some in plan.parts:
            images, given = (x, y) if some is None else (x[some], y[some])
            given, columns = _together(given, plan.weight[:-1]), _columns(images, plan)
            if some is None or not some.start:
                matmul(given, _turned(columns), total)
            else:
                more = cupy.empty(total.shape, total.dtype)
                matmul(given, _turned(columns), more)
                pointwise(_SUM, [total, more], total)


# Note [Columns of all images]
# A product with the columns of one image is small where the image is: of 16 to 256 places in the
# late layers of a network. So columns of many images lie side by side, (rows, n * places), and the
# weight is multiplied by all of them at once. What comes out, (o, n * places), is copied into
# (n, o, places), where bias is added; y, which the adjoints multiply, is copied the other way. Both
# are far smaller than columns. by_weight has one sum over places and images, and no other form.
# Images of many places are large enough each: their products are made apart, as a batch, straight
# from and into where they lie. A kernel of one place that does not stride needs no columns there.


class _Plan(NamedTuple):
    """What follows from layouts alone. `weight` is its shape as a matrix, or as one of each group;
    `places` are those of the grid.
    """

    weight: Sizes
    places: int
    is_plain: bool  # columns are the images themselves
    is_apart: bool
    parts: tuple[slice | None, ...]  # images that are taken at a time; None stands for all
    unfold: PreparedTable
    fold: PreparedTable


def _plan_of(
    x: Any, weight: Any, y: Any, sliding: tuple[Sizes, ...], groups: int, *, widest: int | None
) -> _Plan:
    shapes = tuple(x.shape), tuple(weight.shape), tuple(y.shape)
    return _plan(*shapes, sliding, groups, _COLUMN_BYTES // y.dtype.itemsize, widest)


@functools.lru_cache(maxsize=1024)
def _plan(
    x: Sizes,
    weight: Sizes,
    y: Sizes,
    sliding: tuple[Sizes, ...],
    groups: int,
    most: int,
    widest: int | None,
) -> _Plan:
    """Return the plan for arrays of shapes, with columns of up to so many numbers; images of less
    than `widest` places are taken together, or all if that is None.
    """
    n, places, rows = x[0], math.prod(y[2:]), math.prod(weight[1:])
    matrix = (*(() if groups == 1 else (groups,)), weight[0] // groups, rows)
    is_apart = widest is not None and groups == 1 and (places >= widest or n == 1)
    how = (weight[2:], y[2:], *sliding)
    ones = (1,) * (len(x) - 2)
    is_plain = x[2:] == y[2:] and how[0] == how[2] == ones and not any(sliding[1])
    images = max(most // max(max(rows * groups, weight[0]) * places, 1), 1)
    parts = [slice(start, min(start + images, n)) for start in range(0, n, images)]
    return _Plan(
        matrix,
        places,
        is_plain,
        is_apart,
        tuple(parts) if len(parts) > 1 else (None,) * len(parts),
        PreparedTable(unfold if is_apart else unfold_together, how),
        PreparedTable(fold if is_apart else fold_together, how),
    )


def _columns(images: Any, plan: _Plan) -> Any:
    """Return columns of images as forward multiplies them."""
    if plan.is_plain:
        return _apart(images, plan) if plan.is_apart else _together(images, _rows(plan))
    import cupy

    n = images.shape[0]
    shape = (n, *_rows(plan), plan.places) if plan.is_apart else (*_rows(plan), n * plan.places)
    columns = cupy.empty(shape, images.dtype)
    plan.unfold.run(images, columns)
    return columns


def _rows(plan: _Plan) -> Sizes:
    """Return the lengths of columns' axes before places."""
    return (*plan.weight[:-2], plan.weight[-1])


def _apart(images: Any, plan: _Plan) -> Any:
    """Return images as a matrix of channels and places each."""
    import cupy

    return cupy.ascontiguousarray(images).reshape((*images.shape[:2], plan.places))


def _together(images: Any, channels: Sizes) -> Any:
    """Return images as one matrix of channels, those of a group or all, and places of all."""
    import cupy

    n = images.shape[0]
    shape = (*channels, images.size // math.prod(channels))
    if n == 1:
        return cupy.ascontiguousarray(images).reshape(shape)
    made = cupy.empty(shape, images.dtype)
    _JOIN.run(images, made)
    return made


def _turned(matrices: Any) -> Any:
    return matrices.transpose((1, 0) if len(matrices.shape) == 2 else (0, 2, 1))


@only_launches
def _join(images: Any, joined: Any) -> None:
    """Copy images (n, c, *space) into an array in C order of c times their places."""
    launch(plan_pointwise(_SAME, [images], _by_image(joined, images)))


@only_launches
def _separate(joined: Any, bias: Any, images: Any) -> None:
    """Copy the other way, and add bias."""
    given = [_by_image(joined, images)]
    if bias is not None:
        given.append(_by_channel(bias, images))
    launch(plan_pointwise(_SAME if bias is None else _SUM, given, images))


@only_launches
def _shift(bias: Any, images: Any) -> None:
    """Add bias to images."""
    launch(plan_pointwise(_SUM, [images, _by_channel(bias, images)], images))


def _by_image(joined: Any, images: Any) -> Any:
    """Return the slot of images' channels, places of all images side by side, seen as images."""
    n, _, *space = images.shape
    steps = [joined.dtype.itemsize]
    for length in reversed((n, *space)):
        steps.append(steps[-1] * length)
    channel, image, *within = reversed(steps)
    return joined.seen_as(images.shape, (image, channel, *within))


def _by_channel(bias: Any, images: Any) -> Any:
    ones = (1,) * (len(images.shape) - 2)
    return bias.seen_as((*bias.shape, *ones), (*bias.strides, *[0 for _ in ones]))


_JOIN: Final = PreparedTable(_join)
_SEPARATE: Final = PreparedTable(_separate)
_SHIFT: Final = PreparedTable(_shift)


def forget() -> None:
    """Plan anew: another CuPy is there."""
    _plan.cache_clear()
    for table in (_JOIN, _SEPARATE, _SHIFT):
        table.clear()


def _is_direct(weight: Any, groups: int) -> bool:
    length = math.prod(weight.shape[1:])
    return not length or (groups > 1 and length <= _THIN)


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
