"""Extracting patches from images, and adding patches into images: unfold and fold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...core.dtypes import bool_
from ...core.errors import ShapeError
from ...core.short_repr import short_repr
from ...dispatch.composite import composite
from ...dispatch.structured import Plan, structured
from ...tensor.layout import Layout
from ...tensor.tensor import Tensor

Ints = tuple[int, ...]


@structured(
    "nn.patches.unfold",
    linear=True,
    fresh=True,
    homes="nowhere",
    batch="first axis",
    known_as="im2col",
)
def lay_out_patches(
    input: Tensor,
    kernel: tuple[int, ...],
    grid: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
) -> Tensor:
    """Return the patches of a batch of images as columns.

    Shape   (n, c, *image) -> (n, c * kernel, grid)
    """


@lay_out_patches.plan
def _(input: Tensor, kernel: Ints, grid: Ints, stride: Ints, padding: Ints, dilation: Ints) -> Plan:
    n, channels = input._layout.shape[:2]
    shape = (n, channels * math.prod(kernel), math.prod(grid))
    return Plan(shape, input._layout.dtype, (kernel, grid, stride, padding, dilation))


@lay_out_patches.vjp("input")
def _(
    g: Tensor, input_layout: Layout, kernel: Ints, grid: Ints, stride: Ints, padding: Ints,
    dilation: Ints,
) -> Any:  # fmt: skip
    size = input_layout.shape[2:]
    return add_patches(g, size, kernel, grid, stride, padding, dilation)


@structured(
    "nn.patches.fold",
    linear=True,
    fresh=True,
    homes="nowhere",
    batch="first axis",
    known_as="col2im",
)
def add_patches(
    input: Tensor,
    size: tuple[int, ...],
    kernel: tuple[int, ...],
    grid: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
) -> Tensor:
    """Add patches at their positions in images of zeros. This is the adjoint of lay_out_patches.

    Shape   (n, c * kernel, grid) -> (n, c, *size)
    """


@add_patches.plan
def _(
    input: Tensor, size: Ints, kernel: Ints, grid: Ints, stride: Ints, padding: Ints, dilation: Ints
) -> Plan:
    n, rows = input._layout.shape[:2]
    shape = (n, rows // math.prod(kernel), *size)
    return Plan(shape, input._layout.dtype, (kernel, grid, stride, padding, dilation))


@add_patches.vjp("input")
def _(g: Tensor, kernel: Ints, grid: Ints, stride: Ints, padding: Ints, dilation: Ints) -> Any:
    return lay_out_patches(g, kernel, grid, stride, padding, dilation)


@composite(homes="functional", node="im2col")
def unfold(
    input: Tensor,
    kernel_size: int | tuple[int, ...],
    dilation: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] = 0,
    stride: int | tuple[int, ...] = 1,
) -> Tensor:
    """Return the patches that a sliding window cuts out of images, as columns.

    Shape   (n, c, h, w) or (c, h, w) -> (n, c * kernel, patches)
    """
    kernel, stride, padding, dilation = _numbers(kernel_size, stride, padding, dilation)
    _require_floating("unfold", input)
    shape = input._layout.shape
    if len(shape) not in (3, 4) or 0 in shape[-3:]:
        raise ShapeError(
            "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero "
            f"dimensions for input, but got: {list(shape)}"
        )
    grid = _grid(shape[-2:], kernel, stride, padding, dilation)
    if min(grid) < 1:
        raise ShapeError(
            f"Given input with spatial size {shape[-2:]}, kernel_size={kernel}, "
            f"dilation={dilation}, padding={padding}, calculated shape of the array of sliding "
            f"blocks as {grid}, but its components must be at least one."
        )
    batch = input if len(shape) == 4 else input.unsqueeze(0)
    found = lay_out_patches(batch, kernel, grid, stride, padding, dilation)
    return found if len(shape) == 4 else found.squeeze(0)


@composite(homes="functional", known_as="col2im")
def fold(
    input: Tensor,
    output_size: int | tuple[int, ...],
    kernel_size: int | tuple[int, ...],
    dilation: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] = 0,
    stride: int | tuple[int, ...] = 1,
) -> Tensor:
    """Add patches at the positions from which unfold reads patches, in images of output_size.

    Shape   (n, c * kernel, patches) or (c * kernel, patches) -> (n, c, h, w)
    """
    size = _two("output_size", output_size)
    kernel, stride, padding, dilation = _numbers(kernel_size, stride, padding, dilation)
    _require_floating("fold", input)
    shape = input._layout.shape
    if len(shape) not in (2, 3) or 0 in shape[-2:]:
        raise ShapeError(
            "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and "
            f"non-zero dimensions for input, but got: {list(shape)}"
        )
    if shape[-2] % math.prod(kernel):
        raise ShapeError(
            "Expected size of input's dimension 1 to be divisible by the product of kernel_size, "
            f"but got input.size(1)={shape[-2]} and kernel_size={kernel}."
        )
    grid = _grid(size, kernel, stride, padding, dilation)
    if math.prod(grid) != shape[-1] or min(grid) < 1:
        raise ShapeError(
            f"Given output_size={short_repr(size)}, kernel_size={kernel}, dilation={dilation}, "
            f"padding={padding}, stride={stride}, expected size of input's dimension 2 to match "
            f"the calculated number of sliding blocks {grid[0]} * {grid[1]} = {math.prod(grid)}, "
            f"but got input.size(2)={shape[-1]}."
        )
    batch = input if len(shape) == 3 else input.unsqueeze(0)
    found = add_patches(batch, size, kernel, grid, stride, padding, dilation)
    return found if len(shape) == 3 else found.squeeze(0)


def _require_floating(name: str, input: Tensor) -> None:
    dtype = input._layout.dtype
    if not dtype.may_have_gradient and dtype is not bool_:
        raise NotImplementedError(f"{name} is not implemented for {dtype.name}; cast with .to()")


def _numbers(
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None,
    padding: int | Sequence[int],
    dilation: int | Sequence[int],
) -> list[Ints]:
    kernel, wide = _two("kernel_size", kernel_size), _two("dilation", dilation)
    before, step = _two("padding", padding), _two("stride", stride)
    for what, name, numbers, least in (
        ("kernel size should be greater than zero", "kernel", kernel, 1),
        ("dilation should be greater than zero", "dilation", wide, 1),
        ("padding should be non-negative", "pad", before, 0),
        ("stride should be greater than zero", "stride", step, 1),
    ):
        if min(numbers) < least:
            height, width = numbers
            raise ShapeError(f"{what}, but got {name}_height: {height} {name}_width: {width}")
    return [kernel, step, before, wide]


def _two(name: str, value: Any) -> Ints:
    if not isinstance(value, tuple | list):
        return (value.__index__(),) * 2
    numbers = tuple([one.__index__() for one in value])
    if len(numbers) not in (1, 2):
        raise ShapeError(f"It is expected {name} equals to 2, but got size {len(numbers)}")
    return numbers * 2 if len(numbers) == 1 else numbers


def _grid(size: Sequence[int], kernel: Ints, stride: Ints, padding: Ints, dilation: Ints) -> Ints:
    axes = zip(size, kernel, stride, padding, dilation, strict=True)
    return tuple([(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in axes])
