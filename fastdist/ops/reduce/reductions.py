"""Sums, means and other reductions over axes."""

from __future__ import annotations

from typing import Any

from ...core.dtypes import DType, bool_, int64, uint8
from ...core.errors import DTypeError, NoKernelError
from ...dispatch.composite import composite
from ...dispatch.node_writer import OpNode
from ...dispatch.op import OPS
from ...dispatch.structured import Plan, StructuredOp, structured
from ...graph.modes import may_be_differentiated, tls
from ...tensor.axes import Axes, Dims, normalize_axes, normalize_axis, reduced_shape
from ...tensor.layout import Layout
from ...tensor.promotion import get_default_dtype
from ...tensor.tensor import Tensor
from .. import late_ops
from ..create.creation import full
from ..pointwise.complex_numbers import conjugate
from .cumulative_sums import has_zero, product_after, product_before
from .row_slopes import length_of_rows, logsumexp_slope, variance_slope


def reducing_plan(
    name: str,
    input: Tensor,
    dim: Dims,
    keepdim: bool,
    dtype: DType,
    numbers: tuple[Any, ...] = (),
    compute: DType | None = None,
) -> Plan:
    """Return the plan of a kernel with the parameters (x, out, axes, *numbers)."""
    shape = input._layout.shape
    axes = normalize_axes(name, dim, shape)
    view_shape = reduced_shape(shape, axes, True) if keepdim else None
    short = reduced_shape(shape, axes, False)
    return Plan(short, dtype, (axes, *numbers), compute=compute, view_shape=view_shape)


def restore_axes(reduced: Any, layout: Layout, dim: Dims, keepdim: bool) -> Any:
    """Return a reduced tensor with its reduced axes restored as axes of length 1."""
    if keepdim or not layout.shape:
        return reduced
    axes = normalize_axes("", dim, layout.shape)
    return reduced.reshape(reduced_shape(layout.shape, axes, True))


def count(layout: Layout, dim: Dims) -> int:
    """Return the number of elements that are reduced to one element of the result."""
    n = 1
    for axis in normalize_axes("", dim, layout.shape):
        n *= layout.shape[axis]
    return n


# Ops that compute the unreduced values of a loss.
_LOSSES = frozenset(
    {
        *("binary_entropy", "huber_difference", "logit_entropy", "smooth_difference"),
        "squared_difference",
    }
)


def _names_by_axes(op: StructuredOp) -> None:
    """Set the names of the Nodes of a reduction. A Node for given axes has the suffix ".1", because
    PyTorch has a separate formula for axes. A Node that reduces a loss has the name of the loss,
    because PyTorch computes and reduces a loss in one Node.
    """

    @op.names_node
    def _(node: OpNode) -> str:
        if node.naming_route.attributes[0] is not None:
            return f"{op.name}.1"
        below = getattr(node.edges[0], "op", None)
        return OPS[below.name].node if below is not None and below.name in _LOSSES else op.name


