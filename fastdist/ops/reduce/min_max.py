"""Maxima and minima over axes, and their indices."""

from __future__ import annotations

from typing import Any

from ...core.dtypes import bool_, int64
from ...core.errors import DTypeError, ShapeError
from ...dispatch.composite import composite
from ...dispatch.op import OPS, Op
from ...dispatch.structured import Plan, StructuredOp, structured
from ...dispatch.target import GivenOut, store_in_out
from ...interpreters.batched_tensor import levels
from ...tensor.axes import Axes, DimError, Dims, normalize_axes, normalize_axis, reduced_shape
from ...tensor.layout import Layout
from ...tensor.tensor import Tensor
from .. import return_types
from ..index.indexing import scatter_zeros
from ..pointwise.masked import where as where_op
from .reductions import reducing_plan, restore_axes


def _require_elements(name: str, input: Tensor, dim: Dims) -> None:
    shape = input._layout.shape
    for axis in normalize_axes(name, dim, shape):
        if shape[axis] == 0:
            raise DimError(f"{name}(): Expected reduction dim {axis} to have non-zero size.")


def _shared(of: Tensor, input: Tensor, out: Tensor, dims: Dims) -> Any:
    """Return `of`, divided evenly among the elements of input that equal out, and 0 for other
    elements; NaN where out is NaN.
    """
    mask = input == out
    # `where` is used instead of a product with the mask: for elements that are not the extreme,
    # 0 * inf would be NaN.
    return where_op(mask, of, 0.0) / mask.sum(dims, True)


def _extreme(op: StructuredOp) -> None:
    """Add the plan and derivatives of amax or amin."""

    @op.plan
    def _(input: Tensor, dim: Dims, keepdim: bool) -> Plan:
        _require_elements(op.name, input, dim)
        return reducing_plan(op.name, input, dim, keepdim, input._layout.dtype)

    @op.vjp("input")
    def _(
        g: Tensor, input: Tensor, out: Tensor, dim: Dims, keepdim: bool, input_layout: Layout
    ) -> Any:
        dims = normalize_axes(op.name, dim, input_layout.shape)
        whole = restore_axes(out, input_layout, dim, keepdim)
        return _shared(restore_axes(g, input_layout, dim, keepdim), input, whole, dims)

    @op.jvp
    def _(input: Tensor, input_t: Tensor, out: Tensor, dim: Dims, keepdim: bool) -> Any:
        dims = normalize_axes(op.name, dim, input._layout.shape)
        whole = restore_axes(out, input._layout, dim, keepdim)
        return _shared(input_t, input, whole, dims).sum(dims, keepdim)


@structured("reduce.reductions.amax", kernel_gradients=True, fresh=True)
def amax(input: Tensor, dim: Axes = (), keepdim: bool = False) -> Tensor:
    """Return the maximum over dim; NaN if any element is NaN. Equal elements share the gradient.

    Raises  IndexError if dim is out of range, or an axis to reduce has no elements;
            NotImplementedError if input is complex

    Args:
        input: A real tensor; the axes to reduce must not be empty.
        dim: The axis or axes; all if empty.
        keepdim: Whether the reduced axes stay, with length 1.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.amax(torch.tensor([[1, 5], [7, 2]]), dim=0)
        tensor([7, 5])
    """


@structured("reduce.reductions.amin", kernel_gradients=True, fresh=True)
def amin(input: Tensor, dim: Axes = (), keepdim: bool = False) -> Tensor:
    """Return the minimum over dim; NaN if any element is NaN. Equal elements share the gradient.

    Raises  IndexError if dim is out of range, or an axis to reduce has no elements;
            NotImplementedError if input is complex

    Args:
        input: A real tensor; the axes to reduce must not be empty.
        dim: The axis or axes; all if empty.
        keepdim: Whether the reduced axes stay, with length 1.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.amin(torch.tensor([[1, 5], [7, 2]]), dim=0)
        tensor([1, 2])
    """


_extreme(amax)
_extreme(amin)


