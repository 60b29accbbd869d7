"""Elements at given indices, of the flattened tensor or along an axis: `take`, `take_along_dim`."""

from __future__ import annotations

from typing import Any

from ...core.dtypes import int64
from ...core.errors import DTypeError, ShapeError
from ...dispatch.composite import composite
from ...tensor.axes import DimError, normalize_axis
from ...tensor.broadcast import broadcast_shapes
from ...tensor.tensor import Tensor
from ..shape.views import expand
from .index_range import counted_from_front
from .indexing import gather, select_slices


@composite(out="same", node="take", memory="outside of first")
def take(input: Tensor, index: Tensor) -> Tensor:
    """Return the elements of the flattened input at the indices `index`."""
    if index._layout.dtype is not int64:
        raise DTypeError(
            f"take(): Expected a long tensor for index, but got {index._layout.dtype.name}; cast "
            "with .long()"
        )
    flat: Any = input.reshape(-1)
    n = input._layout.numel
    if index._layout.numel and not n:
        raise DimError("take(): tried to take from an empty tensor")
    refusal = f"out of range: tried to access index {{}} on a tensor of {n} elements."
    places = counted_from_front(index, n, refusal).reshape(-1)
    return select_slices(flat, places, 0).reshape(index._layout.shape)


@composite(out="same", memory="outside of first")
def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """Return elements of input at indices along dim, or of the flattened input if dim is None."""
    if dim is None:
        return gather(input.reshape(-1), 0, indices.reshape(-1))
    axis = normalize_axis("take_along_dim", dim, len(input._layout.shape))
    if indices._layout.dtype is not int64:
        raise DTypeError(
            "torch.take_along_dim(): dtype of indices should be Long but got "
            f"{indices._layout.dtype.name}; cast with .long()"
        )
    if len(input._layout.shape) != len(indices._layout.shape):
        raise ShapeError(
            "torch.take_along_dim(): input and indices should have the same number of dimensions, "
            f"but got {len(input._layout.shape)} dimensions for input, and "
            f"{len(indices._layout.shape)} dimensions for indices"
        )
    if not input._layout.shape:
        return gather(input, axis, indices)
    # All axes except dim broadcast.
    rest = [(*s[:axis], 1, *s[axis + 1 :]) for s in (input._layout.shape, indices._layout.shape)]
    met = broadcast_shapes("take_along_dim", rest)
    seen = [
        expand(one, (*met[:axis], one._layout.shape[axis], *met[axis + 1 :]))
        for one in (input, indices)
    ]
    n = input._layout.shape[axis]
    refusal = f"index {{}} is out of bounds for dimension {axis} with size {n}"
    places = counted_from_front(seen[1], n, refusal)
    return gather(seen[0], axis, places)
