"""Convolutions and their adjoints on CUDA arrays: by im2col and cuBLAS, or directly.

`backends.cudnn.allow_tf32` decides whether their products of float32 may be computed in TF32.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

from fastdist.core.precision import convolutions
from fastdist.language.scalar import parse

from ..launch import (
    C_TYPES,
    THREADS,
    Call,
    Launch,
    Scratch,
    Slot,
    adding_type,
    headers_for,
    int64_fields,
    launch,
    text_of,
)
from ..linalg.product import product_step
from ..pointwise.pointwise import plan, pointwise
from ..prepared import PreparedTable, only_launches
from .patches import fold, fold_together, three_axes, unfold, unfold_together

Sizes = tuple[int, ...]

_SUM: Final = parse("x + y", ("x", "y"))
_SAME: Final = parse("x", ("x",))
# The limit in bytes for the columns of one product.
_COLUMN_BYTES: Final = 1 << 28
# Each image with at least this many positions has its own product.
_WIDE: Final = 1 << 10
# If the channels of a group times the elements of the kernel are at most this many, its products
# are too narrow for cuBLAS.
_THIN: Final = 64


@only_launches
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
    """Write the cross-correlation of x with weight, plus bias, into out.

    Shapes (n, c, *image), (o, c / groups, *kernel), (o) -> (n, o, *grid), one dtype. `padding` is
    the padding before an image, along each axis of the image.

    Thread  any; queued on the current stream of out's device
    """
    _run(_forward, (x, weight, bias, out), (stride, padding, dilation, groups))


@only_launches
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
    """Write the adjoint of forward in x, plus bias, into out: each element of y, times the weight,
    is added to the elements of out from which forward would compute that element of y.

    Shapes (n, o, *grid), (o, c / groups, *kernel), (c) -> (n, c, *image), one dtype.
    """
    _run(_by_input, (y, weight, bias, out), (stride, padding, dilation, groups))


@only_launches
def by_weight(
    y: Any,
    x: Any,
    out: Any,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    groups: int,
) -> None:
    """Write the adjoint of forward in the weight into out: each element of out is the sum of y
    times the elements of x by which forward multiplies this element of the weight.

    Shapes (n, o, *grid), (n, c, *image) -> (o, c / groups, *kernel), one dtype.
    """
    _run(_by_weight, (y, x, out), (stride, padding, dilation, groups))


def _run(kernel: Callable[..., None], given: tuple[Any, ...], how: tuple[Any, ...]) -> None:
    """Record the launches if given slots; run them if given arrays."""
    if isinstance(given[-1], Slot):
        kernel(*given, *how)
        return
    device = given[-1].device
    with device:
        _table_of(kernel, how, device.id).run(*given)


@functools.lru_cache(maxsize=256)
def _table_of(kernel: Callable[..., None], how: tuple[Any, ...], device: int) -> PreparedTable:
    # One table per device, because algorithms of products are chosen per device.
    return PreparedTable(kernel, how)


def forget() -> None:
    """Forget the prepared launches, for a caller that replaces CuPy."""
    _table_of.cache_clear()


# Note [Columns of all images]
# im2col writes the patches of an image as the columns of a matrix. If the image is small, as in the
# late layers of a network, which have 16 to 256 positions, its product with the weight is small.
# So the columns of many images form one matrix, (rows, n * positions), for one product. The result,
# (o, n * positions), is copied into (n, o, positions), where bias is added. The adjoints multiply
# y, which is copied in the opposite direction. The result and y are far smaller than the columns.
# by_weight sums over positions and images, and always uses this form. If images have many
# positions, each image gives a large enough product: the products are computed as a batch, directly
# from and into images. In that case a convolution with a kernel of one element and stride 1 needs
# no columns.


def _forward(x: Slot, weight: Slot, bias: Slot | None, out: Slot, *how: Any) -> None:
    if not out.size:
        return
    if _is_direct(weight, how[-1]):
        _direct("forward", (x, weight, bias), out, (x.shape, weight, out.shape), how)
        return
    form = _form_of(x, weight, out, how, widest=_WIDE)
    if form.images < x.shape[0]:
        _in_parts(_forward, form.images, (x, weight, bias, out), how)
        return
    matrix, columns = _packed(weight).seen_as(form.weight), _columns(x, form)
    if form.is_apart:
        _multiply(matrix, columns, out.seen_as((*out.shape[:2], form.places)), out.launches)
        _shift(bias, out)
        return
    products = Scratch((*form.weight[:-1], columns.shape[-1]), out.dtype)
    _multiply(matrix, columns, products, out.launches)
    _separate(products, bias, out)


def _by_input(y: Slot, weight: Slot, bias: Slot | None, out: Slot, *how: Any) -> None:
    if not out.size:
        return
    if _is_direct(weight, how[-1]):
        _direct("by_input", (y, weight, bias), out, (out.shape, weight, y.shape), how)
        return
    form = _form_of(out, weight, y, how, widest=_WIDE)
    if form.images < y.shape[0]:
        _in_parts(_by_input, form.images, (y, weight, bias, out), how)
        return
    turned = _turned(_packed(weight).seen_as(form.weight))
    if form.is_apart:
        given = _packed(y).seen_as((*y.shape[:2], form.places))
    else:
        given = _together(y, form.weight[:-1])
    if form.is_plain and form.is_apart:
        _multiply(turned, given, out.seen_as((*out.shape[:2], form.places)), out.launches)
    else:
        columns = _room_for_columns(out, form)
        _multiply(turned, given, columns, out.launches)
        if form.is_plain:
            _separate(columns, bias, out)
            return
        (fold if form.is_apart else fold_together)(columns, out, *form.sliding)
    _shift(bias, out)


def _by_weight(y: Slot, x: Slot, out: Slot, *how: Any) -> None:
    if _is_direct(out, how[-1]) or not x.shape[0]:
        _direct("by_weight", (y, x), out, (x.shape, out, y.shape), how)
        return
    form = _form_of(x, out, y, how, widest=None)
    if form.images < x.shape[0]:
        _in_parts(_by_weight, form.images, (y, x, out), how)
        return
    given = _together(y, form.weight[:-1])
    _multiply(given, _turned(_columns(x, form)), out.seen_as(form.weight), out.launches)


class _Form(NamedTuple):
    """Numbers that follow from layouts: the shape of the weight as a matrix (per group, if there
    are groups), the number of grid positions, and the number of images per product.
    """

    weight: Sizes
    places: int
    images: int
    is_plain: bool  # the columns are the images themselves
    is_apart: bool
    sliding: tuple[Sizes, ...]


def _form_of(x: Slot, weight: Slot, y: Slot, how: tuple[Any, ...], *, widest: int | None) -> _Form:
    """Return the form for images x and y. Images with fewer than `widest` positions share one
    product; if `widest` is None, all images share one.
    """
    *steps, groups = how
    image, kernel, grid = x.shape[2:], weight.shape[2:], y.shape[2:]
    places, rows = math.prod(grid), math.prod(weight.shape[1:])
    column_bytes = max(rows * groups, weight.shape[0]) * places * y.dtype.itemsize
    ones = (1,) * len(image)
    return _Form(
        (*(() if groups == 1 else (groups,)), weight.shape[0] // groups, rows),
        places,
        max(_COLUMN_BYTES // max(column_bytes, 1), 1),
        image == grid and kernel == steps[0] == ones and not any(steps[1]),
        widest is not None and groups == 1 and (places >= widest or x.shape[0] == 1),
        (kernel, grid, *steps),
    )


def _in_parts(
    kernel: Callable[..., None], images: int, given: tuple[Slot | None, ...], how: tuple[Any, ...]
) -> None:
    """Process a limited number of images at a time, because the columns of all images would take
    too much memory.
    """
    slots = [slot for slot in given if slot is not None]
    slots[-1].launches.append(Call(functools.partial(_run_parts, kernel, images, how), (*slots,)))


def _run_parts(
    kernel: Callable[..., None],
    images: int,
    how: tuple[Any, ...],
    grid: Any,
    block: Any,
    given: tuple[Any, ...],
) -> None:
    import cupy

    first, second, *bias, out = given
    table = _table_of(kernel, how, out.device.id)
    for start in range(0, first.shape[0], images):
        some = slice(start, start + images)
        if kernel is not _by_weight:
            table.run(first[some], second, bias[0] if bias else None, out[some])
        elif start == 0:
            table.run(first[some], second[some], out)
        else:
            more = cupy.empty(out.shape, out.dtype)
            table.run(first[some], second[some], more)
            pointwise(_SUM, [out, more], out)


def _columns(images: Slot, form: _Form) -> Any:
    """Return the columns of images, as the matrix that forward multiplies by the weight."""
    if form.is_plain and form.is_apart:
        return _packed(images).seen_as((*images.shape[:2], form.places))
    if form.is_plain:
        return _together(images, _rows(form))
    columns = _room_for_columns(images, form)
    (unfold if form.is_apart else unfold_together)(images, columns, *form.sliding)
    return columns


def _room_for_columns(images: Slot, form: _Form) -> Scratch:
    n = images.shape[0]
    if form.is_apart:
        return Scratch((n, *_rows(form), form.places), images.dtype)
    return Scratch((*_rows(form), n * form.places), images.dtype)


def _rows(form: _Form) -> Sizes:
    """Return the shape of the columns without the axis of positions."""
    return (*form.weight[:-2], form.weight[-1])


def _packed(array: Slot) -> Any:
    """Return array if it is in C order, otherwise a copy in C order."""
    copy = Scratch(array.shape, array.dtype)
    steps = zip(array.shape, array.strides, copy.strides, strict=True)
    if all(length == 1 or own == packed for length, own, packed in steps):
        return array
    launch(plan(_SAME, [array], copy))
    return copy


def _together(images: Slot, channels: Sizes) -> Any:
    """Return images as a matrix with a row per channel, and the positions of all images as columns.
    `channels` is the shape of the rows, with an axis for groups if there are any.
    """
    shape = (*channels, images.size // math.prod(channels))
    if images.shape[0] == 1:
        return _packed(images).seen_as(shape)
    joined = Scratch(shape, images.dtype)
    launch(plan(_SAME, [images], _by_image(joined, images)))
    return joined


def _separate(joined: Scratch, bias: Slot | None, images: Slot) -> None:
    """Copy a product, computed for all images together, to `images`, and add bias. This is the
    inverse of _together.
    """
    given: list[Any] = [_by_image(joined, images)]
    if bias is not None:
        given.append(_by_channel(bias, images))
    launch(plan(_SAME if bias is None else _SUM, given, images))


def _shift(bias: Slot | None, images: Slot) -> None:
    """Add bias to images, if there is a bias."""
    if bias is not None:
        launch(plan(_SUM, [images, _by_channel(bias, images)], images))


def _by_image(joined: Scratch, images: Slot) -> Scratch:
    """Return a view, with the axes of `images`, of the joint matrix of all images."""
    n, _, *space = images.shape
    steps = [joined.dtype.itemsize]
    for length in reversed((n, *space)):
        steps.append(steps[-1] * length)
    channel, image, *within = reversed(steps)
    return joined.seen_as(images.shape, (image, channel, *within))


def _by_channel(bias: Slot, images: Slot) -> Slot:
    ones = (1,) * (images.ndim - 2)
    return bias.seen_as((*bias.shape, *ones), (*bias.strides, *[0 for _ in ones]))


def _turned(matrices: Any) -> Any:
    """Return a view of the transposed matrices."""
    *lead, rows, columns = matrices.shape
    *steps, of_rows, of_columns = matrices.strides
    return matrices.seen_as((*lead, columns, rows), (*steps, of_columns, of_rows))


def _multiply(x: Any, y: Any, out: Any, launches: list[Launch | Call]) -> None:
    if math.prod(out.shape):
        launches.append(product_step(x, y, out, choice=convolutions))


def _is_direct(weight: Slot, groups: int) -> bool:
    length = math.prod(weight.shape[1:])
    return not length or (groups > 1 and length <= _THIN)


def _direct(
    name: str, arrays: tuple[Slot | None, ...], out: Slot, sliding: tuple[Any, ...], how: Any
) -> None:
    """Launch a convolution without columns. `sliding` holds the shapes of x, weight and y."""
    x, weight, y = sliding
    *steps, groups = how
    given = [None if one is None else _packed(one) for one in arrays]
    sizes = (x[2:], weight.shape[2:], y[2:], *steps)
    launch(plan_direct(name, given, out, x[0], weight, sizes, groups))


def plan_direct(
    name: str, arrays: Any, out: Any, images: int, weight: Any, sliding: Any, groups: int
) -> list[Launch]:
    """Return the launch of forward, by_input or by_weight without columns; no launch if out is
    empty. All arrays are in C order.
    """
    if not out.size:
        return []
    inputs, outputs = weight.shape[1], weight.shape[0] // groups
    fields = (out.size, images, groups, inputs, outputs, *three_axes(*sliding))
    task = int64_fields(*fields, arrays[-1] is not None)
    # A missing array is not read, but a pointer must be passed for it.
    given = [arrays[0] if one is None else one for one in arrays]
    threads = out.size * (32 if name == "by_weight" else 1)
    source = source_of_convolution(out.dtype, wide=threads + THREADS >= 2**32)
    return [Launch(source, name, (-(-threads // THREADS), 1), (*given, out, task))]


@functools.lru_cache(maxsize=256)
def source_of_convolution(dtype: np.dtype[Any], *, wide: bool = False) -> str:
    """Return the CUDA source for arrays of one dtype."""
    real = adding_type(dtype)
    return f"""{headers_for([dtype])}
typedef {C_TYPES[dtype]} Stored;
typedef {real} Real;
typedef {"unsigned long long" if wide else "unsigned int"} Index;
{text_of("nn/convolution.cu")}"""
