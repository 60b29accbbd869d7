"""x[i, j] and x[i, j] = y for long vectors of indices, by the loops of place_loops."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ..jit.kernel_cache import Loops
from .indices import refuse

Array = np.ndarray[Any, Any]
_loops = Loops("index.place_loops")


class Pair:
    """Index vectors for adjacent axes of an array, merged to at most two vectors for the loops."""

    def __init__(self, vectors: list[Array], first_axis: int, shape: tuple[int, ...]) -> None:
        self.end = first_axis + len(vectors)
        self.outer, self.width = math.prod(shape[:first_axis]), math.prod(shape[self.end :])
        self._first, self._shape = first_axis, shape
        lengths = list(shape[first_axis : self.end])
        while len(vectors) > 2:
            axis = len(vectors) - 2
            own = np.empty(vectors[0].size, np.int64)
            self._require(_loops.join(*vectors[axis:], *lengths[axis:], own), axis)
            vectors = [*vectors[:axis], own]
            lengths[axis:] = [math.prod(lengths[axis:])]
        self.count = vectors[0].size
        self.i, self.j = vectors if len(vectors) == 2 else (*vectors, np.empty(0, np.int64))
        self.n, self.m = lengths if len(lengths) == 2 else (lengths[0], 1)

    def _require(self, met: tuple[int, int], axis: int = 0) -> None:
        """Raise OutOfBounds for the index that a loop found out of bounds."""
        index, refused = met
        if refused >= 0:
            at = self._first + axis + refused
            refuse(index, self._shape[at], at)

    def run(self, loop: Callable[..., Any], x: Array, out: Array) -> None:
        """Run a loop that reads x and writes out.

        Raises  OutOfBounds
        """
        self._require(loop(x, self.i, self.j, out))

    def require_inside(self) -> None:
        """Raise OutOfBounds, before anything is written, if an index is out of bounds now."""
        for axis, (vector, length) in enumerate(((self.i, self.n), (self.j, self.m))):
            at = _loops.first_outside(vector, length)
            if at >= 0:
                self._require((int(vector[at]), axis))


_UNSIGNED: Final = {size: np.dtype(f"u{min(size, 8)}") for size in (1, 2, 4, 8, 16)}


def _bits(x: Array) -> Array:
    """Return x viewed as unsigned integers. A complex128 array must be in C order; each of its
    elements becomes two integers.
    """
    return x.view(_UNSIGNED[x.dtype.itemsize])


def _rows(x: Array, shape: tuple[int, ...], pair: Pair) -> Array:
    """Return x, broadcast to `shape`, as an array (outer, count, width) in C order; count is 1 if x
    is one number.
    """
    if x.size == 1:
        return np.full((pair.outer, 1, pair.width), x.reshape(()))
    whole = np.ascontiguousarray(x if x.shape == shape else np.broadcast_to(x, shape))
    return whole.reshape(pair.outer, pair.count, pair.width)


def take_line(x: Array, written: Array, places: Array) -> None:
    """Copy the elements of the vector x at `places` to `written`; all arrays are in C order.

    Raises  OutOfBounds
    """
    index, refused = _loops.take_line(_bits(x), places.reshape(-1), _bits(written).reshape(-1))
    if refused >= 0:
        refuse(index, len(x), 0)


def put_line(x: Array, written: Array, places: Array, *, add: bool) -> None:
    """Write x to the elements of the vector `written` at `places`, or add x to these elements. x
    has the shape of `places`; all arrays are in C order.

    Raises  OutOfBounds; before anything is written, unless an index changes during the call
    """
    line, names = x.reshape(-1), places.reshape(-1)
    at = _loops.first_outside(names, len(written))
    if at >= 0:
        refuse(int(names[at]), len(written), 0)
    if add:
        index, refused = _loops.add_line(line, names, written)
    else:
        index, refused = _loops.write_line(_bits(line), names, _bits(written))
    if refused >= 0:
        refuse(index, len(written), 0)


def take(x: Array, written: Array, vectors: list[Array], first_axis: int) -> None:
    """Copy the elements of x that `vectors` selects to `written`, which is in C order. `vectors`
    has the indices for the axes from `first_axis` on.

    Raises  OutOfBounds
    """
    pair = Pair(vectors, first_axis, x.shape)
    read = _bits(x.reshape(pair.outer, pair.n, pair.m, pair.width))
    pair.run(_loops.take, read, _bits(written.reshape(pair.outer, pair.count, pair.width)))


def put(
    x: Array,
    written: Array,
    vectors: list[Array],
    first_axis: int,
    shape: tuple[int, ...],
    *,
    add: bool,
) -> None:
    """Write x to the elements of `written` at `vectors`, the indices along axes from `first_axis`
    on, or add x to these elements. x is broadcast to `shape`, the shape of the indexed part.

    Raises  OutOfBounds; before anything is written, unless an index changes during the call
    """
    pair = Pair(vectors, first_axis, written.shape)
    pair.require_inside()
    given, to = _rows(x, shape, pair), written.reshape(pair.outer, pair.n, pair.m, pair.width)
    if add:
        pair.run(_loops.add, given, to)
    else:
        pair.run(_loops.write, _bits(given), _bits(to))