def _placed(op: StructuredOp) -> None:
    """Add the plan and derivatives of max_along or min_along."""

    @op.plan
    def _(input: Tensor, dim: int, keepdim: bool) -> Plan:
        name = op.name.partition("_")[0]
        axis = normalize_axis(name, dim, len(input._layout.shape))
        _require_elements(name, input, axis)
        plan = reducing_plan(name, input, axis, keepdim, input._layout.dtype)
        return plan._replace(numbers=(axis,), extra_outputs=((plan.shape, int64),))

    @op.vjp("input")
    def _(
        g: Tensor, input_layout: Layout, dim: int, keepdim: bool, others: tuple[Tensor, ...]
    ) -> Any:
        where = restore_axes(others[0], input_layout, dim, keepdim)
        return scatter_zeros(
            restore_axes(g, input_layout, dim, keepdim), where, input_layout.shape, dim
        )

    @op.jvp
    def _(input_t: Tensor, dim: int, keepdim: bool, others: tuple[Tensor, ...]) -> Any:
        where = restore_axes(others[0], input_t._layout, dim, keepdim)
        found = input_t.gather(dim, where)
        return found if keepdim or not input_t._layout.shape else found.squeeze(dim)


@structured("reduce.reductions.max_along", homes="nowhere", known_as="max")
def max_along(input: Tensor, dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:
    """Return the maximum along dim, and its first index."""


@structured("reduce.reductions.min_along", homes="nowhere", known_as="min")
def min_along(input: Tensor, dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:
    """Return the minimum along dim, and its first index."""


_placed(max_along)
_placed(min_along)


def _of_all(op: StructuredOp) -> None:
    """Add the plan and derivatives of max_of_all or min_of_all."""

    @op.plan
    def _(input: Tensor) -> Plan:
        if input._layout.numel == 0:
            raise ShapeError(
                f"{op.called}(): Expected reduction dim to be specified for input.numel() == 0. "
                "Specify the reduction dim with the 'dim' argument."
            )
        plan = reducing_plan(op.name, input, None, False, input._layout.dtype)
        # None as the axes means all axes. amax and amin pass a list of all axes to the same
        # kernels, and have different gradients from this op if an element is NaN.
        return plan._replace(numbers=(None,))

    @op.batches
    def _(op: Op, operands: tuple[Any, ...], attributes: tuple[Any, ...], level: int) -> Any:
        flat = operands[0].value.reshape(levels.sizes[level - 1], operands[0]._layout.numel)
        return flat.amax(1) if op is max_of_all else flat.amin(1)

    def are_it(input: Any, out: Any) -> Any:
        # All elements that are NaN share the gradient. In amax and amin, one NaN makes every
        # gradient NaN.
        return (input == out).logical_or(input.isnan().logical_and(out.isnan()))

    @op.vjp("input")
    def _(g: Tensor, input: Tensor, out: Tensor) -> Any:
        mask = are_it(input, out)
        return where_op(mask, g / mask.sum(), 0.0)

    @op.jvp
    def _(input: Tensor, input_t: Any, out: Tensor) -> Any:
        mask = are_it(input, out)
        return (where_op(mask, input_t, 0.0) / mask.sum()).sum()


@structured(
    "reduce.reductions.amax",
    kernel_gradients=True,
    fresh=True,
    homes="nowhere",
    known_as="max.1",
    has_out=True,
    out="cast",
)
def max_of_all(input: Tensor) -> Tensor:
    """Return the maximum of all elements; elements equal to it share the gradient."""


@structured(
    "reduce.reductions.amin",
    kernel_gradients=True,
    fresh=True,
    homes="nowhere",
    known_as="min.1",
    has_out=True,
    out="cast",
)
def min_of_all(input: Tensor) -> Tensor:
    """Return the minimum of all elements; elements equal to it share the gradient."""


_of_all(max_of_all)
_of_all(min_of_all)


def _arg_plan(name: str, input: Tensor, dim: Dims, keepdim: bool) -> Plan:
    shape = input._layout.shape
    if input._layout.dtype is bool_:
        raise DTypeError(f"{name}(): does not support bool input; cast with .to(fastdist.uint8)")
    if dim is None:
        if input._layout.numel == 0:
            raise DimError(
                f"{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify "
                "the reduction dim with the 'dim' argument."
            )
        return Plan((), int64, (None,), view_shape=reduced_shape(shape, range(len(shape)), keepdim))
    axis = normalize_axis(name, dim, len(shape))
    _require_elements(name, input, axis)
    plan = reducing_plan(name, input, axis, keepdim, int64)
    return plan._replace(numbers=(axis,))


@structured("reduce.reductions.argmax")
def argmax(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Return the index of the maximum, along dim or in the flattened tensor. Of several equal
    maxima, the first index is returned.

    Raises  IndexError if dim is out of range, or input has no elements; RuntimeError if input is
            bool or complex

    Args:
        input: A real tensor of any dtype but bool, not empty. NaN counts as the extremum.
        dim: The axis to search along; the flattened tensor if None.
        keepdim: Whether the reduced axes stay, with length 1.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of int64.

    Example:
        >>> torch.argmax(torch.tensor([[1, 5], [7, 2]]), dim=1)
        tensor([1, 0])
    """


@argmax.plan
def _(input: Tensor, dim: Dims, keepdim: bool) -> Plan:
    return _arg_plan("argmax", input, dim, keepdim)


@structured("reduce.reductions.argmin")
def argmin(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Return the index of the minimum, along dim or in the flattened tensor. Of several equal
    minima, the first index is returned.

    Raises  IndexError if dim is out of range, or input has no elements; RuntimeError if input is
            bool or complex

    Args:
        input: A real tensor of any dtype but bool, not empty. NaN counts as the extremum.
        dim: The axis to search along; the flattened tensor if None.
        keepdim: Whether the reduced axes stay, with length 1.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of int64.

    Example:
        >>> torch.argmin(torch.tensor([[1, 5], [7, 2]]), dim=1)
        tensor([0, 1])
    """


@argmin.plan
def _(input: Tensor, dim: Dims, keepdim: bool) -> Plan:
    return _arg_plan("argmin", input, dim, keepdim)


def _choose(name: str, input: Tensor, dim: Any, keepdim: bool, other: Any, out: Any) -> Any:
    if isinstance(dim, Tensor):
        other, dim = dim, None
    if other is not None:
        return OPS[f"{name}imum"].public(input, other, out=out)
    if dim is None:
        if keepdim:
            raise TypeError(f'{name}() missing 1 required positional arguments: "dim", for keepdim')
        return OPS[f"{name}_of_all"].public(input, out=out)
    kind = return_types.max if name == "max" else return_types.min
    found = kind(*OPS[f"{name}_along"](input, dim, keepdim))
    return store_in_out(name, out, found, (input,), "same", "apart")


@composite(known_as="", of_one=max_of_all)
def max(
    input: Tensor,
    dim: Tensor | int | None = None,
    keepdim: bool = False,
    *,
    other: Tensor | None = None,
    out: GivenOut = None,
) -> Any:
    """Return the maximum of all elements. With dim, return (values, indices) along dim; with a
    second tensor, return the elementwise maximum of both tensors.

    Raises  RuntimeError if the tensor has no elements; IndexError if dim is out of range

    Args:
        input: A real tensor of any dtype. Of equal extrema along dim, the first index is returned.
        dim: An axis, or a second tensor to compare with; None for all elements.
        keepdim: Whether the reduced axes stay, with length 1.
        other: A second tensor to compare with, element by element; None reduces input.
        out: Tensors into which the result is written; new ones if None.

    Returns:
        A tensor; with dim, a pair with the fields `values` and `indices`. If any element is NaN,
        the result is NaN.

    Example:
        >>> x = torch.tensor([[1, 5], [7, 2]])
        >>> torch.max(x)
        tensor(7)
        >>> torch.max(x, dim=1).indices
        tensor([1, 0])
    """
    return _choose("max", input, dim, keepdim, other, out)


@composite(known_as="", of_one=min_of_all)
def min(
    input: Tensor,
    dim: Tensor | int | None = None,
    keepdim: bool = False,
    *,
    other: Tensor | None = None,
    out: Any = None,
) -> Any:
    """Return the minimum of all elements. With dim, return (values, indices) along dim; with a
    second tensor, return the elementwise minimum of both tensors.

    Raises  RuntimeError if the tensor has no elements; IndexError if dim is out of range

    Args:
        input: A real tensor of any dtype. Of equal extrema along dim, the first index is returned.
        dim: An axis, or a second tensor to compare with; None for all elements.
        keepdim: Whether the reduced axes stay, with length 1.
        other: A second tensor to compare with, element by element; None reduces input.
        out: Tensors into which the result is written; new ones if None.

    Returns:
        A tensor; with dim, a pair with the fields `values` and `indices`. If any element is NaN,
        the result is NaN.

    Example:
        >>> x = torch.tensor([[1, 5], [7, 2]])
        >>> torch.min(x)
        tensor(1)
        >>> torch.min(x, dim=1).values
        tensor([1, 2])
    """
    return _choose("min", input, dim, keepdim, other, out)


@composite(out="same", node="aminmax", memory="apart")
def aminmax(input: Tensor, *, dim: int | None = None, keepdim: bool = False) -> Any:
    """Return the minimum and the maximum of all elements, or of the elements along dim."""
    dims = () if dim is None else dim
    low = amin(input, dims, keepdim)
    return return_types.aminmax(low, amax(input, dims, keepdim))
