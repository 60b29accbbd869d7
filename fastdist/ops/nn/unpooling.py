"""max_unpool: writes elements into zeros, at the indices that max_pool returned."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...core.dtypes import WORDS, int64
from ...core.errors import ShapeError
from ...core.short_repr import short_repr
from ...devices.backend import backend_of
from ...dispatch.composite import composite
from ...interpreters.batched_tensor import unbatched
from ...tensor.tensor import Tensor
from ..create.creation import zeros
from ..index.indexing import scatter
from .pool_arguments import numbers, require_dtype


def _lengths(
    input: Tensor, kernel: Any, stride: Any, padding: Any, output_size: Sequence[int]
) -> tuple[int, ...]:
    """Return the lengths of the result. These are output_size if it is given.

    Raises  ValueError if pooling of a tensor with output_size cannot give the lengths of input
    """
    axes = len(kernel)
    usual = [
        (n - 1) * s + k - 2 * p
        for n, k, s, p in zip(input._layout.shape[-axes:], kernel, stride, padding, strict=True)
    ]
    if output_size is not None:
        given = tuple(output_size)
        if len(given) not in (axes, axes + 2):
            raise ValueError(
                f"output_size should be a sequence containing {axes} or {axes + 2} elements, but "
                f"it has a length of '{len(given)}'"
            )
        given = given[-axes:]
        for dim, (n, m, s) in enumerate(zip(given, usual, stride, strict=True)):
            if not m - s < n < m + s:
                raise ValueError(
                    f'invalid output_size "{given}" (dim {short_repr(dim)} must be between '
                    f"{m - s} and {m + s})"
                )
        usual = [n.__index__() for n in given]
    for dim, n in enumerate(usual):
        if n < 0:
            raise ValueError(
                "max_unpooling: output_size must contain non-negative spatial dimensions, but got "
                f"output_size[{short_repr(dim)}]={n}"
            )
    return tuple(usual)


def _require_fitting(input: Tensor, indices: Tensor, axes: int) -> None:
    shape, dtype = input._layout.shape, indices._layout.dtype
    shown = max(axes, 2)
    if len(shape) not in (axes + 1, axes + 2):
        raise ShapeError(
            f"Input to max_unpooling{shown}d should be a {shown + 1}d or {shown + 2}d Tensor, but "
            f"got a tensor with {len(shape) + shown - axes} dimensions."
        )
    if dtype is not int64:
        raise ShapeError(f"elements in indices should be type int64 but got: {WORDS[dtype]}")
    if indices._layout.shape != shape:
        raise ShapeError(
            "Expected shape of indices to be same as that of the input tensor "
            f"({list(shape)}) but got indices tensor with shape: {list(indices._layout.shape)}"
        )
    for axis in range(len(shape) - axes - 1, len(shape)):
        if shape[axis] == 0:
            raise ShapeError(
                f"max_unpooling{shown}d_forward_out_cpu(): Expected input to have non-zero size "
                f"for non-batch dimensions, but got {list(shape)} with dimension {axis} being "
                "empty."
            )
    require_dtype(f"max_unpool{shown}d", input._layout.dtype, fits=lambda d: d.is_floating_point)


def _require_inside(indices: Tensor, lengths: tuple[int, ...]) -> None:
    layout = indices._layout
    if layout.device.type != "cpu" or not unbatched(indices)._layout.numel:
        return  # a check would wait for the device, and the device's kernels check the indices
    values = backend_of("cpu").to_numpy(unbatched(indices)._array)
    low, high = int(values.min()), int(values.max())
    if low < 0 or high >= math.prod(lengths):
        wrong = values[(values < 0) | (values >= math.prod(lengths))][-1]
        space = "x".join(map(str, lengths if len(lengths) > 1 else (*lengths, 1)))
        raise ShapeError(
            f"Found an invalid max index: {wrong} (output volumes are of size {space})"
        )


def _unpool(
    input: Tensor,
    indices: Tensor,
    kernel_size: int | Sequence[int],
    stride: Any,
    padding: int | Sequence[int],
    output_size: Any,
    axes: int,
) -> Tensor:
    function = f"max_unpool{axes}d"
    kernel = numbers(function, "kernel_size", kernel_size, axes)
    steps = kernel if stride is None else numbers(function, "stride", stride, axes)
    pads = numbers(function, "padding", padding, axes)
    if len(input._layout.shape) >= axes:
        lengths = _lengths(input, kernel, steps, pads, output_size)
    _require_fitting(input, indices, axes)
    _require_inside(indices, lengths)
    layout = input._layout
    lead = layout.shape[:-axes]
    places = math.prod(lengths)
    empty: Any = zeros((*lead, places), dtype=layout.dtype, device=layout.device)
    flat = [one.reshape((*lead, math.prod(layout.shape[-axes:]))) for one in (indices, input)]
    return scatter(empty, -1, *flat).reshape((*lead, *lengths))


@composite(homes="functional", known_as="max_unpool2d", node="squeeze.1")
def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    output_size: Any = None,
) -> Tensor:
    """Return zeros with the elements of input written at `indices` along the last axis. max_pool1d
    returns such indices.
    """
    return _unpool(input, indices, kernel_size, stride, padding, output_size, 1)


@composite(homes="functional")
def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    output_size: Any = None,
) -> Tensor:
    """Return zeros with the elements of input written at `indices` in the last two axes. max_pool2d
    returns such indices.
    """
    return _unpool(input, indices, kernel_size, stride, padding, output_size, 2)


@composite(homes="functional")
def max_unpool3d(
    input: Tensor,
    indices: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    output_size: Any = None,
) -> Tensor:
    """Return zeros with the elements of input written at `indices` in the last three axes.
    max_pool3d returns such indices.
    """
    return _unpool(input, indices, kernel_size, stride, padding, output_size, 3)