@structured(
    "reduce.reductions.sum",
    kernel_gradients=True,
    linear=True,
    takes_complex=True,
    computes_in_out=True,
)
def sum(
    input: Tensor,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Tensor:
    """Return the sum over dim, or over all axes.

    Shape   (..., n, ...) -> (..., ...), or (..., 1, ...) with keepdim
    Dtype   integers and bool are added in int64; floating -> the same
    Raises  IndexError if an axis does not exist

    Args:
        input: A tensor of any dtype. The sum of no elements is 0; one NaN makes the sum NaN.
        dim: The axis or axes to sum over; all if None.
        keepdim: Whether the reduced axes stay, with length 1.
        dtype: The dtype of the additions and of the result; int64 for integers if None.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor without the axes dim, or with length 1 for each of them if keepdim is true.

    Example:
        >>> x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> torch.sum(x)
        tensor(10.)
        >>> x.sum(dim=0, keepdim=True)
        tensor([[4., 6.]])
    """


_names_by_axes(sum)


@sum.plan
def _(input: Tensor, dim: Dims, keepdim: bool, dtype: DType | None) -> Plan:
    given = input._layout.dtype
    dtype = dtype or (given if given.may_have_gradient else int64)
    return reducing_plan("sum", input, dim, keepdim, dtype, compute=dtype)


@sum.vjp("input")
def _(g: Tensor, input_layout: Layout, dim: Dims, keepdim: bool) -> Any:
    return restore_axes(g, input_layout, dim, keepdim).expand(input_layout.shape)


@structured(
    "reduce.reductions.mean",
    kernel_gradients=True,
    linear=True,
    fresh=True,
    takes_complex=True,
    out="cast",
)
def mean(
    input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """Return the mean over dim, or over all axes. The mean of no elements is NaN.

    Raises  RuntimeError for integers and bool, unless dtype is floating; IndexError if dim is out
            of range

    Args:
        input: A floating-point or complex tensor, or one of integers with dtype given.
        dim: The axis or axes to average over; all if None.
        keepdim: Whether the reduced axes stay, with length 1.
        dtype: The dtype of the computation and of the result; None means the dtype of input.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor without the axes dim, or with length 1 for each of them if keepdim is true.

    Example:
        >>> torch.mean(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), dim=1)
        tensor([1.5000, 3.5000])
    """


_names_by_axes(mean)


@mean.plan
def _(input: Tensor, dim: Dims, keepdim: bool, dtype: DType | None) -> Plan:
    dtype = dtype or input._layout.dtype
    if not dtype.may_have_gradient:
        raise DTypeError(
            "mean(): could not infer output dtype. Input dtype must be either a floating point or "
            f"complex dtype. Got: {dtype.name}"
        )
    return reducing_plan("mean", input, dim, keepdim, dtype, compute=dtype)


@mean.vjp("input")
def _(g: Tensor, input_layout: Layout, dim: Dims, keepdim: bool) -> Any:
    shared = restore_axes(g, input_layout, dim, keepdim) / max(count(input_layout, dim), 1)
    return shared.expand(input_layout.shape)


@structured("reduce.reductions.prod", has_out=True, takes_complex=True, computes_in_out=True)
def prod(
    input: Tensor, dim: int | None = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """Return the product over dim, or over all axes.

    Dtype   integers and bool are multiplied in int64; floating -> the same
    Raises  IndexError if dim is out of range

    Args:
        input: A tensor of any dtype. The product of no elements is 1.
        dim: The axis to multiply along; all axes if None.
        keepdim: Whether the reduced axes stay, with length 1.
        dtype: The dtype of the products and of the result; int64 for integers if None.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.prod(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), dim=0)
        tensor([3., 8.])
    """


_names_by_axes(prod)


@prod.plan
def _(input: Tensor, dim: Dims, keepdim: bool, dtype: DType | None) -> Plan:
    given = input._layout.dtype
    dtype = dtype or (given if given.may_have_gradient else int64)
    return reducing_plan("prod", input, dim, keepdim, dtype, compute=dtype)


def _others(input: Any, out: Any, dim: Dims, keepdim: bool) -> Any:
    """Return, for each element, the product of all other elements along dim; its dtype is out's."""
    if not input._layout.shape:
        return full((), 1.0, dtype=out._layout.dtype, device=out._layout.device)
    if not has_zero(input):
        return restore_axes(out, input._layout, dim, keepdim) / input
    input = input.to(out._layout.dtype)
    if dim is None:
        flat = input.reshape(-1)
        return (product_before(flat, 0) * product_after(flat, 0)).reshape(input._layout.shape)
    axis = normalize_axis("prod", dim, len(input._layout.shape))
    return product_before(input, axis) * product_after(input, axis)


@prod.vjp("input")
def _(g: Tensor, input: Tensor, out: Tensor, dim: Dims, keepdim: bool) -> Any:
    return restore_axes(g, input._layout, dim, keepdim) * conjugate(
        _others(input, out, dim, keepdim)
    )


@prod.jvp
def _(input: Tensor, input_t: Tensor, out: Tensor, dim: Dims, keepdim: bool) -> Any:
    return (input_t * _others(input, out, dim, keepdim)).sum(dim, keepdim)


def _logical(name: str, input: Tensor, dim: Dims, keepdim: bool) -> Plan:
    dtype = uint8 if input._layout.dtype is uint8 else bool_
    return reducing_plan(name, input, dim, keepdim, dtype)


@structured("reduce.reductions.all", takes_complex=True, out="truth")
def all(input: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """Return whether all elements over dim are nonzero; True if there are no elements.

    Raises  IndexError if dim is out of range

    Args:
        input: A tensor of any dtype. NaN counts as nonzero.
        dim: The axis or axes to reduce; all if None.
        keepdim: Whether the reduced axes stay, with length 1.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of bool, or of uint8 if input is uint8.

    Example:
        >>> torch.all(torch.tensor([[True, False], [True, True]]), dim=1)
        tensor([False,  True])
    """


@all.plan
def _(input: Tensor, dim: Dims, keepdim: bool) -> Plan:
    return _logical("all", input, dim, keepdim)


@structured("reduce.reductions.any", takes_complex=True, out="truth")
def any(input: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """Return whether any element over dim is nonzero; False if there are no elements.

    Raises  IndexError if dim is out of range

    Args:
        input: A tensor of any dtype. NaN counts as nonzero.
        dim: The axis or axes to reduce; all if None.
        keepdim: Whether the reduced axes stay, with length 1.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of bool, or of uint8 if input is uint8.

    Example:
        >>> torch.any(torch.tensor([[False, False], [True, False]]), dim=1)
        tensor([False,  True])
    """


@any.plan
def _(input: Tensor, dim: Dims, keepdim: bool) -> Plan:
    return _logical("any", input, dim, keepdim)


@structured("reduce.reductions.count_nonzero", has_out=False, takes_complex=True)
def count_nonzero(input: Tensor, dim: Dims = None) -> Tensor:
    """Return the number of nonzero elements over dim."""


@count_nonzero.plan
def _(input: Tensor, dim: Dims) -> Plan:
    return reducing_plan("count_nonzero", input, dim, False, int64)


def require_floating(name: str, input: Tensor) -> DType:
    """Return the dtype of input.

    Raises  RuntimeError if the dtype is not floating
    """
    dtype = input._layout.dtype
    if dtype.is_complex:
        raise NoKernelError(f"{name} does not take complex numbers yet, got {dtype.name}")
    if not dtype.is_floating_point:
        raise DTypeError(
            f"{name} only support floating point and complex dtypes, got {dtype.name}; cast with "
            ".to(fastdist.float32)"
        )
    return dtype


@structured(
    "reduce.reductions.var",
    kernel_gradients=True,
    fresh=True,
    homes="nowhere",
    known_as="var",
    has_out=True,
    out="cast",
)
def variance(input: Tensor, dim: Dims, correction: float, keepdim: bool) -> Tensor:
    """Return the sum of squared deviations over dim, divided by (number of elements -
    correction).
    """


@variance.plan
def _(input: Tensor, dim: Dims, correction: float, keepdim: bool) -> Plan:
    dtype = require_floating("std and var", input)
    return reducing_plan("var", input, dim, keepdim, dtype, (float(correction),))


def _deviations(input: Tensor, dim: Dims, correction: float) -> Any:
    n = count(input._layout, dim)
    left = max(n - correction, 0.0)
    scale = 2.0 / left if left else float("inf")
    dims = normalize_axes("var", dim, input._layout.shape)
    return (input - input.mean(dims, True)) * scale


@variance.vjp("input")
def _(
    g: Tensor, input: Tensor, input_layout: Layout, dim: Dims, correction: float, keepdim: bool
) -> Any:
    if tls.grad:
        length = length_of_rows("var", input, dim, g)
        if length is not None and length > correction:
            return variance_slope(g, input, length, 2.0 / (length - correction))
    return restore_axes(g, input_layout, dim, keepdim) * _deviations(input, dim, correction)


@variance.jvp
def _(input: Tensor, input_t: Tensor, dim: Dims, correction: float, keepdim: bool) -> Any:
    dims = normalize_axes("var", dim, input._layout.shape)
    return (input_t * _deviations(input, dim, correction)).sum(dims, keepdim)


@structured("reduce.reductions.logsumexp", kernel_gradients=True, fresh=True, out="cast")
def logsumexp(input: Tensor, dim: int | tuple[int, ...], keepdim: bool = False) -> Tensor:
    """Return log(sum(exp(input))) over dim, without overflow.

    Raises  IndexError if dim is out of range

    Args:
        input: A tensor of any dtype; integers are converted to the default dtype. The result for no
            elements is -inf.
        dim: The axis, or several as a tuple.
        keepdim: Whether the reduced axes stay, with length 1.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.logsumexp(torch.tensor([1000.0, 1000.0]), dim=0)
        tensor(1000.6932)
    """


@logsumexp.plan
def _(input: Tensor, dim: Dims, keepdim: bool) -> Plan:
    given = input._layout.dtype
    dtype = given if given.is_floating_point else get_default_dtype()
    return reducing_plan("logsumexp", input, dim, keepdim, dtype, compute=dtype)


@logsumexp.vjp("input")
def _(g: Tensor, input: Tensor, out: Tensor, input_layout: Layout, dim: Dims, keepdim: bool) -> Any:
    if tls.grad:
        length = length_of_rows("logsumexp", input, dim, g)
        if length is not None:
            return logsumexp_slope(g, input, length)
    g = restore_axes(g, input_layout, dim, keepdim)
    if may_be_differentiated():
        # If the gradient may be differentiated again, it is computed with the op softmax: see
        # softmax.py.
        return g * _shares(input, dim)
    return g * (input - restore_axes(out, input_layout, dim, keepdim)).exp()


def _shares(input: Tensor, dim: Dims) -> Any:
    """Return exp(input) divided by its sum over dim, which is one axis or several."""
    shape = input._layout.shape
    dims = normalize_axes("logsumexp", dim, shape)
    if len(dims) == 1 or not shape:
        return late_ops.softmax(input, dims[0] if dims else 0)
    order = [axis for axis in range(len(shape)) if axis not in dims] + list(dims)
    moved = input.permute(order)
    found = late_ops.softmax(moved.reshape(*moved._layout.shape[: len(shape) - len(dims)], -1), -1)
    back = sorted(range(len(order)), key=order.__getitem__)
    return found.reshape(moved._layout.shape).permute(back)


@logsumexp.jvp
def _(
    input: Tensor, input_t: Tensor, out: Tensor, input_layout: Layout, dim: Dims, keepdim: bool
) -> Any:
    dims = normalize_axes("logsumexp", dim, input_layout.shape)
    return (input_t * _shares(input, dim)).sum(dims, keepdim)


@composite(out="cast", node="nansum")
def nansum(input: Tensor, dim: Axes = None, keepdim: bool = False) -> Tensor:
    """Return the sum over dim of the elements that are not NaN."""
    return input.masked_fill(input.isnan(), 0.0).sum(dim, keepdim)


@composite(out="cast")
def nanmean(input: Tensor, dim: Axes = None, keepdim: bool = False) -> Tensor:
    """Return the mean over dim of the elements that are not NaN.

    Raises  RuntimeError for integers and bool
    """
    if not input._layout.dtype.is_floating_point:
        raise DTypeError(
            "nanmean(): expected input to have floating point or complex dtype but got "
            f"{input._layout.dtype.name}; cast with .to(fastdist.float32)"
        )
    counted = input.isnan().logical_not().to(input.dtype).sum(dim, keepdim)
    return nansum(input, dim, keepdim) / counted
