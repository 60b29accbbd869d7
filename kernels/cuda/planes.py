"""Arrays as planes of up to three axes of space, for the kernels that work inside planes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from .layout import Walk, element_strides, walk


class Planes(NamedTuple):
    """How several arrays with the same planes lie in memory.

    `walk` goes over the planes; `steps` and `lengths` are those of each array's three axes of space

    Units   steps in elements
    """

    walk: Walk
    lengths: tuple[tuple[int, ...], ...]
    steps: tuple[tuple[int, ...], ...]


def planes_of(arrays: Sequence[Any], axes: int) -> Planes:
    """Return how arrays lie that share all but their last `axes` axes."""
    strides = [element_strides(array) for array in arrays]
    lead = len(arrays[0].shape) - axes
    fill = 3 - axes
    return Planes(
        walk(arrays[0].shape[:lead], [one[:lead] for one in strides]),
        tuple([(1,) * fill + tuple(array.shape[lead:]) for array in arrays]),
        tuple([(0,) * fill + one[lead:] for one in strides]),
    )
