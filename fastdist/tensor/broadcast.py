"""Broadcasting of shapes, and sums over the axes that were broadcast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.errors import ShapeError
from ..devices.backend import backend_of
from .layout import Layout, Shape


def broadcast_shapes(name: str, shapes: Sequence[Shape]) -> Shape:
    """Return the shape to which all shapes broadcast, as in NumPy and PyTorch.

    Raises  ShapeError, which names the axis that does not fit
    """
    result: list[int] = []
    for shape in shapes:
        missing = len(shape) - len(result)
        if missing > 0:
            result[:0] = [1] * missing
        for i, length in enumerate(shape, len(result) - len(shape)):
            if length != 1 and length != result[i]:
                if result[i] != 1:
                    _refuse(name, shapes)
                result[i] = length
    return tuple(result)


def _refuse(name: str, shapes: Sequence[Shape]) -> None:
    """Raise ShapeError for the first shape that does not broadcast with the shapes before it. The
    message names the last axis that does not fit.
    """
    for k in range(1, len(shapes)):
        met, shape = broadcast_shapes(name, shapes[:k]), shapes[k]
        for back, (a, b) in enumerate(zip(reversed(met), reversed(shape)), 1):
            if a != b and 1 not in (a, b):
                given = " and ".join(str(tuple(shape)) for shape in shapes)
                raise ShapeError(
                    f"The size of tensor a ({a}) must match the size of tensor b ({b}) at "
                    f"non-singleton dimension {max(len(met), len(shape)) - back}: "
                    f"{name} was given shapes {given}, which do not broadcast"
                )


def axes_to_sum(shape: Shape, target: Shape) -> tuple[int, ...]:
    """Return the axes of `shape` along which `target` is broadcast to `shape`."""
    lead = len(shape) - len(target)
    axes = list(range(lead))
    axes += [i + lead for i, n in enumerate(target) if n == 1 and shape[i + lead] != 1]
    return tuple(axes)


def sum_array_to(array: Any, target: Layout) -> Any:
    """Return the sum of `array` over the axes along which `target` was broadcast, or `array` itself
    if there are no such axes.

    Note    the sum has the dtype of `array`
    """
    shape = tuple(array.shape)
    if shape == target.shape:
        return array
    axes = axes_to_sum(shape, target.shape)
    if axes:
        backend = backend_of(target.device.type)
        kept = tuple(n for i, n in enumerate(shape) if i not in axes)
        out = backend.empty(kept, array.dtype, target.device.index)
        backend.kernel("reduce.reductions.sum", 1 if target.dtype.is_half else None)(
            array, out, axes
        )
        array = out
    return array.reshape(target.shape)
