"""Elements at places that a tensor names, of all or along an axis: `take`, `take_along_dim`."""

from __future__ import annotations

from typing import Any

from ...core.dtypes import int64
from ...core.errors import DTypeError, ShapeError
from ...dispatch.composite import composite
from ...dispatch.op import OPS
from ...tensor.axes import DimError, normalize_axis
from ...tensor.broadcast import broadcast_shapes
from ...tensor.tensor import Tensor
from .indexing import counted_from_front, gather, select_slices


@composite(out="same", node="take", memory="outside of first")
def take(input: Tensor, index: Tensor) -> Tensor:
    """Return the elements of the flattened input at index."""
    if index.facts.dtype is not int64:
        raise DTypeError(
            f"take(): Expected a long tensor for index, but got {index.facts.dtype.name}; cast "
            "with .long()"
        )
    flat: Any = input.reshape(-1)
    n = input.facts.numel
    if index.facts.numel and not n:
        raise DimError("take(): tried to take from an empty tensor")
    refusal = f"out of range: tried to access index {{}} on a tensor of {n} elements."
    places = counted_from_front(index, n, refusal).reshape(-1)
    return select_slices.public(flat, places, 0).reshape(index.facts.shape)  # type: ignore[no-any-return]


@composite(out="same", memory="outside of first")
def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """Return input's elements at indices along dim, or of the flattened input."""
    if dim is None:
        return gather.public(input.reshape(-1), 0, indices.reshape(-1))  # type: ignore[no-any-return]
    axis = normalize_axis("take_along_dim", dim, len(input.facts.shape))
    if indices.facts.dtype is not int64:
        raise DTypeError(
            "torch.take_along_dim(): dtype of indices should be Long but got "
            f"{indices.facts.dtype.name}; cast with .long()"
        )
    if len(input.facts.shape) != len(indices.facts.shape):
        raise ShapeError(
            "torch.take_along_dim(): input and indices should have the same number of dimensions, "
            f"but got {len(input.facts.shape)} dimensions for input, and "
            f"{len(indices.facts.shape)} dimensions for indices"
        )
    if not input.facts.shape:
        return gather.public(input, axis, indices)  # type: ignore[no-any-return]
    # All other axes meet as in any op of two tensors.
    rest = [(*s[:axis], 1, *s[axis + 1 :]) for s in (input.facts.shape, indices.facts.shape)]
    met = broadcast_shapes("take_along_dim", rest)
    seen = [
        OPS["expand"].public(one, (*met[:axis], one.facts.shape[axis], *met[axis + 1 :]))
        for one in (input, indices)
    ]
    n = input.facts.shape[axis]
    refusal = f"index {{}} is out of bounds for dimension {axis} with size {n}"
    places = counted_from_front(seen[1], n, refusal)
    return gather.public(seen[0], axis, places)  # type: ignore[no-any-return]
