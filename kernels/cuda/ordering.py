"""Sorting along an axis, on CUDA arrays: CuPy's. NaN is the largest, equals keep their order.

Thread  any; queued on the current stream of out's device
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from fastdist.core.dtypes import WIDE
from fastdist.core.scalar import parse

from .indexing import gather
from .launch import is_real
from .pointwise import pointwise
from .prepared import on_device_of_out

_SAME: Final = parse("x", ("x",))
_COMPARED: Final = parse("where(isnan(x), T(nan), x + T(0))", ("x",))
_MIRRORED: Final = parse("n - x", ("x", "n"))


@on_device_of_out
def sort(x: Any, out: Any, indices: Any, axis: int, descending: bool) -> None:
    """Write x in order along axis into out, and from where each came into indices."""
    _choose(x, out, indices, axis, out.shape[axis] if out.ndim else 1, descending)


@on_device_of_out
def topk(x: Any, out: Any, indices: Any, axis: int, k: int, largest: bool) -> None:
    """Write the k largest (or smallest) of x along axis in order into out, and where they stand."""
    _choose(x, out, indices, axis, k, largest)


def _choose(x: Any, out: Any, indices: Any, axis: int, k: int, largest: bool) -> None:
    if not out.size:
        return
    if not x.ndim:
        pointwise(_SAME, [x], out)
        indices.fill(0)
        return
    axis %= x.ndim
    places = _in_order(x, axis, largest)
    pointwise(_SAME, [places[(*[slice(None)] * axis, slice(0, k))]], indices)
    gather(x, indices, out, axis)


def _in_order(x: Any, axis: int, largest: bool) -> Any:
    """Return the places along axis in order; equals keep theirs."""
    import cupy

    if is_real(x.dtype):
        # CuPy sorts no bfloat16, and floating numbers of one axis by their bits: a NaN may have a
        # sign there, and -0 lie below 0.
        plain = cupy.empty(x.shape, WIDE.get(x.dtype, x.dtype))
        pointwise(_COMPARED, [x], plain)
        x = plain
    if not largest:
        return cupy.argsort(x, axis)
    # Sorting the mirrored axis and mirroring back keeps the order of equals.
    turned = (*[slice(None)] * axis, slice(None, None, -1))
    mirrored = cupy.argsort(x[turned], axis)[turned]
    places = cupy.empty(x.shape, np.dtype(np.int64))
    pointwise(_MIRRORED, [mirrored, np.asarray(x.shape[axis] - 1)], places)
    return places
