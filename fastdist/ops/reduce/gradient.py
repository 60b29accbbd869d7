"""`gradient`: derivatives along axes, estimated from samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.dtypes import uint8
from ...core.errors import DTypeError, ShapeError
from ...dispatch.composite import checked
from ...tensor.axes import Axes, normalize_axis
from ...tensor.tensor import Tensor
from ..shape.joining import cat
from ..shape.splitting import narrow


@checked
def gradient(
    input: Tensor, *, spacing: Any = 1, dim: Axes = None, edge_order: int = 1
) -> tuple[Tensor, ...]:
    """Return estimates of the derivatives of input along each axis in dim, by default all axes. In
    the interior of input, the estimates are accurate to second order.

    spacing specifies the distance between neighbours: None for 1, a number for all axes, or a
    sequence with one item per axis, which is a number or a vector of coordinates. At the ends of an
    axis, the estimates use two elements for edge_order 1, and three for edge_order 2.

    Dtype   floating -> the same; integers except uint8 -> the default dtype
    Raises  RuntimeError for an axis with fewer than edge_order + 1 elements
    Source  Fornberg 1988, "Generation of finite difference formulas on arbitrarily spaced grids"
    """
    ndim = len(input._layout.shape)
    if input._layout.dtype is uint8:
        raise DTypeError("torch.gradient does not support uint8 input.")
    axes = _axes(dim, ndim)
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    steps = _steps(spacing, axes, dim is not None, input._layout.shape)
    for axis in axes:
        if input._layout.shape[axis] < edge_order + 1:
            raise ShapeError(
                "torch.gradient expected each dimension size to be at least edge_order+1, got "
                f"{input._layout.shape[axis]} along dimension {axis}"
            )
    found = [_along(input, axis, step, edge_order) for axis, step in zip(axes, steps, strict=True)]
    return tuple(found)


def _axes(dim: Any, ndim: int) -> list[int]:
    if dim is None:
        return list(range(ndim))
    given = [dim] if hasattr(dim, "__index__") else list(dim)
    axes = [normalize_axis("gradient", one, ndim) for one in given]
    for axis in axes:
        if axes.count(axis) > 1:
            raise ShapeError(f"dim {axis} appears multiple times in the list of dims")
    return axes


def _steps(spacing: Any, axes: list[int], named: bool, shape: Sequence[int]) -> list[Any]:
    """Return, for each axis, the distance between neighbours, or the coordinates along the axis."""
    if spacing is None:
        return [1] * len(axes)
    if not isinstance(spacing, tuple | list):
        if isinstance(spacing, Tensor):
            spacing = spacing.item()
        return [spacing] * len(axes)
    if len(spacing) != len(axes):
        wanted = (
            "a scalar or it's spacing and dim arguments to have the same length, but got a spacing "
            f"argument of length {len(spacing)} and a dim argument of length {len(axes)}."
            if named
            else f"a scalar, or a list of length equal to 'self.dim() = {len(axes)}', since dim "
            f"argument was not given, but got a list of length {len(spacing)}"
        )
        raise ShapeError(f"torch.gradient expected spacing to be unspecified, {wanted}")
    for one, axis in zip(spacing, axes, strict=True):
        if not isinstance(one, Tensor):
            continue
        if len(one._layout.shape) != 1:
            raise ShapeError(
                "torch.gradient expected each element of spacing to have one dimension, but got an "
                f"element with {len(one._layout.shape)} dimensions!"
            )
        if one._layout.numel != shape[axis]:
            raise ShapeError(
                "torch.gradient expected each element of spacing to have as many elements as input "
                f"along its dimension, but got {one._layout.numel} for {shape[axis]}"
            )
    return list(spacing)


def _along(input: Tensor, axis: int, step: float, edge_order: int) -> Tensor:
    """Return the derivatives along one axis, from three neighbours, or edge_order + 1 at the ends.

    Let `before` be the distance from the first to the second of three neighbours, and `behind` the
    distance from the second to the third. The derivative at the second is the derivative of the
    parabola through all three.
    """
    n = input._layout.shape[axis]

    def part(start: int, stop: int) -> Any:
        return narrow(input, axis, start, stop - start)

    if isinstance(step, Tensor):
        lies = [n - 1 if i == axis else 1 for i in range(len(input._layout.shape))]
        gaps: Any = (narrow(step, 0, 1, n - 1) - narrow(step, 0, 0, n - 1)).reshape(lies)
        first, last = narrow(gaps, axis, 0, 1), narrow(gaps, axis, n - 2, 1)
    else:
        gaps, first, last = None, step, step
    inside = []
    if n > 2 and gaps is None:
        inside = [(part(2, n) - part(0, n - 2)) / (2.0 * step)]
    elif n > 2:
        before, behind = narrow(gaps, axis, 0, n - 2), narrow(gaps, axis, 1, n - 2)
        both = before + behind
        inside = [
            -behind / (before * both) * part(0, n - 2)
            + (behind - before) / (before * behind) * part(1, n - 1)
            + before / (behind * both) * part(2, n)
        ]
    if edge_order == 1:
        ends = [(part(1, 2) - part(0, 1)) / first, (part(n - 1, n) - part(n - 2, n - 1)) / last]
    else:
        second, before_last = (
            (step, step)
            if gaps is None
            else (narrow(gaps, axis, 1, 1), narrow(gaps, axis, n - 3, 1))
        )
        ends = [
            _at_end(part(0, 1), part(1, 2), part(2, 3), first, second),
            -_at_end(part(n - 1, n), part(n - 2, n - 1), part(n - 3, n - 2), last, before_last),
        ]
    return cat([ends[0], *inside, ends[1]], axis)


def _at_end(first: Tensor, second: Tensor, third: Tensor, before: Any, behind: Any) -> Any:
    """Return the derivative of the parabola through three neighbours, at the first of them."""
    both = before + behind
    return (
        -(2.0 * before + behind) / (before * both) * first
        + both / (before * behind) * second
        - before / (behind * both) * third
    )
