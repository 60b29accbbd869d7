"""Indexing of sparse tensors, and joining them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.dtypes import int64
from ...core.errors import ShapeError
from ...core.short_repr import short_repr
from ...interpreters.sparse_rules import is_sparse, on_sparse, refusal
from ...tensor.promotion import result_dtype
from ...tensor.tensor import Tensor
from ..create.ranges import arange
from ..index.searchsorted import searchsorted
from ..shape.joining import cat
from .conversion import entries_of, sparse_of


@on_sparse("basic_index")
def part(input: Any, index: Sequence[Any]) -> Any:
    """Return input indexed with integers; a slice in the index may select only a whole axis."""
    given = [one for one in index if one is not Ellipsis]
    if any(not isinstance(one, int) and one != slice(None) for one in given):
        raise refusal(f"index with {short_repr(tuple(index))}", input)
    at = index.index(Ellipsis) if Ellipsis in index else len(given)
    missing = len(input._layout.shape) - len(given)
    whole = [*given[:at], *[slice(None)] * missing, *given[at:]]
    for axis in reversed(range(len(whole))):
        if isinstance(whole[axis], int):
            input = _select(input, axis, whole[axis])
    return input


def _select(input: Tensor, axis: int, place: int) -> Any:
    """Return the part of input at one index of an axis, without that axis. The part is dense if no
    sparse axis remains.
    """
    shape, axes = input._layout.shape, input._array.indices.shape[0]
    if not -shape[axis] <= place < shape[axis]:
        raise IndexError(
            f"index {short_repr(place)} is out of bounds for dimension {axis} with size "
            f"{shape[axis]}"
        )
    place %= shape[axis]
    indices, values, is_whole = entries_of(input)
    rest = (*shape[:axis], *shape[axis + 1 :])
    if axis >= axes:
        return sparse_of(
            indices, values.select(axis - axes + 1, place), rest, is_coalesced=is_whole
        )
    kept = (indices[axis] == place).nonzero().reshape(-1)
    values = values.index_select(0, kept)
    if axes == 1:
        return values.sum(0)
    others = [one for one in range(axes) if one != axis]
    indices = indices[others].index_select(1, kept)
    return sparse_of(indices, values, rest, is_coalesced=is_whole)


@on_sparse("select_slices")
def _select_slices(input: Any, index: Any, axis: int) -> Any:
    shape, axes = input._layout.shape, input._array.indices.shape[0]
    axis %= len(shape)
    indices, values, is_whole = entries_of(input)
    chosen = index.detach().reshape(-1).to(int64)
    count = chosen._layout.shape[0]
    out_shape = (*shape[:axis], count, *shape[axis + 1 :])
    if axis >= axes:
        values = values.index_select(axis - axes + 1, chosen)
        return sparse_of(indices, values, out_shape, is_coalesced=is_whole)
    if count and not bool(((chosen >= 0) & (chosen < shape[axis])).all()):
        raise IndexError(
            f"index_select(): index contains a place outside of dimension {axis}, which has "
            f"{shape[axis]}"
        )
    # Each entry is repeated for each element of `index` that equals the entry's coordinate.
    wanted, order = chosen.sort(stable=True)
    row = indices[axis].contiguous()
    begins, ends = searchsorted(wanted, row), searchsorted(wanted, row, right=True)
    positions, at = meetings(begins, ends - begins)
    found = indices.index_select(1, positions)
    found[axis] = order.index_select(0, at)
    return sparse_of(found, values.index_select(0, positions), out_shape)


def meetings(begins: Tensor, counts: Tensor) -> tuple[Any, Any]:
    """Return two vectors of equal length. The first one contains each i, repeated counts[i] times.
    At the positions of i, the second one contains the numbers begins[i], begins[i] + 1, ...
    """
    device = begins._layout.device
    positions: Any = arange(begins._layout.shape[0], dtype=int64, device=device)
    positions = positions.repeat_interleave(counts)
    number: Any = arange(positions._layout.shape[0], dtype=int64, device=device)
    before = counts.cumsum(0) - counts
    return positions, begins.index_select(0, positions) + number - before.index_select(0, positions)


@on_sparse("cat")
def joined_along(tensors: Sequence[Any], dim: int) -> Any:
    """Return sparse tensors joined along a sparse axis."""
    if not all(is_sparse(one) for one in tensors):
        raise RuntimeError(
            "Concatenating sparse tensors, but a dense tensor was found: to_sparse()"
        )
    shapes = [one._layout.shape for one in tensors]
    first, axes = shapes[0], tensors[0]._array.indices.shape[0]
    if not -len(first) <= dim < len(first):
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-len(first)}, "
            f"{len(first) - 1}], but got {short_repr(dim)})"
        )
    dim %= len(first)
    if dim >= axes:
        raise refusal("cat along a dense axis", tensors[0])
    for shape, one in zip(shapes, tensors, strict=True):
        if (*shape[:dim], *shape[dim + 1 :]) != (*first[:dim], *first[dim + 1 :]):
            raise ShapeError(f"All tensors must have the same shape along other axes: {shapes}")
        if one._array.indices.shape[0] != axes:
            raise ShapeError("All tensors must have the same number of sparse axes")
    dtype = result_dtype(tensors)
    start, found, values = 0, [], []
    for shape, one in zip(shapes, tensors, strict=True):
        indices, own, _ = entries_of(one)
        moved = indices.clone()
        moved[dim] += start
        start += shape[dim]
        found.append(moved)
        values.append(own.to(dtype))
    shape = (*first[:dim], start, *first[dim + 1 :])
    return sparse_of(cat(found, 1), cat(values), shape)


@on_sparse("any")
def _any(input: Any, *attributes: Any) -> Any:
    if any(one not in (None, False) for one in attributes):
        raise refusal("any along axes", input)
    return entries_of(input)[1].any()
