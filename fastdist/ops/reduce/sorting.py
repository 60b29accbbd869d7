"""Sorting, the k largest elements, and distinct elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.device import CPU
from ...core.dtypes import bool_, int64
from ...core.errors import DTypeError, ShapeError
from ...core.short_repr import short_repr
from ...dispatch.composite import composite
from ...dispatch.structured import Plan, StructuredOp, structured
from ...tensor.axes import DimError, normalize_axis
from ...tensor.layout import Layout, Shape
from ...tensor.tensor import Tensor, from_array
from .. import return_types
from ..index.indexing import scatter_zeros


@structured("reduce.sorting.sort", homes="nowhere", known_as="sort")
def sort_along(input: Tensor, dim: int, descending: bool) -> tuple[Tensor, Tensor]:
    """Return input sorted along dim, and the indices of its elements."""


@sort_along.plan
def _(input: Tensor, dim: int, descending: bool) -> Plan:
    layout = input._layout
    axis = normalize_axis("sort", dim, len(layout.shape))
    extra = ((layout.shape, int64),)
    return Plan(layout.shape, layout.dtype, (axis, bool(descending)), extra_outputs=extra)


@structured("reduce.sorting.topk", homes="nowhere", known_as="topk")
def topk_along(input: Tensor, k: int, dim: int, largest: bool) -> tuple[Tensor, Tensor]:
    """Return the k largest (or smallest) elements along dim in order, and their indices."""


@topk_along.plan
def _(input: Tensor, k: int, dim: int, largest: bool) -> Plan:
    shape = input._layout.shape
    axis = normalize_axis("topk", dim, len(shape))
    if input._layout.dtype is bool_:
        raise DTypeError("topk does not support bool dtypes on CPU; cast with .to(fastdist.uint8)")
    if not 0 <= k <= (shape[axis] if shape else 1):
        raise DimError(f"selected index k out of range: {k} of {shape}")
    short = (*shape[:axis], k, *shape[axis + 1 :]) if shape else ()
    numbers = (axis, int(k), bool(largest))
    return Plan(short, input._layout.dtype, numbers, extra_outputs=((short, int64),))


@structured(
    "reduce.sorting.nth", fresh=True, homes="nowhere", known_as="kthvalue", batch="same axes"
)
def nth_along(input: Tensor, places: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Return the elements at the positions `places` (from 0) after a sort of input along dim, and
    their indices in input. NaN is sorted last; equal elements keep their order.
    """


@nth_along.plan
def _(input: Tensor, places: Tensor, dim: int) -> Plan:
    axis = normalize_axis("kthvalue", dim, len(input._layout.shape))
    shape = places._layout.shape
    return Plan(shape, input._layout.dtype, (axis,), extra_outputs=((shape, int64),))


def _picking(op: StructuredOp) -> None:
    """Add the derivatives of an op that sorts or selects along dim. The results are the elements of
    input at the returned indices.
    """

    @op.vjp("input")
    def _(g: Tensor, input_layout: Layout, dim: int, others: tuple[Tensor, ...]) -> Any:
        return scatter_zeros(g, others[0], input_layout.shape, dim)

    @op.jvp
    def _(input_t: Any, dim: int, others: Any) -> Any:
        return input_t.gather(dim, others[0])


_picking(sort_along)
_picking(topk_along)
_picking(nth_along)


@composite(out="same", known_as="", memory="apart")
def sort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    """Return the elements sorted along dim. NaN counts as largest; equal elements keep their order.

    Raises  IndexError if dim is out of range; NotImplementedError if input is complex

    Args:
        input: A real tensor of any dtype.
        dim: The axis to sort along, by default the last.
        descending: Whether the largest element comes first.
        stable: Ignored: the order of equal elements is always kept.
        out: A pair of tensors into which the values and indices are written; new ones if None.

    Returns:
        A pair with the fields `values` and `indices`.

    Example:
        >>> torch.sort(torch.tensor([3, 1, 2]))
        fastdist.return_types.sort(
        values=tensor([1, 2, 3]),
        indices=tensor([1, 2, 0]))
    """
    return return_types.sort(*sort_along(input, dim, descending))


@composite(out="same")
def argsort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Tensor:
    """Return the indices that sort input along dim.

    Raises  IndexError if dim is out of range; NotImplementedError if input is complex

    Args:
        input: A real tensor of any dtype. NaN counts as largest.
        dim: The axis to sort along, by default the last.
        descending: Whether the largest element comes first.
        stable: Ignored: the order of equal elements is always kept.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of int64 of the shape of input.

    Example:
        >>> torch.argsort(torch.tensor([3, 1, 2]))
        tensor([1, 2, 0])
    """
    return sort_along(input, dim, descending)[1]


@composite(out="same", memory="apart")
def msort(input: Tensor) -> Tensor:
    """Return input sorted along its first axis."""
    return sort_along(input, 0, False)[0]


