"""Convolutions and their adjoints on the CPU, by im2col, one block of columns at a time, and BLAS.

Arithmetic is the bottleneck: with 64 channels or more, the matrix product takes four fifths of the
time. On one core of an AMD EPYC (Zen 3), for 16 images of 64 channels and 16 x 16 pixels, and a
kernel of 3 x 3, the product takes 3.7 ms, and making the columns takes 0.6.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from ..jit.background import is_numpys_turn
from ..jit.kernel_cache import find_function
from ..linalg.product import multiply, multiply_turned
from ..silence import silent
from .patches import COMPILED, LANES, Block, Patches, Sizes, Sliding, matrix_of

Array = np.ndarray[Any, Any]

# Groups with at most this many pairs of an input and an output channel do not use columns and BLAS.
_THIN: Final = 4


def forward(
    x: Array,
    weight: Array,
    bias: Array | None,
    out: Array,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    groups: int,
) -> None:
    """Write the cross-correlation of x with weight, plus bias, into out.

    Shapes (n, c, *image), (o, c / groups, *kernel), (o) -> (n, o, *grid), one dtype; padding is the
    padding before an image.
    """
    x = np.ascontiguousarray(x)
    sliding = Sliding.of(x.shape[2:], weight.shape[2:], out.shape[2:], stride, padding, dilation)
    if _is_thin(weight, groups):
        _thin_forward(x, weight, bias, out, sliding, groups)
        return
    for images, matrix, results, part in _groups(x, weight, out, groups):
        _multiply(Patches(sliding, images), matrix, None if bias is None else bias[part], results)


@silent
def _is_thin(weight: Array, groups: int) -> bool:
    thin = groups > 1 and weight.shape[1] * weight.shape[0] <= _THIN * groups
    return thin and weight.dtype in COMPILED


def _thin_forward(
    x: Array, weight: Array, bias: Array | None, y: Array, sliding: Sliding, groups: int
) -> None:
    if np.isfinite(weight).all() and not _is_numpys_turn("convolve", weight, sliding.stride):
        _sum_up(x, weight, bias, y, sliding, groups, (1, 1, 1))
    else:
        _begin(y, bias)
        _tap_by_tap("forward", x, weight, y, sliding, groups)


def _thin_by_input(
    y: Array, weight: Array, bias: Array | None, x: Array, sliding: Sliding, groups: int
) -> None:
    """Write the transposed convolution: the correlation of y, whose elements are a stride apart,
    with the flipped weight, whose inputs and outputs are exchanged.
    """
    if not np.isfinite(weight).all() or _is_numpys_turn("convolve", weight, (1, 1, 1)):
        _begin(x, bias)
        _tap_by_tap("by_input", x, weight, y, sliding, groups)
        return
    inputs, kernel = weight.shape[1], weight.shape[2:]
    parts = weight.reshape(groups, -1, inputs, *kernel).swapaxes(1, 2)
    turned = np.flip(parts, tuple(range(3, parts.ndim)))
    sizes = zip(sliding.kernel, sliding.dilation, sliding.padding, strict=True)
    before, once = tuple([(k - 1) * wide - p for k, wide, p in sizes]), (1, 1, 1)
    back = Sliding(sliding.grid, sliding.kernel, sliding.image, once, before, sliding.dilation)
    weight = turned.reshape(inputs * groups, -1, *kernel)
    _sum_up(y, weight, bias, x, back, groups, sliding.stride)


def _thin_by_weight(x: Array, out: Array, y: Array, sliding: Sliding, groups: int) -> None:
    out.fill(0)
    if not y.size:
        return
    if _is_numpys_turn("correlate", out, sliding.stride):
        _tap_by_tap("by_weight", x, out, y, sliding, groups)
        return
    room, offsets, words = _thin_room(out, sliding, (len(x), groups, out.shape[1]), (1, 1, 1))
    flat = [x.reshape(-1), y.reshape(-1), out.reshape(-1)]
    _thin_loop("correlate", out.dtype, sliding.stride[2])(*flat, room, offsets, words)
    if np.isnan(out).any():
        out.fill(0)
        _tap_by_tap("by_weight", x, out, y, sliding, groups)


def _begin(out: Array, bias: Array | None) -> None:
    if bias is None:
        out.fill(0)
    else:
        out[...] = bias.reshape(-1, *(1,) * (out.ndim - 2))


def _inside(sliding: Sliding, axis: int, at: int) -> tuple[slice, slice]:
    """Return the part of the image that a kernel element reads, and its positions in the grid."""
    stride, grid = sliding.stride[axis], sliding.grid[axis]
    offset = at * sliding.dilation[axis] - sliding.padding[axis]
    low = max(-(offset // stride), 0)
    high = max(min((sliding.image[axis] - 1 - offset) // stride + 1, grid), low)
    first = low * stride + offset
    return slice(first, first + (high - low) * stride, stride), slice(low, high)


# Note [Zeros around an image]
# The compiled loops also multiply the zeros around an image, and 0 times an inf or a NaN is NaN. If
# the operand that is multiplied by the zeros contains an inf or a NaN, _tap_by_tap is used instead
# of the loops. It iterates over the kernel elements and uses only the pixels inside the image, as
# the definition of a convolution does. It is also used while the loops are being compiled.
@silent
def _tap_by_tap(
    name: str, x: Array, weight: Array, y: Array, sliding: Sliding, groups: int
) -> None:
    x = x.reshape(len(x), groups, -1, *sliding.image)
    y = y.reshape(len(y), groups, -1, *sliding.grid)
    weight = weight.reshape(groups, -1, x.shape[2], *sliding.kernel)
    for tap in np.ndindex(sliding.kernel):
        inside = [_inside(sliding, axis, at) for axis, at in enumerate(tap)]
        ours, theirs = [
            side[:, :, :, *part] for side, part in zip((x, y), zip(*inside), strict=True)
        ]
        place = weight[:, :, :, *tap]
        if name == "forward":
            theirs += np.einsum("ngidhw,goi->ngodhw", ours, place)
        elif name == "by_input":
            ours += np.einsum("ngodhw,goi->ngidhw", theirs, place)
        else:
            place += np.einsum("ngidhw,ngodhw->goi", ours, theirs)


def _sum_up(
    x: Array, weight: Array, bias: Array | None, y: Array, sliding: Sliding, groups: int,
    apart: Sizes,
) -> None:  # fmt: skip
    """Write the correlation of x, with elements `apart` from each other, with a weight of shape
    (outputs, inputs, kernel).
    """
    if not y.size:
        return
    room, offsets, words = _thin_room(weight, sliding, (len(x), groups, weight.shape[1]), apart)
    bias = np.zeros(y.shape[1], y.dtype) if bias is None else np.ascontiguousarray(bias)
    flat = [x.reshape(-1), np.ascontiguousarray(weight).reshape(-1), bias, y.reshape(-1)]
    _thin_loop("convolve", y.dtype, sliding.stride[2])(*flat, room, offsets, words)


def _thin_room(weight: Array, sliding: Sliding, sizes: Sizes, apart: Sizes) -> tuple[Any, ...]:
    """Return a buffer for the padded channels of a group, the offsets (in bytes) of the kernel's
    elements in this buffer, and all sizes as one array.
    """
    (*_, inputs), (_, seen_h, seen_w) = sizes, sliding.seen
    room = np.zeros(inputs * math.prod(sliding.seen) + LANES * sliding.stride[2], weight.dtype)
    steps = (math.prod(sliding.seen), seen_h * seen_w, seen_w, 1)
    axes = zip((inputs, *sliding.kernel), steps, (1, *sliding.dilation), strict=True)
    along = [np.arange(n) * step * wide for n, step, wide in axes]
    offsets = functools.reduce(np.add, np.ix_(*along)).reshape(-1) * weight.itemsize
    s = sliding
    outputs = (weight.shape[0] // sizes[1], 0, 0)
    words = (s.image, s.seen, apart, s.padding, s.grid, s.stride, sizes, outputs)
    return room, offsets.astype(np.int64), np.array(words, np.int64)


def _thin_loop(name: str, dtype: Any, step: int) -> Any:
    return find_function("nn.thin_loops", "loop_of", name, dtype.name, step if step < 3 else 0)


def _is_numpys_turn(name: str, weight: Array, stride: Sizes) -> bool:
    """Return whether NumPy must be used, while the loop for these strides is compiled."""
    return is_numpys_turn(_thin_loop, name, weight.dtype, stride[2])


def _groups(x: Array, weight: Array, y: Array, groups: int) -> Iterator[tuple[Any, ...]]:
    """Yield for each group its channels of x, its weight as a matrix, its channels of y, and the
    slice of its channels of y.
    """
    inputs, outputs = x.shape[1] // groups, y.shape[1] // groups
    for group in range(groups):
        part = slice(group * outputs, (group + 1) * outputs)
        ours = slice(group * inputs, (group + 1) * inputs)
        yield x[:, ours], weight[part].reshape(outputs, -1), y[:, part], part


def _target(out: Array, block: Block, sliding: Sliding) -> Array:
    """Return the memory for a block of out: a view of out if the block is of one image."""
    if block.images == 1:
        return matrix_of(out, block, sliding)
    return np.empty((out.shape[1], block.columns), out.dtype)


def _store(matrix: Array, out: Array, block: Block) -> None:
    whole = out[block.first : block.first + block.images]
    parts = matrix.reshape(out.shape[1], block.images, *out.shape[2:])
    np.copyto(whole, parts.swapaxes(0, 1))


@silent
def _multiply(patches: Patches, matrix: Array, bias: Array | None, out: Array) -> None:
    column = None if bias is None else bias[:, None]
    for block in patches.blocks:
        target = _target(out, block, patches.sliding)
        multiply(matrix, patches.gather(block), target)
        if column is not None:
            np.add(target, column, out=target)
        if block.images > 1:
            _store(target, out, block)


def by_input(
    y: Array,
    weight: Array,
    bias: Array | None,
    out: Array,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    groups: int,
) -> None:
    """Write the adjoint of forward in x, plus bias, into out: each element of y is added, times the
    weight, to the elements of out from which `forward` would compute it.

    Shapes (n, o, *grid), (o, c / groups, *kernel), (c) -> (n, c, *image), one dtype.
    """
    y = np.ascontiguousarray(y)
    sliding = Sliding.of(out.shape[2:], weight.shape[2:], y.shape[2:], stride, padding, dilation)
    if _is_thin(weight, groups):
        _thin_by_input(y, weight, bias, out, sliding, groups)
        return
    for results, matrix, images, _ in _groups(out, weight, y, groups):
        _spread(Patches(sliding, results), matrix.T, images)
    if bias is not None:
        _add_bias(out, bias)


@silent
def _add_bias(out: Array, bias: Array) -> None:
    np.add(out, bias.reshape(-1, *(1,) * (out.ndim - 2)), out=out)


@silent
def _spread(patches: Patches, matrix: Array, y: Array) -> None:
    sliding = patches.sliding
    if not sliding.is_identity:
        patches.clear()
    for block in patches.blocks:
        given = matrix_of(y, block, sliding)
        if sliding.is_identity:
            target = _target(patches.images, block, sliding)
            multiply(matrix, given, target)
            if block.images > 1:
                _store(target, patches.images, block)
        else:
            room = patches.room(block)
            multiply(matrix, given, room)
            patches.scatter(room, block)


def by_weight(
    y: Array,
    x: Array,
    out: Array,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    groups: int,
) -> None:
    """Write the adjoint of forward in the weight into out: sums of y times the matching elements of
    x.

    Shapes (n, o, *grid), (n, c, *image) -> (o, c / groups, *kernel), one dtype.
    """
    x, y = np.ascontiguousarray(x), np.ascontiguousarray(y)
    sliding = Sliding.of(x.shape[2:], out.shape[2:], y.shape[2:], stride, padding, dilation)
    if _is_thin(out, groups):
        _thin_by_weight(x, out, y, sliding, groups)
        return
    for images, matrix, given, _ in _groups(x, out, y, groups):
        _correlate(Patches(sliding, images), given, matrix)


@silent
def _correlate(patches: Patches, y: Array, out: Array) -> None:
    if not patches.blocks:
        out.fill(0)
        return
    more = None
    for block in patches.blocks:
        given, columns = matrix_of(y, block, patches.sliding), patches.gather(block)
        if more is None:
            multiply_turned(given, columns, out)
            more = np.empty_like(out)
        else:
            multiply_turned(given, columns, more)
            np.add(out, more, out=out)
