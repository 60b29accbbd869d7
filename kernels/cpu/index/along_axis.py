"""gather and scatter along one axis, by the loops of scatter_loops."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..jit.kernel_cache import Loops, Overloads
from .indices import INSIDE, as_bits, refuse

Array = np.ndarray[Any, Any]
_loops = Loops("index.scatter_loops")


def add_rows(into: Array, index: Array, x: Array) -> int:
    """Add row i of the matrix x to row index[i] of the matrix `into`, in order.

    Return the first index that is out of bounds, or INSIDE.
    """
    found: int = _loops.add_rows(into, index, x)
    return found


@functools.cache
def _scattering(way: str) -> tuple[Overloads, Overloads]:
    """Return the two loops of the scatter `way`: for the last axis of matrices, for other axes."""
    return tuple(  # type: ignore[return-value]
        Overloads("index.scatter_loops", name, way) for name in ("scatter_lines", "scatter")
    )


def _run(along_last: Callable[..., int], loop: Callable[..., int], lines: list[Array]) -> int:
    """Run `along_last` on matrices if the axis is the last one, else `loop`."""
    if lines[0].shape[2] == 1:
        return along_last(*[one[:, :, 0] for one in lines])
    return loop(*lines)


def gather(x: Array, index: Array, into: Array, axis: int) -> None:
    """Write the elements of x at `index` along `axis` into `into`."""
    found = into if into.flags.c_contiguous else np.empty(into.shape, into.dtype)
    lines = [_lines(one, index.shape, axis) for one in (as_bits(x), index, as_bits(found))]
    met = _run(_loops.gather_lines, _loops.gather, lines)
    if met != INSIDE or not x.shape[axis]:
        refuse(met, x.shape[axis], axis)
    if found is not into:
        np.copyto(into, found)


def scatter(index: Array, src: Array, into: Array, axis: int, way: str) -> None:
    """Write src at `index` along `axis` into `into`. `way` is "set", or a reduction of
    scattering.reduce.

    Note    `src` is broadcast to the shape of `index`; half types, for which there are no loops,
            can only be set
    """
    part = tuple(slice(None if i == axis else n) for i, n in enumerate(index.shape))
    whole = into[part]
    written = whole if whole.flags.c_contiguous else np.ascontiguousarray(whole)
    given = np.broadcast_to(
        src[tuple(slice(n) for n in index.shape)] if src.ndim else src, index.shape
    )
    lines = [_lines(one, index.shape, axis) for one in (index, as_bits(given), as_bits(written))]
    met = _run(*_scattering(way), lines)
    if met != INSIDE or not into.shape[axis]:
        refuse(met, into.shape[axis], axis)
    if written is not whole:
        np.copyto(whole, written)


def _lines(x: Array, shape: tuple[int, ...], axis: int) -> Array:
    """Return x, cut to shape except along axis, reshaped to (outer, length, inner)."""
    x = x[tuple(slice(None if i == axis else n) for i, n in enumerate(shape))]
    outer = int(np.prod(x.shape[:axis], dtype=np.int64))
    return x.reshape(outer, x.shape[axis], int(np.prod(x.shape[axis + 1 :], dtype=np.int64)))