@composite(out="same", known_as="", memory="apart")
def topk(input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """Return the k largest or smallest elements along dim, sorted.

    Raises  IndexError if dim is out of range, or the axis has fewer than k elements; RuntimeError
            if input is bool or complex

    Args:
        input: A real tensor of any dtype but bool. NaN counts as largest.
        k: The number of elements to return, from 0 to the length of the axis.
        dim: The axis to search along, by default the last.
        largest: Whether to return the largest elements, or the smallest ones.
        sorted: Ignored: the elements are always sorted.
        out: A pair of tensors into which the values and indices are written; new ones if None.

    Returns:
        A pair with the fields `values` and `indices`.

    Example:
        >>> torch.topk(torch.tensor([3, 1, 4, 1]), 2)
        fastdist.return_types.topk(
        values=tensor([4, 3]),
        indices=tensor([2, 0]))
    """
    return return_types.topk(*topk_along(input, k, dim, largest))


@composite(known_as="_unique2")
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """Return the distinct elements, or the distinct slices along dim, sorted. On a GPU, the call
    waits for the number of distinct elements.

    Raises  RuntimeError for slices without elements; IndexError if dim is out of range

    Args:
        input: A tensor of any dtype. Each NaN counts as distinct.
        sorted: Ignored: the elements are always sorted.
        return_inverse: Whether to also return, for each element, its index in the result.
        return_counts: Whether to also return how often each element occurs.
        dim: The axis whose slices are compared; elements are compared if None.

    Returns:
        A tensor, or a tuple of this tensor, the inverse indices and the counts, as requested.

    Example:
        >>> torch.unique(torch.tensor([3, 1, 3]), return_counts=True)
        (tensor([1, 3]), tensor([1, 2]))
    """
    if dim is None and input._layout.device is not CPU:
        return _unique_of_device(input, return_inverse, return_counts)
    dtype = input._layout.dtype
    # Half types are cast, because NumPy does not sort NaN correctly in a bfloat16 array.
    array = input.to_numpy().astype(dtype.computes_in.numpy, copy=False)
    if dim is not None:
        dim = _axis_of_slices(array.shape, dim)
    elif not return_inverse and not return_counts:
        return from_array(_distinct(array).astype(dtype.numpy, copy=False))
    values, inverse, counts = np.unique(
        array, return_inverse=True, return_counts=True, axis=dim, equal_nan=False
    )
    values = values.astype(dtype.numpy, copy=False)
    wanted = [values, inverse.reshape(array.shape if dim is None else (-1,)), counts]
    chosen = [True, return_inverse, return_counts]
    made = [
        from_array(np.array(one, order="C")).to(input._layout.device)
        for one, wish in zip(wanted, chosen, strict=True)
        if wish
    ]
    return made[0] if len(made) == 1 else tuple(made)


def _distinct(array: Any) -> Any:
    """Return the distinct elements in ascending order; each NaN counts as distinct.

    Note    np.unique takes twice as long for few numbers
    """
    ordered = array.flatten()
    ordered.sort()
    begins = np.ones(ordered.size, bool)
    np.not_equal(ordered[1:], ordered[:-1], begins[1:])
    return ordered[begins]


def _unique_of_device(input: Tensor, return_inverse: bool, return_counts: bool) -> Any:
    """Return the result of unique, computed on the device. The call waits only for the number of
    distinct elements.
    """
    from ..create.creation import full, ones
    from ..index.searchsorted import places_that_hold
    from ..shape.joining import cat

    layout = input._layout
    n, where = layout.numel, layout.device
    ordered, order = sort_along(input.detach().reshape(-1), 0, False)
    changed: Any = ordered[1:] != ordered[:-1]
    begins: Any = cat([ones(min(n, 1), dtype=bool_, device=where), changed], 0)
    places = places_that_hold(begins)
    made = [ordered.index_select(0, places)]
    if return_inverse:
        ranks = begins.cumsum(0) - 1
        made.append(ranks.index_select(0, order.argsort()).reshape(layout.shape))
    if return_counts:
        ends = cat([places[1:], full((min(n, 1),), n, dtype=int64, device=where)], 0)
        made.append(ends - places)
    return made[0] if len(made) == 1 else tuple(made)


def _axis_of_slices(shape: Shape, dim: int) -> int:
    """Return the axis whose slices are compared.

    Raises  IndexError if the axis does not exist; RuntimeError if the slices have no elements
    """
    if not shape:
        raise DimError(f"Dimension specified as {short_repr(dim)} but tensor has no dimensions")
    axis = normalize_axis("unique", dim, len(shape))
    if 0 in shape and (shape[axis] or shape.count(0) > 1):
        raise ShapeError(
            "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied: "
            f"shape {list(shape)} along {axis}"
        )
    return axis
