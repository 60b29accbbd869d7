"""Max pooling on the CPU: the maximum of each window, and gather and scatter by maxima's positions.

The last one, two or three axes of x are spatial; all axes before these are merged into one axis of
planes. `windows` has (kernel, stride, padding, dilation) for each spatial axis. (0, 0, 0, 0) stands
for adaptive windows: window i of n goes from floor(i * length / n) to ceil((i + 1) * length / n). A
position is the flat index, in C order, within the spatial axes of a plane.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ..index.indices import INSIDE, OutOfBounds, as_bits, ends
from ..jit.array_objects import require_arrays
from ..jit.background import is_numpys_turn
from ..jit.kernel_cache import find_function

Array = np.ndarray[Any, Any]
Windows = tuple[tuple[int, int, int, int], ...]


def _planes(x: Array, axes: int) -> Array:
    """Return x as (planes, depth, height, width) in C order; missing axes have length 1."""
    planes = int(np.prod(x.shape[: x.ndim - axes], dtype=np.int64))
    return np.ascontiguousarray(x).reshape(planes, *[1] * (3 - axes), *x.shape[x.ndim - axes :])


def _flat(x: Array, axes: int) -> Array:
    """Return x as (planes, positions) in C order."""
    shape = x.shape[: x.ndim - axes], x.shape[x.ndim - axes :]
    return np.ascontiguousarray(x).reshape([int(np.prod(one, dtype=np.int64)) for one in shape])


def three_axes(windows: Windows) -> Windows:
    """Return windows for three axes; a missing axis gets a window of length 1."""
    return (*[(1, 1, 0, 1)] * (3 - len(windows)), *windows)


# (rows, columns, stride) of the windows of most models. For these there are special loops.
_USUAL: Final = {(2, 2, 2), (3, 3, 2), (3, 3, 1), (1, 2, 2), (1, 3, 2)}


def loop_for(windows: Windows, plane: int, dtype: str) -> tuple[int, int, int, str]:
    """Return the arguments of window_loops.entry for these windows."""
    (deep, *_), (rows, *_), (columns, stride, _, dilation) = windows
    usual = (rows, columns, stride) in _USUAL and deep == dilation == 1 and plane < 1 << 31
    usual = usual and windows[1][3] == 1
    return *((rows, columns, stride) if usual else (0, 0, 1)), dtype


@functools.cache
def compiled(name: str, *kind: Any) -> Any:
    """Return a function of window_loops in compiled form."""
    return find_function("nn.window_loops", name, *kind)


def largest(x: Array, out: Array, places: Array, windows: Windows) -> None:
    """Write the largest element of each window into out, and its position into places.

    NaN counts as larger than all numbers. A window that is entirely in the padding gives the lowest
    number.
    """
    axes = len(windows)
    low = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    outs = [_planes(one, axes) for one in (out, places)]
    planes, three = _planes(x, axes), three_axes(windows)
    kind = loop_for(three, planes[:1].size, x.dtype.name)
    if is_numpys_turn(compiled, "entry", *kind):
        largest_by_numpy(planes, outs[0], outs[1], three, low)
        return
    words = np.array([planes.shape, outs[0].shape, *three], np.int64)
    run = compiled("entry", *kind)
    require_arrays(planes, *outs)
    run(id(planes), *map(id, outs), id(words), x.dtype.type(low))


def largest_by_numpy(x: Array, best: Array, places: Array, windows: Windows, low: float) -> None:
    """Compute `largest` with NumPy, one window element at a time for all windows."""
    axes = [
        _seen_along(length, count, one)
        for length, count, one in zip(x.shape[1:], best.shape[1:], windows, strict=True)
    ]
    best.fill(low)
    places[...] = _counted([seen[0] for seen, _ in axes], x.shape)
    for tap in np.ndindex(*[len(seen) for seen, _ in axes]):
        at = [seen[t] for t, (seen, _) in zip(tap, axes, strict=True)]
        inside = np.logical_and.outer(
            np.logical_and.outer(axes[0][1][tap[0]], axes[1][1][tap[1]]), axes[2][1][tap[2]]
        )
        value = x[:, *np.ix_(*at)]
        larger = inside & ((value > best) | (value != value))
        np.copyto(best, value, where=larger)
        np.copyto(places, _counted(at, x.shape), where=larger)


def _seen_along(length: int, count: int, one: tuple[int, int, int, int]) -> tuple[Array, Array]:
    """Return the positions along an axis that its windows cover, one row for each window element,
    and a mask of the positions inside the axis.
    """
    kernel, stride, padding, dilation = one
    i = np.arange(count)
    if kernel:
        first, step = i * stride - padding, dilation
        end = np.minimum(first + (kernel - 1) * step + 1, length)
        first += np.maximum(-first + step - 1, 0) // step * step
    else:
        first, end, step = i * length // count, -(-(i + 1) * length // count), 1
    taps = max(int((end - first).max(initial=0) + step - 1) // step, 1)
    seen = first + step * np.arange(taps)[:, None]
    return np.minimum(seen, length - 1), seen < end


def _counted(at: Sequence[Array], shape: tuple[int, ...]) -> Array:
    """Return the flat positions of indices along three axes."""
    depth, height, width = np.ix_(*at)
    counted: Array = (depth * shape[2] + height) * shape[3] + width
    return counted


def pick(x: Array, places: Array, out: Array, windows: Windows) -> None:
    """Write the elements of x at the positions `places` of each plane into out.

    Raises  IndexError for a position that is out of bounds
    """
    axes = len(windows)
    given, at, to = as_bits(_flat(x, axes)), _flat(places, axes), as_bits(_flat(out, axes))
    kind = given.dtype, at.dtype
    if is_numpys_turn(compiled, "picking", *kind):
        to[...] = np.take_along_axis(given, _own_places(at, x.shape[x.ndim - axes :]), 1)
        return
    found = compiled("picking", *kind)(given, at, to)
    if found != INSIDE or (at.size and not given.shape[1]):
        _refuse(found, x.shape[x.ndim - axes :])


def spread(x: Array, places: Array, out: Array, windows: Windows) -> None:
    """Write zeros into out, and add x at the positions `places` of each plane: the adjoint of pick.
    The position of an element of x must be inside the window of that element.

    Raises  IndexError for a position that is out of bounds
    """
    axes = len(windows)
    given, at, to = [_flat(one, axes) for one in (x, places, out)]
    kind = given.dtype, at.dtype
    if is_numpys_turn(compiled, "spreading", *kind):
        own = _own_places(at, out.shape[out.ndim - axes :])
        to.fill(0)
        np.add.at(to, (np.arange(len(to))[:, None], own), given)
        return
    found = compiled("spreading", *kind)(given, at, to)
    if found != INSIDE or (at.size and not to.shape[1]):
        _refuse(found, out.shape[out.ndim - axes :])


def _own_places(places: Array, space: tuple[int, ...]) -> Array:
    """Return a private copy of positions, for NumPy's loops.

    Raises  IndexError for a position that is out of bounds
    """
    own = places.copy()
    if own.size:
        low, high = ends(own)
        if low < 0 or high >= math.prod(space):
            _refuse(low if low < 0 else high, space)
    return own


def _refuse(place: int, space: tuple[int, ...]) -> None:
    raise OutOfBounds(
        f"Found an invalid max index: {place} (output volumes are of size "
        f"{'x'.join(map(str, space if len(space) > 1 else (*space, 1)))})"
    )
