"""Cumulative sums and products along an axis, and the recurrence for their derivatives."""

from __future__ import annotations

from typing import Any

from ...core.dtypes import DType, int64
from ...dispatch.structured import Plan, structured
from ...tensor.axes import normalize_axis
from ...tensor.layout import Layout
from ...tensor.tensor import Tensor
from ..create.creation import full
from ..pointwise.complex_numbers import conjugate
from ..shape.joining import cat
from ..shape.splitting import narrow


def _plan_of_scan(name: str, layout: Layout, dim: int, dtype: DType | None) -> Plan:
    dtype = dtype or (layout.dtype if layout.dtype.may_have_gradient else int64)
    axis = normalize_axis(name, dim, len(layout.shape))
    return Plan(layout.shape, dtype, (axis,), compute=dtype)


@structured(
    "reduce.scan.cumsum",
    linear=True,
    kernel_gradients=True,
    fresh=True,
    homes="function method inplace",
    takes_complex=True,
    computes_in_out=True,
    memory="apart",
)
def cumsum(input: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:
    """Return the cumulative sum along dim.

    Dtype   integers and bool are added in int64; floating -> the same
    Raises  IndexError if dim is out of range

    Args:
        input: A tensor of any dtype. After a NaN, all sums are NaN.
        dim: The axis along which to add.
        dtype: The dtype of the additions and of the result; int64 for integers if None.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.cumsum(torch.tensor([1, 2, 3]), dim=0)
        tensor([1, 3, 6])
    """


@cumsum.plan
def _(input: Tensor, dim: int, dtype: DType | None) -> Plan:
    return _plan_of_scan("cumsum", input._layout, dim, dtype)


@cumsum.vjp("input")
def _(g: Tensor, dim: int) -> Any:
    return g.flip(dim).cumsum(dim).flip(dim)


@structured(
    "reduce.scan.cumprod",
    fresh=True,
    homes="function method inplace",
    takes_complex=True,
    computes_in_out=True,
    memory="apart",
)
def cumprod(input: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:
    """Return the cumulative product along dim.

    Dtype   integers and bool are multiplied in int64; floating -> the same
    """


@cumprod.plan
def _(input: Tensor, dim: int, dtype: DType | None) -> Plan:
    return _plan_of_scan("cumprod", input._layout, dim, dtype)


# Note [Derivatives of running products]
# out[k] = input[k] * out[k - 1] is a linear recurrence. The tangent t of out and the gradient of
# input are computed by linear recurrences, too (g is the gradient of out):
#
#     t[k] = input[k] * t[k - 1] + input_t[k] * out[k - 1]
#     s[k] = input[k + 1] * s[k + 1] + g[k],  and the gradient is s[k] * out[k - 1]
#
# Each recurrence takes one pass over the elements and no division, so the results are correct for
# zeros. The op `recurrence` computes t and s. The two recurrences are adjoint to each other, so
# derivatives of all orders take a few passes. If no element is 0, cumulative sums and quotients
# replace the recurrences. These ops are only limited by memory bandwidth.


def has_zero(input: Tensor) -> bool:
    """Return whether any element is 0."""
    return bool((input == 0).any())


@cumprod.vjp("input")
def _(g: Tensor, input: Tensor, out: Tensor, dim: int) -> Any:
    if not input._layout.shape or input._layout.shape[dim] == 1:
        return g * 1
    input, out = conjugate(input), conjugate(out)
    if not has_zero(input):
        return (g * out).flip(dim).cumsum(dim).flip(dim) / input
    sums = recurrence(input.to(g._layout.dtype), g, dim, backwards=True)
    return sums * moved(out, dim, first=1.0)


@cumprod.jvp
def _(input: Tensor, input_t: Tensor, out: Tensor, dim: int) -> Any:
    if not input._layout.shape or input._layout.shape[dim] == 1:
        return input_t * 1
    if not has_zero(input):
        return (input_t / input).cumsum(dim) * out
    parts = input_t * moved(out, dim, first=1.0)
    return recurrence(input.to(out._layout.dtype), parts, dim, backwards=False)


def product_before(input: Tensor, dim: int) -> Any:
    """Return, for each element, the product of all elements before it along dim, without
    division.
    """
    return cumprod(moved(input, dim, first=1.0), dim)


def product_after(input: Tensor, dim: int) -> Any:
    """Return, for each element, the product of all elements after it along dim, without
    division.
    """
    return product_before(input.flip(dim), dim).flip(dim)


def moved(x: Any, dim: int, *, first: float) -> Any:
    """Return x shifted forward by one along dim: `first` is inserted at the start, and the last
    element is dropped.
    """
    shape = x._layout.shape
    if not shape[dim]:
        return x
    entering = _filled(x, dim, first)
    return cat([entering, narrow(x, dim, 0, shape[dim] - 1)], dim)


def _moved_back(x: Tensor, dim: int) -> Any:
    """Return x shifted back by one along dim: the first element is dropped, and 0 is appended."""
    shape = x._layout.shape
    if not shape[dim]:
        return x
    return cat([narrow(x, dim, 1, shape[dim] - 1), _filled(x, dim, 0.0)], dim)


def _filled(x: Any, dim: int, value: float) -> Any:
    shape = list(x._layout.shape)
    shape[dim] = 1
    return full(tuple(shape), value, dtype=x._layout.dtype, device=x._layout.device)


@structured(
    "reduce.scan.recurrence",
    fresh=True,
    homes="nowhere",
    known_as="cumprod_backward",
    takes_complex=True,
)
def recurrence(factor: Tensor, input: Tensor, dim: int, backwards: bool) -> Tensor:
    """Return y, where y[k] = factor[k] * y[k - 1] + input[k] along dim and y[0] = input[0]. If
    `backwards` is true, y[k] = factor[k + 1] * y[k + 1] + input[k], and the last elements of y and
    input are equal.

    Dtype   both tensors must have the same dtype and shape
    """


@recurrence.plan
def _(factor: Tensor, input: Tensor, dim: int, backwards: bool) -> Plan:
    layout = input._layout
    axis = normalize_axis("recurrence", dim, len(layout.shape))
    return Plan(layout.shape, layout.dtype, (axis, backwards), compute=layout.dtype)


@recurrence.vjp("input")
def _(g: Tensor, factor: Tensor, dim: int, backwards: bool) -> Any:
    return recurrence(conjugate(factor), g, dim, not backwards)


@recurrence.vjp("factor")
def _(g: Tensor, factor: Tensor, out: Tensor, dim: int, backwards: bool) -> Any:
    sums, out = recurrence(conjugate(factor), g, dim, not backwards), conjugate(out)
    return moved(sums, dim, first=0.0) * out if backwards else sums * moved(out, dim, first=0.0)


@recurrence.jvp
def _(
    factor: Tensor, factor_t: Tensor | None, input_t: Tensor, out: Tensor, dim: int, backwards: bool
) -> Any:
    parts = input_t
    if factor_t is not None:
        by_factor = (
            _moved_back(factor_t * out, dim) if backwards else factor_t * moved(out, dim, first=0.0)
        )
        parts = by_factor if parts is None else parts + by_factor
    return recurrence(factor, parts, dim, backwards)
