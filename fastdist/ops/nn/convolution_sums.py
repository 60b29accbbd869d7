"""Convolutions as three ops: the factors of one trilinear sum."""

from __future__ import annotations

from typing import Any

from ...dispatch.op import Op
from ...dispatch.structured import Plan, structured
from ...interpreters.batched_tensor import level_of, levels
from ...interpreters.batching import fold_into_first_axis, for_empty_batch, whole
from ...tensor.layout import Layout, Shape
from ...tensor.tensor import Tensor

# Note [The family of convolutions]
# The sum over all n, o, c, p, k of y[n, o, p] * weight[o, c, k] * x[n, c, p * stride + k * dilation
# - padding] is linear in each of y, weight and x. The three ops of this file are the derivatives of
# this sum: `convolve` by y, `convolve_back` by x, and `correlate` by weight. The derivatives of
# each op are computed by the other two ops, with the same stride, padding, dilation and groups.
# Therefore derivatives of all orders exist. A transposed convolution is computed by convolve_back.
#
# `size` is the size of the result. It does not follow from the other arguments: with a stride,
# elements at the end may stay unused, and padding="same" may add one more zero at the end than at
# the beginning.
# `padding` is the padding at the beginning; the padding at the end follows from the sizes.


@structured("nn.convolution.forward", fresh=True, homes="nowhere", known_as="convolution")
def convolve(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    size: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
) -> Tensor:
    """Return the cross-correlation of a batch of images with weight, plus bias.

    Shape   (n, c, *image), (o, c / groups, *kernel), (o) -> (n, o, *size)
    """


@convolve.plan
def _(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    size: Shape,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    groups: int,
) -> Plan:
    shape = (input._layout.shape[0], weight._layout.shape[0], *size)
    return Plan(shape, input._layout.dtype, (stride, padding, dilation, groups))


@convolve.vjp("input")
def _(
    g: Tensor,
    weight: Tensor,
    input_layout: Layout,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    groups: int,
) -> Any:
    size = input_layout.shape[2:]
    return convolve_back(g, weight, None, size, stride, padding, dilation, groups)


@convolve.vjp("weight")
def _(
    g: Tensor,
    input: Tensor,
    weight_layout: Layout,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    groups: int,
) -> Any:
    size = weight_layout.shape[2:]
    return correlate(g, input, size, stride, padding, dilation, groups)


@convolve.vjp("bias")
def _(g: Tensor) -> Any:
    return _over_channels(g)


@convolve.jvp
def _(
    input: Tensor, weight: Tensor, input_t: Tensor | None,
    weight_t: Tensor | None, bias_t: Tensor | None,
    size: Shape, stride: Shape, padding: Shape, dilation: Shape, groups: int,
) -> Any:  # fmt: skip
    how = (None, size, stride, padding, dilation, groups)
    by_input = None if input_t is None else convolve(input_t, weight, *how)
    by_weight = None if weight_t is None else convolve(input, weight_t, *how)
    return _total(by_input, by_weight, bias_t, input._layout.shape[0], size)


@structured(
    "nn.convolution.by_input",
    fresh=True,
    homes="nowhere",
    known_as="convolution_backward",
    node="convolution",
)
def convolve_back(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    size: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
) -> Tensor:
    """Return images of the given size: the sum of copies of weight, one for each element of input,
    multiplied by this element and shifted to its position, plus bias.

    Shape   (n, o, *grid), (o, c / groups, *kernel), (c) -> (n, c, *size)
    """


@convolve_back.plan
def _(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    size: Shape,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    groups: int,
) -> Plan:
    shape = (input._layout.shape[0], weight._layout.shape[1] * groups, *size)
    return Plan(shape, input._layout.dtype, (stride, padding, dilation, groups))


@convolve_back.vjp("input")
def _(
    g: Tensor,
    weight: Tensor,
    input_layout: Layout,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    groups: int,
) -> Any:
    size = input_layout.shape[2:]
    return convolve(g, weight, None, size, stride, padding, dilation, groups)


@convolve_back.vjp("weight")
def _(
    g: Tensor,
    input: Tensor,
    weight_layout: Layout,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    groups: int,
) -> Any:
    size = weight_layout.shape[2:]
    return correlate(input, g, size, stride, padding, dilation, groups)


@convolve_back.vjp("bias")
def _(g: Tensor) -> Any:
    return _over_channels(g)


