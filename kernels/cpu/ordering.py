"""Sorting along an axis, on the CPU. NaN counts as the largest, equals keep their order."""

from __future__ import annotations

from typing import Any

import numpy as np

from .silence import silent

Array = np.ndarray[Any, Any]


@silent
def sort(x: Array, out: Array, indices: Array, axis: int, descending: bool) -> None:
    """Write x in order along axis into out, and from where each came into indices."""
    if x.ndim == 0:
        np.copyto(out, x)
        indices.fill(0)
        return
    if descending:
        # Sorting the mirrored axis and mirroring back keeps the order of equals.
        mirrored = np.argsort(np.flip(x, axis), axis=axis, kind="stable")
        places = np.subtract(x.shape[axis] - 1, np.flip(mirrored, axis))
    else:
        places = np.argsort(x, axis=axis, kind="stable")
    np.copyto(indices, places)
    np.copyto(out, np.take_along_axis(x, places, axis))


@silent
def topk(x: Array, out: Array, indices: Array, axis: int, k: int, largest: bool) -> None:
    """Write the k largest (or smallest) of x along axis in order into out, and where they stand."""
    if x.ndim == 0:
        np.copyto(out, x)
        indices.fill(0)
        return
    first = (slice(None),) * axis + (slice(k),)
    if largest:
        mirrored = np.argsort(np.flip(x, axis), axis=axis, kind="stable")
        places = np.subtract(x.shape[axis] - 1, np.flip(mirrored, axis))[first]
    else:
        places = np.argsort(x, axis=axis, kind="stable")[first]
    np.copyto(indices, places)
    np.copyto(out, np.take_along_axis(x, places, axis))
