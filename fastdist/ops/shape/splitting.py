"""Views of parts: by a number of parts, or by the places where they begin."""

from __future__ import annotations

import itertools
from typing import Any

from ...core.errors import ShapeError
from ...core.sequences import all_of
from ...core.short_repr import short_repr
from ...dispatch.composite import composite
from ...dispatch.pytorch_names import recorded_as
from ...tensor.axes import normalize_axis
from ...tensor.tensor import Tensor
from .joining import split


@composite()
def tensor_split(input: Tensor, indices_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Return views of so many parts along dim, the first ones longer by 1 where they are not alike,
    or of the parts that begin at the places given.
    """
    if not input.facts.shape:
        raise ShapeError(
            "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims"
        )
    axis = normalize_axis("tensor_split", dim, len(input.facts.shape))
    length = input.facts.shape[axis]
    wanted = indices_or_sections
    if isinstance(wanted, Tensor):
        wanted = wanted.tolist()
    if hasattr(wanted, "__index__"):
        count = wanted.__index__()
        if count <= 0:
            raise ShapeError(f"number of sections must be larger than 0, got {short_repr(count)}")
        longer = length % count
        lengths = [length // count + 1] * longer + [length // count] * (count - longer)
        views: tuple[Tensor, ...] = split(input, lengths, axis)
        recorded_as("SliceBackward0", views[:1], ())  # all are of one Node
        return views
    ends = [0, *[slice(None, end).indices(length)[1] for end in all_of(wanted)], length]
    whole = (slice(None),) * axis
    return tuple([input[(*whole, slice(a, max(a, b)))] for a, b in itertools.pairwise(ends)])


def _split(name: str, input: Tensor, wanted: Any, axis: int, least: int) -> tuple[Tensor, ...]:
    shape = input.facts.shape
    if len(shape) < least:
        raise ShapeError(
            f"torch.{name} requires a tensor with at least {least} dimension, but got a tensor "
            f"with {len(shape)} dimensions!"
        )
    if hasattr(wanted, "__index__") and (wanted <= 0 or shape[axis] % wanted):
        raise ShapeError(
            f"torch.{name} attempted to split along dimension {axis}, but the size of the "
            f"dimension {shape[axis]} is not divisible by the split_size {short_repr(wanted)}!"
        )
    return tensor_split(input, wanted, axis)


@composite()
def hsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """Return views of parts along the second axis, of a vector along its only one."""
    axis = 0 if len(input.facts.shape) == 1 else 1
    return _split("hsplit", input, indices_or_sections, axis, 1)


@composite()
def vsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """Return views of parts along the first axis of two or more."""
    return _split("vsplit", input, indices_or_sections, 0, 2)


@composite()
def dsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """Return views of parts along the third axis."""
    return _split("dsplit", input, indices_or_sections, 2, 3)
