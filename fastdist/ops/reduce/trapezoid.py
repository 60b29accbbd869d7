"""Integrals by the trapezoidal rule."""

from __future__ import annotations

from typing import Any

from ...core.dtypes import bool_
from ...core.errors import DTypeError, ShapeError
from ...core.short_repr import short_repr
from ...dispatch.composite import composite
from ...dispatch.declaration import node_named, recorded_as
from ...tensor.axes import DimError, normalize_axis
from ...tensor.tensor import Tensor
from ..shape.splitting import narrow


def _areas(name: str, y: Tensor, x: Tensor | None, dx: float | None, dim: int) -> tuple[Any, int]:
    """Return twice the areas of the trapezoids between neighbours along dim, and the axis."""
    if x is not None and dx is not None:
        raise TypeError(f"{name}(): give x or dx, not both")
    axis = normalize_axis(name, dim, len(y._layout.shape))
    if not y._layout.shape:
        raise DimError(
            f"Dimension specified as {short_repr(dim)} but tensor has no dimensions: {name}"
        )
    if bool_ in (y._layout.dtype, None if x is None else x._layout.dtype):
        raise DTypeError(
            f"{name}: received a bool input for `x` or `y`, but bool is not supported; cast it "
            "with .float()"
        )
    length = y._layout.shape[axis]
    n = max(length - 1, 0)
    if x is None:
        width: Any = 1 if dx is None else dx
    else:
        if len(x._layout.shape) == 1:
            if x._layout.numel != length:
                raise ShapeError(
                    f"{name}(): There must be one `x` value for each sample point, got "
                    f"{x._layout.numel} for {length}"
                )
            x = x.reshape([-1 if i == axis else 1 for i in range(len(y._layout.shape))])
        else:
            others = len(y._layout.shape) - len(x._layout.shape)
            x = x.reshape((1,) * others + x._layout.shape)
        # `axis` counts from the front of y. As in PyTorch, x uses the same number, even if x has
        # more axes than y.
        most = x._layout.shape[axis]
        m = max(most - 1, 0)
        width = narrow(x, axis, min(1, most), m) - narrow(x, axis, 0, m)
    sums = narrow(y, axis, min(1, length), n) + narrow(y, axis, 0, n)
    return sums * width, axis


@composite(homes="function")
def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Any = None, dim: int = -1) -> Tensor:
    """Return the integral of y along dim by the trapezoidal rule. x holds the coordinates of the
    elements of y; without x, the distance between neighbours is dx, by default 1.
    """
    areas, axis = _areas("trapezoid", y, x, dx, dim)
    word = node_named("mul.1" if x is None else "div.1")
    return recorded_as(word, areas.sum(axis) / 2, ())  # type: ignore[no-any-return]


@composite(homes="function")
def cumulative_trapezoid(
    y: Tensor, x: Tensor | None = None, *, dx: Any = None, dim: int = -1
) -> Tensor:
    """Return the cumulative integrals of y along dim by the trapezoidal rule, without the 0 at the
    start.
    """
    areas, axis = _areas("cumulative_trapezoid", y, x, dx, dim)
    word = node_named("cumsum" if x is None else "div.1")
    return recorded_as(word, areas.cumsum(axis) / 2, ())  # type: ignore[no-any-return]
