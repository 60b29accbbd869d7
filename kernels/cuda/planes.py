"""Arrays as planes with up to three spatial axes, for kernels that work within planes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from .layout import Walk, element_strides, walk


class Planes(NamedTuple):
    """The memory layouts of several arrays with the same planes.

    `walk` iterates over the planes; `steps` and `lengths` are the strides and lengths of each
    array's three spatial axes.

    Units   steps in elements
    """

    walk: Walk
    lengths: tuple[tuple[int, ...], ...]
    steps: tuple[tuple[int, ...], ...]


def planes_of(arrays: Sequence[Any], axes: int) -> Planes:
    """Return the layouts of arrays whose shapes may differ only in the last `axes` axes."""
    strides = [element_strides(array) for array in arrays]
    lead = len(arrays[0].shape) - axes
    fill = 3 - axes
    return Planes(
        walk(arrays[0].shape[:lead], [one[:lead] for one in strides]),
        tuple([(1,) * fill + tuple(array.shape[lead:]) for array in arrays]),
        tuple([(0,) * fill + one[lead:] for one in strides]),
    )
