"""Checks of shapes and of `dim` arguments, and the shape of a reduction's result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.errors import ShapeError
from ..core.folded_frames import private_cause
from ..core.sequences import all_of
from ..core.short_repr import short_repr
from .layout import Layout, Shape, count_elements

# One axis, several axes, or None for all axes: the types that `dim` may have.
Axes = int | Sequence[int] | None
Dims = int | tuple[int, ...] | None


class DimError(ShapeError, IndexError):
    """A dim outside of the tensor's axes; PyTorch raises IndexError here."""


def normalize_axis(name: str, dim: Any, ndim: int) -> int:
    """Return `dim` as a non-negative axis number.

    Raises  IndexError if there is no such axis, TypeError if `dim` is not an integer
    """
    if isinstance(dim, bool) or not hasattr(dim, "__index__"):
        raise TypeError(
            f"{name}(): dim must be an integer, got {type(dim).__name__} {short_repr(dim)}"
        )
    axis = dim.__index__()
    # A 0-d tensor accepts axis 0 or -1, as in PyTorch.
    n = max(ndim, 1)
    if not -n <= axis < n:
        raise DimError(
            f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got "
            f"{short_repr(axis)}): "
            f"{name} of a tensor "
            f"with {ndim} axes"
        )
    return int(axis % n)


def normalize_axes(name: str, dim: Any, shape: Shape) -> tuple[int, ...]:
    """Return the axes that `dim` names, in ascending order. As in PyTorch, None and an empty list
    name all axes.

    Raises  RuntimeError if an axis is named twice
    """
    if dim is None:
        return tuple(range(len(shape)))
    if hasattr(dim, "__index__"):
        axes: Sequence[int] = (normalize_axis(name, dim, len(shape)),)
    else:
        axes = [normalize_axis(name, one, len(shape)) for one in dim]
        if not axes:
            return tuple(range(len(shape)))
        if len(set(axes)) != len(axes):
            twice = next(axis for axis in axes if list(axes).count(axis) > 1)
            raise ShapeError(
                f"dim {twice} appears multiple times in the list of dims: {name} got "
                f"{short_repr(tuple(dim))}"
            )
    return tuple(sorted(axes)) if shape else ()


def reduced_shape(shape: Shape, axes: Sequence[int], keepdim: bool) -> Shape:
    """Return `shape` without the axes `axes`, or with length 1 for each of them if `keepdim`."""
    if keepdim:
        return tuple([1 if i in axes else n for i, n in enumerate(shape)])
    return tuple([n for i, n in enumerate(shape) if i not in axes])


def axis_number(layout: Layout, dim: int) -> int:
    """Return `dim` if it is an axis of `layout`. A negative `dim` counts from the last axis.

    Raises  IndexError if there is no such axis, TypeError if `dim` is not an integer
    """
    n = len(layout.shape)
    if not hasattr(dim, "__index__"):
        raise TypeError(f"dim must be an integer, got {type(dim).__name__} {short_repr(dim)}")
    if n == 0:
        raise IndexError(f"dimension specified as {short_repr(dim)} but tensor has no dimensions")
    if not -n <= dim < n:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got "
            f"{short_repr(dim)})"
        )
    return dim


def sizes_of(size: tuple[Any, ...]) -> Shape:
    """Return the shape that the arguments of zeros(2, 3), zeros((2, 3)) or zeros([2, 3]) specify.

    Raises  RuntimeError for a negative length
    """
    if len(size) == 1 and not hasattr(size[0], "__index__"):
        size = tuple(size[0])
    try:
        shape = tuple([n.__index__() for n in size])
    except (AttributeError, TypeError) as error:
        raise TypeError(f"sizes must be integers, got {short_repr(size)}") from private_cause(error)
    if any(n < 0 for n in shape):
        raise ShapeError(
            f"Trying to create tensor with negative dimension {short_repr(min(shape))}: "
            f"{short_repr(list(shape))}"
        )
    return shape


def canonical_sizes(name: str, sizes: Any, numel: int) -> Shape:
    """Return `sizes` as a tuple, with a -1 replaced by the length that `numel` implies.

    Raises  RuntimeError if a tensor of these sizes does not have `numel` elements
    """
    if len(sizes) == 1 and not hasattr(sizes[0], "__index__"):
        sizes = sizes[0]
    shape = integers(name, sizes)
    known = count_elements(tuple(n for n in shape if n != -1))
    free = shape.count(-1)
    if free > 1:
        raise ShapeError(
            f"only one dimension can be inferred: {name} got sizes {short_repr(tuple(shape))}"
        )
    if any(n < -1 for n in shape):
        raise ShapeError(
            f"invalid shape dimension {short_repr(min(shape))}: {name} got sizes "
            f"{short_repr(tuple(shape))}"
        )
    if free:
        if known == 0:
            raise ShapeError(
                f"cannot reshape tensor of {numel} elements into shape {short_repr(shape)} "
                "because the "
                "unspecified dimension "
                "size -1 can be any value and is ambiguous"
            )
        if numel % known == 0:
            shape[shape.index(-1)] = numel // known
    if count_elements(tuple(shape)) != numel:
        raise ShapeError(
            f"shape '{short_repr(shape)}' is invalid for input of size {numel}: {name}"
        )
    return tuple(shape)


def integers(name: str, sizes: Any) -> list[int]:
    """Return `sizes` as a list of Python integers.

    Raises  TypeError for an item that is not an integer
    """
    try:
        return [size.__index__() for size in all_of(sizes)]
    except (AttributeError, TypeError) as error:
        raise TypeError(
            f"{name}(): sizes must be integers, got {short_repr(sizes)}"
        ) from private_cause(error)
