"""Conversion to and from sparse tensors, coalesce, and access to their coordinates and values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...core.device import Device
from ...core.dtypes import DType, dtype_of, int64
from ...core.errors import ShapeError
from ...core.folded_frames import folds
from ...core.sequences import all_of
from ...core.short_repr import short_repr
from ...dispatch.composite import composite
from ...graph.modes import no_grad
from ...graph.tensor_tangents import levels_of
from ...tensor.promotion import get_default_dtype
from ...tensor.tensor import Tensor
from ..create.creation import empty, tensor, zeros
from ..index.searchsorted import searchsorted
from ..pointwise.masked import where as where_op
from .coordinates import (
    coalesced,
    dense_of,
    flat_places,
    indices_of,
    is_sparse,
    recorded,
    sparse_tensor,
    values_of,
)


def sparse_of(
    indices: Tensor, values: Tensor, shape: Sequence[int], *, is_coalesced: bool = False
) -> Tensor:
    """Return a sparse tensor with these coordinates and values; gradients flow to the values."""
    made = sparse_tensor(indices, values, shape, is_coalesced)
    return recorded(
        made,
        "SparseCooTensorWithDimsAndTensorsBackward0",
        (values,),
        lambda g: (part_at(g, indices),),
        lambda t, _: sparse_of(indices, t[0], shape, is_coalesced=is_coalesced),
    )


def part_at(gradient: Any, indices: Any) -> Any:
    """Return the elements of a gradient at the coordinates `indices`."""
    axes, shape = indices._layout.shape[0], gradient._layout.shape
    if gradient._layout.is_sparse:
        if gradient._array.indices.shape[0] == axes:
            return _entries_at(gradient, indices)
        gradient = to_dense(gradient)
    flat = gradient.reshape(-1, *shape[axes:])
    return flat.index_select(0, flat_places(indices, shape[:axes]))


def _entries_at(gradient: Any, indices: Any) -> Any:
    """Return a sparse gradient's values at the coordinates `indices`, and zeros where the gradient
    has no entry. The cost depends on the number of the gradient's entries, not on its shape.
    """
    whole = coalesce(gradient)
    if whole._array.indices is indices._array:
        return values(whole)
    shape, axes = gradient._layout.shape, indices._layout.shape[0]
    own = values(whole)
    n, rest = own._layout.shape[0], own._layout.shape[1:]
    wanted = flat_places(indices, shape[:axes]).contiguous()
    if not n:
        return own.sum(0).expand((wanted._layout.shape[0], *rest))
    known = flat_places(indices_of(whole), shape[:axes]).contiguous()
    at = searchsorted(known, wanted).clamp(max=n - 1)
    is_there: Any = (known.index_select(0, at) == wanted).reshape(-1, *[1] * len(rest))
    nothing = zeros((), dtype=own._layout.dtype, device=own._layout.device)
    return where_op(is_there, own.index_select(0, at), nothing)


@folds
def sparse_coo_tensor(
    indices: Any = None,
    values: Any = None,
    size: Any = None,
    *,
    dtype: DType | None = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> Tensor:
    """Return the sparse tensor of `values` at the coordinates `indices`. The shape of `indices` is
    (sparse axes, n). Entries with equal coordinates represent their sum. If only a size is given,
    return a tensor without entries.

    Raises  RuntimeError if indices, values and size do not fit together
    Note    coordinates are checked even without check_invariants, because kernels rely on them
    """
    if values is None:
        size, indices = indices if size is None else size, None
    if size is not None:
        size = tuple([int(length) for length in all_of(size)])
    if indices is None:
        made: Any = _empty(size, dtype, device)
        return made.requires_grad_() if requires_grad else made  # type: ignore[no-any-return]
    where = None if device is None else Device.parse(device)
    if not isinstance(values, Tensor):
        values = tensor(values, dtype=dtype, device=where)
    if dtype is not None or where is not None:
        values = values.to(
            device=where or values._layout.device, dtype=dtype or values._layout.dtype
        )
    if not isinstance(indices, Tensor):
        indices = tensor(indices)
    if not indices._layout.numel and len(indices._layout.shape) < 2:
        indices = indices.reshape(indices._layout.shape[0] and 1, 0)
    places: Any = indices.detach().to(device=values._layout.device, dtype=int64).contiguous()
    size = _fitting(places, values, size)
    if requires_grad:
        values = values.detach()
    made = sparse_of(places, values.contiguous(), size, is_coalesced=bool(is_coalesced))
    return made.requires_grad_() if requires_grad else made  # type: ignore[no-any-return]


def _empty(size: Any, dtype: DType | None, device: Any) -> Any:
    if size is None:
        raise TypeError("sparse_coo_tensor(): give indices and values, or a size")
    _require_numel(size)
    values = empty(0, dtype=dtype or get_default_dtype(), device=device)
    places = zeros((len(size), 0), dtype=int64, device=values._layout.device)
    return sparse_tensor(places, values, size, True)


def _require_numel(size: tuple[int, ...]) -> None:
    """Raise RuntimeError if flat indices of elements, which kernels use, would exceed int64."""
    if math.prod(size) >= 1 << 63 or max(size, default=0) >= 1 << 63:
        raise ShapeError(f"numel: integer multiplication overflow with sizes={list(size)}")


def _fitting(places: Tensor, values: Tensor, size: tuple[int, ...] | None) -> tuple[int, ...]:
    """Return size, or if it is None, the size that follows from the largest index of each axis."""
    if len(places._layout.shape) != 2:
        raise ShapeError(f"indices must be sparse_dim x nnz, but got: {list(places._layout.shape)}")
    axes, n = places._layout.shape
    if not values._layout.shape or values._layout.shape[0] != n:
        nnz = values._layout.shape[0] if values._layout.shape else 1
        raise ShapeError(
            "indices and values must have same nnz, but got nnz from indices: "
            f"{n}, nnz from values: {nnz}"
        )
    rest = values._layout.shape[1:]
    if size is None:
        if not n:
            return (*([0] * axes), *rest)
        largest = [int(length) + 1 for length in places.max(1)[0].tolist()] if axes else []
        size = (*largest, *rest)
    _require_numel(size)
    if len(size) != axes + len(rest):
        raise ShapeError(
            "'len(size) == sparse_dim + dense_dim' is not satisfied: "
            f"len(size) = {len(size)}, sparse_dim = {axes}, dense_dim = {len(rest)}"
        )
    if tuple(size[axes:]) != rest:
        raise ShapeError(
            f"values has incorrect size, expected {[n, *size[axes:]]}, got {[n, *rest]}"
        )
    if n and axes:
        _require_inside(places, size)
    return size


def _require_inside(places: Tensor, size: Sequence[int]) -> None:
    least, most = places.min(1)[0].tolist(), places.max(1)[0].tolist()
    for axis, (low, high) in enumerate(zip(least, most, strict=True)):
        if low < 0:
            raise ShapeError(f"found negative index {low} for dim {axis}")
        if high >= size[axis]:
            raise ShapeError(
                f"size is inconsistent with indices: for dim {axis}, size is "
                f"{short_repr(size[axis])} but "
                f"found index {high}"
            )


@composite(homes="method")
def to_sparse(input: Tensor, sparse_dim: Any = None, *, layout: Any = None) -> Tensor:
    """Return input as a sparse tensor of its nonzero elements. If sparse_dim is given, only the
    first sparse_dim axes are sparse, and each entry is a slice over the remaining axes.
    """
    if layout is not None and getattr(layout, "name", None) != "sparse_coo":
        raise NotImplementedError(f"to_sparse: {short_repr(layout)} is not there; sparse_coo is")
    if input._layout.is_sparse:
        return input
    shape = input._layout.shape
    axes = len(shape) if sparse_dim is None else int(sparse_dim)
    if not 0 <= axes <= len(shape) or (axes == 0 and shape):
        raise ShapeError(
            f"sparse_dim must be in (0, {len(shape)}] range, but got {axes}: the tensor has "
            f"{len(shape)} axes"
        )
    with no_grad():
        x: Any = input.detach()
        if not shape:
            rows: Any = zeros((0, int(bool(x != 0))), dtype=int64, device=input._layout.device)
            values = x.reshape(1)[: rows._layout.shape[1]]
        else:
            is_there: Any = x != 0
            if axes < len(shape):
                is_there = is_there.reshape(*shape[:axes], -1).any(-1)
            rows = is_there.nonzero().t().contiguous()
            flat = x.reshape(-1, *shape[axes:])
            values = flat.index_select(0, flat_places(rows, shape[:axes]))
        made = sparse_tensor(rows, values, shape, True)
    return recorded(
        made, "ToSparseBackward0" if sparse_dim is not None else "ToSparseBackward1", (input,),
        lambda g: (to_dense(g) if is_sparse(g) else g,),
        lambda t, _: sparse_of(rows, part_at(t[0], rows), shape, is_coalesced=True),
    )  # fmt: skip


@composite(homes="method", known_as="to_sparse")
def to_sparse_coo(input: Tensor) -> Tensor:
    """Return input as a sparse tensor."""
    return to_sparse(input)


@composite(homes="method")
def to_dense(
    input: Tensor, dtype: DType | None = None, *, masked_grad: bool | None = None
) -> Tensor:
    """Return input as a dense tensor. The gradient of a sparse input is sparse, with the
    coordinates of the input.

    Raises  TypeError if dtype is not a dtype

    Args:
        input: A tensor of any layout; a dense tensor is returned unchanged.
        dtype: The dtype of the result; unchanged if None.
        masked_grad: Whether the gradient is sparse; True if None.

    Example:
        >>> torch.eye(2).to_sparse().to_dense()
        tensor([[1., 0.],
                [0., 1.]])
    """
    if not input._layout.is_sparse:
        return input if dtype is None else input.to(dtype)
    with no_grad():
        made = dense_of(input)
    made = recorded(
        made,
        "ToDenseBackward0",
        (input,),
        lambda g: (masked(g, input, masked_grad is not False),),
        lambda t, _: to_dense(t[0]),
    )
    return made if dtype is None else made.to(dtype_of(dtype))


def masked(gradient: Tensor, entries: Any, by_place: bool = True) -> Any:
    """Return, as a sparse tensor, the elements of a gradient at the distinct coordinates of
    `entries`. Return the whole gradient if it is sparse, or if `by_place` is false.
    """
    if gradient._layout.is_sparse or not by_place:
        return gradient
    places = coalesced(entries.detach())
    return sparse_of(
        indices_of(places),
        part_at(gradient, indices_of(places)),
        gradient._layout.shape,
        is_coalesced=True,
    )


@composite(homes="method")
def coalesce(input: Tensor) -> Tensor:
    """Return the tensor with its entries sorted by coordinate, and entries with equal coordinates
    summed.
    """
    _require_sparse("coalesce", input)
    if input._array.is_coalesced:
        return input
    return recorded(
        coalesced(input.detach()),
        "CoalesceBackward0",
        (input,),
        lambda g: (g,),
        lambda t, _: coalesce(t[0]),
    )


@composite(homes="method")
def is_coalesced(input: Tensor) -> bool:
    """Return whether input is known to have distinct and sorted coordinates."""
    _require_sparse("is_coalesced", input)
    return bool(input._array.is_coalesced)


@composite(homes="method")
def indices(input: Tensor) -> Tensor:
    """Return the coordinates of a coalesced sparse tensor, of shape (sparse axes, n)."""
    _require_coalesced("indices", input)
    return indices_of(input)


@composite(homes="method")
def values(input: Tensor) -> Tensor:
    """Return the values of a coalesced sparse tensor, of shape (n, dense axes...)."""
    _require_coalesced("values", input, "sparse")
    places, shape = indices_of(input), input._layout.shape
    return recorded(
        values_of(input),
        "ValuesBackward0",
        (input,),
        lambda g: (sparse_of(places, g, shape, is_coalesced=True),),
        lambda t, _: part_at(t[0], places),
    )


@composite(homes="method")
def sparse_mask(input: Tensor, mask: Tensor) -> Tensor:
    """Return a sparse tensor of input's elements at mask's coordinates, with any repetitions."""
    _require_sparse("sparse_mask", mask)
    if mask._layout.shape != input._layout.shape:
        raise ShapeError(
            f"sparse_mask(): operands have incompatible sizes; self has size "
            f"{list(input._layout.shape)} but mask has size {list(mask._layout.shape)}"
        )
    places = indices_of(mask)
    made = part_at(to_dense(input), places)
    return sparse_of(places, made, mask._layout.shape, is_coalesced=mask._array.is_coalesced)


def entries_of(input: Any) -> tuple[Any, Any, bool]:
    """Return the coordinates of input, its values, and whether it is coalesced. If input has a Node
    or tangents, input is coalesced first, and the values are recorded.
    """
    if input._edge is not None or levels_of((input,)):
        input = coalesce(input)
        return indices_of(input), values(input), True
    return indices_of(input), values_of(input), input._array.is_coalesced


def _require_sparse(name: str, input: Tensor, kind: str = "sparse coordinate") -> None:
    if not input._layout.is_sparse:
        raise RuntimeError(f"{name} expected {kind} tensor layout but got Strided")


def _require_coalesced(name: str, input: Tensor, kind: str = "sparse coordinate") -> None:
    _require_sparse(name, input, kind)
    if not input._array.is_coalesced:
        raise RuntimeError(
            f"Cannot get {name} on an uncoalesced tensor, please call .coalesce() first"
        )
