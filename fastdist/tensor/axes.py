"""The axes that a `dim` names, and a shape without them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.errors import ShapeError
from ..core.short_repr import short_repr
from .layout import Layout, Shape


class DimError(ShapeError, IndexError):
    """A dim outside of the tensor's axes; PyTorch raises IndexError here."""


def normalize_axis(name: str, dim: Any, ndim: int) -> int:
    """Return dim counted from the front.

    Raises  IndexError if there is no such axis, TypeError if dim is not an integer
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
    """Return the axes that dim names, ascending; all of them for None (and for an empty list, as in
    PyTorch).

    Raises  RuntimeError for an axis named twice
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
    """Return the shape without axes, or with 1 in their place."""
    if keepdim:
        return tuple([1 if i in axes else n for i, n in enumerate(shape)])
    return tuple([n for i, n in enumerate(shape) if i not in axes])


def axis_number(layout: Layout, dim: int) -> int:
    """Return dim if it names an axis of layout, from the front or the end.

    Raises  IndexError if there is no such axis, TypeError if dim is not an integer
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
