"""repeat_interleave: elements or slices, each repeated a number of times."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.device import CPU
from ...core.dtypes import int32, int64
from ...core.errors import DTypeError, ShapeError
from ...core.overflow_checks import repeat_each, require_countable
from ...core.short_repr import short_repr
from ...dispatch.composite import before, composite
from ...dispatch.declaration import node_named, recorded_as
from ...interpreters.batched_tensor import Batched, max_over_batch, same_over_batch
from ...tensor.axes import normalize_axis
from ...tensor.layout import Shape
from ...tensor.tensor import Tensor, from_array
from ..create.ranges import arange
from ..unrecorded_moves import by_table
from .searchsorted import searchsorted

# If all elements are repeated equally often, PyTorch uses expand and reshape, which record a view.
_VIEWED = node_named("view")


def _copies(*args: object, repeats: object = None, **named: object) -> bool:
    """Return whether all elements are repeated the same number of times, given as an int."""
    return (args[0] if args else repeats).__class__ is int


@before(by_table(_copies))
@composite()
def repeat_interleave(
    input: Tensor, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """Return input with each element, or each slice along dim, repeated. With a single argument,
    which holds counts, return each index as often as its count.

    Raises  RuntimeError if a count is negative or not an integer, or there is not one count for
            each slice; IndexError if dim is out of range

    Args:
        input: The tensor; or the counts, if repeats is left out.
        repeats: A count for all, or a tensor with one count for each element or slice. If None,
            input has the counts, and the result is indices.
        dim: The axis; if None, input is flattened.
        output_size: The length of the result; computed if None, for which the call waits for a GPU.

    Example:
        >>> torch.repeat_interleave(torch.tensor([1, 2]), 2)
        tensor([1, 1, 2, 2])
        >>> torch.tensor([1, 2]).repeat_interleave(torch.tensor([1, 3]))
        tensor([1, 2, 2, 2])
    """
    if repeats is None:
        input, repeats = arange(input._layout.numel, device=input._layout.device), input
    if dim is None:
        input, dim = input.reshape(-1), 0
    axis = normalize_axis("repeat_interleave", dim, len(input._layout.shape))
    length = input._layout.shape[axis]
    if isinstance(repeats, Tensor) and (
        repeats.__class__ is Batched or repeats._layout.device is not CPU
    ):
        places = _repeated_by_ops(repeats, length, output_size)
        return input.index_select(axis, places)
    times = np.broadcast_to(_repeats(repeats, length), (length,))
    places = repeat_each(np.arange(length), times)
    if output_size is not None and output_size != len(places):
        raise ShapeError(
            f"repeat_interleave: output_size is {output_size}, the repeats add up to {len(places)}"
        )
    found = input.index_select(axis, from_array(places).to(input._layout.device))
    return found if isinstance(repeats, Tensor) else recorded_as(_VIEWED, found, ())


def _repeats(repeats: Any, length: int) -> Any:
    """Return the number of repetitions of each slice, as a number or an array.

    Raises  RuntimeError for values that are not counts, or if there is not one for each slice
    """
    # A copy, which no other thread changes: NumPy sums the counts, and then reads them again.
    times = np.array(repeats.to_numpy() if isinstance(repeats, Tensor) else repeats)
    if times.dtype.kind not in "iu" and times.size:
        raise DTypeError(f"repeat_interleave: repeats must be integers, got {short_repr(repeats)}")
    _require_repeats(times.shape, length)
    if times.size and times.min() < 0:
        raise ShapeError(f"Repeats must be non-negative, got {times.min()}")
    if times.size:
        require_countable(int(times.max()))  # a uint64 count may exceed int64
    return times.astype(np.int64, copy=False)


def _require_repeats(shape: Shape, length: int) -> None:
    if len(shape) > 1:
        raise ShapeError(f"repeats must be 0-dim or 1-dim tensor, got shape {shape}")
    if shape and shape[0] not in (1, length):
        raise ShapeError(
            "repeats must have the same size as input along dim, but got repeats.size(0) = "
            f"{shape[0]} and input.size(0) = {length}"
        )


def _repeated_by_ops(repeats: Any, length: int, output_size: int | None) -> Any:
    """Return the index of each slice, repeated as often as `repeats` says. output_size is the
    length of the result, and is not checked. If output_size is None, this waits once for the
    device, to get the length.

    Raises  RuntimeError for batched calls whose results have different lengths
    """
    layout = repeats._layout
    if layout.dtype not in (int32, int64) and layout.numel:
        raise DTypeError(f"repeat_interleave: repeats must be integers, got {layout.dtype.name}")
    _require_repeats(layout.shape, length)
    if layout.device is CPU and (least := -max_over_batch(-repeats)) < 0:
        raise ShapeError(f"Repeats must be non-negative, got {least}")
    ends = repeats.reshape(-1).expand(length).cumsum(0)
    if output_size is None:
        output_size = same_over_batch("repeat_interleave", ends[-1]) if length else 0
    numbers = arange(output_size, device=layout.device)
    return searchsorted(ends, numbers, right=True).clamp(max=max(length - 1, 0))
