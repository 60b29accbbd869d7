"""Sums along axes whose rounding error does not grow with the number of terms.

NumPy adds pairwise along the innermost axis in memory, but along other axes it adds one row after
the other. So for two columns of 5 million float32 each, NumPy's sums were off by 2e-5 and its
variances by 4e-3. With a mean of 1000, the variances were wrong by a factor of 5000. Here such an
axis is folded first: its n elements are split into 64 parts of n / 64 elements, and the parts are
added to each other. This is repeated until one element is left.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ..silence import silent

Array = np.ndarray[Any, Any]

_PARTS: Final = 64
# Up to _IN_TURN terms may be added in sequence. For rows of _LONG elements or more, folding does
# not save time (1000 x 1000 takes a fifth more time, on one core of an AMD EPYC). So up to
# _LONG_IN_TURN of these rows may be added in sequence: a sum of 1000 terms is off by 1e-6. Arrays
# with up to _LEAST elements are not folded.
_IN_TURN: Final = 2 * _PARTS
_LONG: Final = 512
_LONG_IN_TURN: Final = 1024
_LEAST: Final = 4096
# The number of products that einsum adds in sequence.
_PIECE: Final = 1024


def _added_in_turn(x: Array, axes: tuple[int, ...]) -> list[int]:
    """Return the axes among `axes` along which NumPy adds many terms, but not pairwise."""
    if x.flags.c_contiguous and axes == tuple(range(x.ndim - len(axes), x.ndim)):
        return []
    shape, strides = x.shape, x.strides
    order = sorted(
        [axis for axis in range(x.ndim) if shape[axis] != 1], key=lambda axis: abs(strides[axis])
    )
    together = 0
    # For an expanded array, the order in which NumPy adds follows from the result's strides.
    repeats = any(strides[axis] == 0 for axis in order) and any(a not in axes for a in order)
    for place, axis in enumerate(order):
        inner = order[place - 1]
        if repeats or axis not in axes:
            break
        if place and strides[axis] != strides[inner] * shape[inner]:
            break
        together += 1
    apart = [axis for axis in order[together:] if axis in axes]
    terms = math.prod([shape[axis] for axis in apart])
    return apart if terms > (_LONG_IN_TURN if x.size >= _LONG * terms else _IN_TURN) else []


@silent
def _folded(x: Array, axis: int, dtype: Any) -> Array:
    """Return x summed along axis, which keeps length 1, by adding parts of the axis repeatedly."""
    while x.shape[axis] > 1:
        n = x.shape[axis]
        length = -(-n // _PARTS) if n > _IN_TURN else 1
        parts, rest = divmod(n, length)
        head = np.moveaxis(x, axis, 0)
        # Add parts that are far apart, so that each addition adds long rows.
        seen = head[: parts * length].reshape(parts, length, *head.shape[1:])
        total = np.add.reduce(seen, axis=0, dtype=dtype)
        if rest:
            np.add(total[:rest], head[parts * length :], out=total[:rest])
        x = np.moveaxis(total, 0, axis)
    return x


@silent
def _of_pieces(x: Array, y: Array, rest: int) -> Array:
    whole = x.shape[1] - rest
    pieces = [a[:, :whole].reshape(len(a), -1, _PIECE) for a in (x, y)]
    total: Array = np.add.reduce(np.einsum("ijk,ijk->ij", *pieces), axis=1)
    total += np.einsum("ij,ij->i", x[:, whole:], y[:, whole:])
    return total


@silent
def add_up_products(x: Array, y: Array) -> Array:
    """Return the sums of x * y along the rows of two matrices of one floating dtype, as (rows, 1).

    Note    einsum adds in sequence, but needs no memory for the products; so it takes half the time
            of a multiplication and a sum
    """
    if x.shape[1] > _PIECE:
        return _of_pieces(x, y, x.shape[1] % _PIECE)[:, None]
    total: Array = np.einsum("ij,ij->i", x, y)
    return total[:, None]


@silent
def _add_up_few(x: Array, axes: tuple[int, ...], *, keepdims: bool, out: Array | None) -> Any:
    """Return the sums of few numbers over some axes, from a copy in which the terms are adjacent.
    NumPy adds adjacent terms pairwise, which saves as much time as the copy takes.
    """
    if x.ndim == 2:
        rows = x if axes[0] else x.T
    else:
        rest = [axis for axis in range(x.ndim) if axis not in axes]
        rows = x.transpose([*rest, *axes])
        rows = rows.reshape([*rows.shape[: len(rest)], -1])
    rows = np.ascontiguousarray(rows)
    if not keepdims:
        return np.add.reduce(rows, axis=-1, out=out)
    total = np.add.reduce(rows, -1)
    total = total.reshape([1 if axis in axes else n for axis, n in enumerate(x.shape)])
    if out is None:
        return total
    np.copyto(out, total)
    return out


# Rows with fewer elements than this are not added first.
_ROW: Final = 16


def _gapless_last(x: Array, axes: tuple[int, ...]) -> int:
    """Return how many of `axes` are the last axes of x, one after the other. Return 0 if all of
    `axes` are last axes, or if rows along these axes are too short to be added first.
    """
    if len(axes) < 2 or x.dtype.char not in "fd" or not x.flags.c_contiguous:
        return 0
    last, n = 0, 1
    while last < len(axes) and axes[-1 - last] == x.ndim - 1 - last:
        n *= x.shape[-1 - last]
        last += 1
    return last if last < len(axes) and n >= _ROW else 0


def _sums_of_rows(x: Array, last: int) -> Array:
    """Return the sums over the last `last` axes.

    Note    the compiled loop takes a sixth of NumPy's time. A sum of 4 x 64 x 16 x 16 over all axes
            but the second takes 3 us with this loop, and 12 us with np.add.reduce alone (AMD EPYC,
            Zen 4)
    """
    shape = x.shape[: x.ndim - last]
    out, rows = np.empty(shape, x.dtype), math.prod(shape)
    _loop_of_rows(x.dtype)((x, out), rows, x.size // rows, 1.0)
    return out


@functools.cache
def _loop_of_rows(dtype: np.dtype[Any]) -> Callable[..., None]:
    from ..rows.long_rows import loop_of  # imported late, because it imports this file

    return loop_of("sum_of_rows", dtype)


@silent
def add_up(
    x: Array,
    axes: int | tuple[int, ...] | None = None,
    *,
    dtype: Any = None,
    keepdims: bool = False,
    out: Array | None = None,
) -> Any:
    """Do the same as np.add.reduce, which is called for integers and few terms.

    Note    folding 10 million float32 in two columns takes a fifth of NumPy's time for adding them
            in sequence. The order of additions depends on shape and strides alone
    """
    if axes.__class__ is tuple and len(axes) == 1 and x.shape[axes[0]] <= _IN_TURN:
        pass  # the most common case, and the cheapest to detect
    elif x.size <= _LEAST:
        few = (axes,) if isinstance(axes, int) else axes
        if few is not None and len(few) < x.ndim and x.dtype.kind == "f":
            few = tuple([axis % x.ndim for axis in few])
            terms = math.prod([x.shape[axis] for axis in few])
            if terms > _IN_TURN and x.size and dtype in (None, x.dtype):
                return _add_up_few(x, few, keepdims=keepdims, out=out)
    elif x.dtype.kind == "f":
        if axes is None:
            axes = tuple(range(x.ndim))
        elif isinstance(axes, int):
            axes = (axes % x.ndim,)
        last = _gapless_last(x, axes)
        if last and not keepdims and dtype in (None, x.dtype):
            x, axes = _sums_of_rows(x, last), axes[: len(axes) - last]
        lengths = [x.shape[axis] for axis in axes]
        terms = lengths[0] if len(lengths) == 1 else math.prod(lengths)
        # Looking for axes that are not contiguous takes 10 us.
        if terms > _IN_TURN and (terms > _LONG_IN_TURN or x.size < _LONG * terms):
            for axis in _added_in_turn(x, axes):
                x = _folded(x, axis, dtype)
    return np.add.reduce(x, axis=axes, dtype=dtype, keepdims=keepdims, out=out)  # type: ignore[arg-type]


@silent
def log_of_total(powers: Array, total: Any, axes: Any, *, keepdims: bool = False) -> Any:
    """Return the logarithms of `total`, the sums of `powers` along axes. The greatest power is 1.

    See Note [Rows with one large share] in row_steps.py.
    """
    found = np.log(total)
    if not total.size or not total.item(total.argmin()) < 1.0625:
        return found
    large = np.logical_and(total >= 1, total < 1.0625)
    others = np.where(powers < 1, powers, powers.dtype.type(0))
    return np.where(large, np.log1p(add_up(others, axes, keepdims=keepdims)), found)