@convolve_back.jvp
def _(
    input: Tensor, weight: Tensor, input_t: Tensor | None,
    weight_t: Tensor | None, bias_t: Tensor | None,
    size: Shape, stride: Shape, padding: Shape, dilation: Shape, groups: int,
) -> Any:  # fmt: skip
    how = (None, size, stride, padding, dilation, groups)
    by_input = None if input_t is None else convolve_back(input_t, weight, *how)
    by_weight = None if weight_t is None else convolve_back(input, weight_t, *how)
    return _total(by_input, by_weight, bias_t, input._layout.shape[0], size)


@structured(
    "nn.convolution.by_weight", fresh=True, homes="nowhere", known_as="convolution_backward"
)
def correlate(
    grid: Tensor,
    image: Tensor,
    size: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
) -> Tensor:
    """Return the derivative of a convolution with respect to a weight of the given size. This is a
    sum of products of elements of grid and image.

    Shape   (n, o, *grid), (n, c, *image) -> (o, c / groups, *size)
    """


@correlate.plan
def _(
    grid: Tensor,
    image: Tensor,
    size: Shape,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    groups: int,
) -> Plan:
    shape = (grid._layout.shape[1], image._layout.shape[1] // groups, *size)
    return Plan(shape, grid._layout.dtype, (stride, padding, dilation, groups))


@correlate.vjp("grid")
def _(
    g: Tensor,
    image: Tensor,
    grid_layout: Layout,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    groups: int,
) -> Any:
    size = grid_layout.shape[2:]
    return convolve(image, g, None, size, stride, padding, dilation, groups)


@correlate.vjp("image")
def _(
    g: Tensor,
    grid: Tensor,
    image_layout: Layout,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    groups: int,
) -> Any:
    size = image_layout.shape[2:]
    return convolve_back(grid, g, None, size, stride, padding, dilation, groups)


@correlate.jvp
def _(
    grid: Tensor, image: Tensor, grid_t: Tensor | None, image_t: Tensor | None,
    size: Shape, stride: Shape, padding: Shape, dilation: Shape, groups: int,
) -> Any:  # fmt: skip
    how = (size, stride, padding, dilation, groups)
    by_grid = None if grid_t is None else correlate(grid_t, image, *how)
    by_image = None if image_t is None else correlate(grid, image_t, *how)
    return _sum(by_grid, by_image)


def _with_channels(one: Tensor) -> Any:
    """Merge several batches of images: image i gets the channels of image i of every batch."""
    size, n, channels, *space = one._layout.shape
    return one.movedim(0, 1).reshape(n, size * channels, *space)


@convolve.batches
@convolve_back.batches
def _(op: Op, operands: tuple[Any, ...], attributes: tuple[Any, ...], level: int) -> Any:
    """Compute the batched calls as groups of one convolution if each call has a separate weight."""
    if level_of(operands[1:]) < level:
        return fold_into_first_axis(op, operands, attributes, level)
    if not levels.sizes[level - 1]:
        return for_empty_batch(op, operands, attributes, level)
    (input, weight, bias), (*how, groups) = whole(operands, level), attributes
    size, n = input._layout.shape[:2]
    _, out, *kernel = weight._layout.shape
    weight = weight.reshape(size * out, *kernel)
    bias = None if bias is None else bias.reshape(-1)
    found = op.general((_with_channels(input), weight, bias), (*how, groups * size))
    _, channels, *space = found._layout.shape
    return found.reshape(n, size, channels // size, *space).movedim(1, 0)


@correlate.batches
def _(op: Op, operands: tuple[Any, ...], attributes: tuple[Any, ...], level: int) -> Any:
    if not levels.sizes[level - 1]:
        return for_empty_batch(op, operands, attributes, level)
    (grid, image), (*how, groups) = whole(operands, level), attributes
    size = grid._layout.shape[0]
    given = (_with_channels(grid), _with_channels(image))
    found = op.general(given, (*how, groups * size))
    channels, *rest = found._layout.shape
    return found.reshape(size, channels // size, *rest)


def _over_channels(g: Tensor) -> Any:
    return g.sum((0, *range(2, len(g._layout.shape))))


def _sum(a: Tensor | None, b: Tensor | None) -> Any:
    return b if a is None else a if b is None else a + b


def _total(
    by_input: Tensor | None,
    by_weight: Tensor | None,
    bias_t: Tensor | None,
    images: int,
    size: Shape,
) -> Any:
    total = _sum(by_input, by_weight)
    if bias_t is None:
        return total
    column = bias_t.reshape(-1, *(1,) * len(size))
    if total is None:
        return column.expand(images, bias_t._layout.shape[0], *size)
    return total + column
