"""Convolutions and their adjoints, on the CPU: a block of columns at a time, and the BLAS.

Bound by arithmetic: the product takes four fifths of the time where there are 64 channels or more.
One core of an AMD EPYC (Zen 3), 16 images of 64 channels, 16 x 16, kernel 3 x 3: 3.7 ms in the
product, 0.6 ms in laying out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from .patches import COMPILED, Block, Patches, Sizes, Sliding, matrix_of
from .product import multiply, multiply_turned
from .silence import silent

Array = np.ndarray[Any, Any]

# Groups of so few pairs of channels go without columns and the BLAS.
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
    """Write the sums of x under the sliding weight, and bias, into out.

    Shapes (n, c, *image), (o, c / groups, *kernel), (o) -> (n, o, *grid), one dtype; padding is
    what lies before an image. float16 multiplies and adds in float32 and rounds once.
    """
    if out.dtype == np.float16:
        _in_float32(forward, (x, weight, bias), out, stride, padding, dilation, groups)
        return
    x = np.ascontiguousarray(x)
    sliding = Sliding.of(x.shape[2:], weight.shape[2:], out.shape[2:], stride, padding, dilation)
    if _is_thin(weight, groups):
        _begin(out, bias)
        _run_thin("forward", x, np.ascontiguousarray(weight), out, sliding, groups)
        return
    for images, matrix, results, part in _groups(x, weight, out, groups):
        _multiply(Patches(sliding, images), matrix, None if bias is None else bias[part], results)


@silent
def _in_float32(
    kernel: Callable[..., None], arrays: tuple[Array | None, ...], out: Array, *how: Any
) -> None:
    wide = np.empty(out.shape, np.float32)
    kernel(*[None if one is None else one.astype(np.float32) for one in arrays], wide, *how)
    np.copyto(out, wide, casting="unsafe")


def _is_thin(weight: Array, groups: int) -> bool:
    thin = groups > 1 and weight.shape[1] * weight.shape[0] <= _THIN * groups
    return thin and weight.dtype in COMPILED


def _begin(out: Array, bias: Array | None) -> None:
    if bias is None:
        out.fill(0)
    else:
        out[...] = bias.reshape(-1, *(1,) * (out.ndim - 2))


def _run_thin(name: str, x: Array, weight: Array, y: Array, sliding: Sliding, groups: int) -> None:
    # Numba comes with these, on first use.
    from .thin_loops import LOOPS

    inputs, outputs = weight.shape[1], weight.shape[0] // groups
    words = np.array([*sliding, (len(x), groups, inputs), (outputs, 0, 0)], np.int64)
    flat = [array.reshape(-1) for array in (x, weight, y)]
    LOOPS[name, weight.dtype](*flat, words)


def _groups(x: Array, weight: Array, y: Array, groups: int) -> Iterator[tuple[Any, ...]]:
    """Yield for each group its channels of x, its weight as a matrix, its channels of y, and which
    of y's these are.
    """
    inputs, outputs = x.shape[1] // groups, y.shape[1] // groups
    for group in range(groups):
        part = slice(group * outputs, (group + 1) * outputs)
        ours = slice(group * inputs, (group + 1) * inputs)
        yield x[:, ours], weight[part].reshape(outputs, -1), y[:, part], part


def _target(out: Array, block: Block, sliding: Sliding) -> Array:
    """Return where a block's numbers of out are written: out itself if it is of one image."""
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
    """Write the adjoint of forward in x, and bias, into out: each number of y spread over what it
    was summed from.

    Shapes (n, o, *grid), (o, c / groups, *kernel), (c) -> (n, c, *image), one dtype.
    """
    if out.dtype == np.float16:
        _in_float32(by_input, (y, weight, bias), out, stride, padding, dilation, groups)
        return
    y = np.ascontiguousarray(y)
    sliding = Sliding.of(out.shape[2:], weight.shape[2:], y.shape[2:], stride, padding, dilation)
    if _is_thin(weight, groups):
        _begin(out, bias)
        _run_thin("by_input", out, np.ascontiguousarray(weight), y, sliding, groups)
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
    """Write the adjoint of forward in the weight into out: sums of y times what it was summed from.

    Shapes (n, o, *grid), (n, c, *image) -> (o, c / groups, *kernel), one dtype.
    """
    if out.dtype == np.float16:
        _in_float32(by_weight, (y, x), out, stride, padding, dilation, groups)
        return
    x, y = np.ascontiguousarray(x), np.ascontiguousarray(y)
    sliding = Sliding.of(x.shape[2:], out.shape[2:], y.shape[2:], stride, padding, dilation)
    if _is_thin(out, groups):
        out.fill(0)
        _run_thin("by_weight", x, out, y, sliding, groups)
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
