"""unravel_index: conversion of flat indices to one index per axis."""

from __future__ import annotations

from typing import Any

from ...core.dtypes import int64
from ...core.short_repr import short_repr
from ...dispatch.composite import composite
from ...tensor.tensor import Tensor
from .. import late_ops


@composite(homes="function", known_as="")
def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """Return one index per axis of shape for each flat index."""
    if indices._layout.dtype.is_floating_point:
        raise TypeError(f"expected 'indices' to be integer dtype, but got {indices._layout.dtype}")
    sizes = (shape,) if hasattr(shape, "__index__") else tuple(shape)
    if any(n < 0 for n in sizes):
        raise ValueError(f"'shape' cannot have negative values, but got {short_repr(sizes)}")
    found: list[Any] = []
    rest: Any = indices.to(int64)
    for n in reversed(sizes):
        found.append(late_ops.remainder(rest, n))
        rest = late_ops.floor_divide(rest, n)
    return tuple(reversed(found))
