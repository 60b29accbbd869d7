"""Copies that change dtype, order or position, on the CPU."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ..halves import convert
from ..silence import silent

Array = np.ndarray[Any, Any]


def cast(x: Array, out: Array) -> None:
    """Write x into out, of the same shape, with C's cast between the two dtypes."""
    convert(x, out)


@silent
def place(x: Array, out: Array, index: Any, value: Array) -> None:
    """Write x into out[index], and value everywhere else. index holds integers, slices, None and
    Ellipsis; value is 0-d, of out's dtype.
    """
    out.fill(value)
    out[index] = x


@silent
def flip(x: Array, out: Array, axes: tuple[int, ...]) -> None:
    """Write x into out with the order along axes reversed."""
    np.copyto(out, np.flip(x, axes))


@silent
def roll(x: Array, out: Array, shifts: tuple[int, ...], axes: tuple[int, ...] | None) -> None:
    """Write x, shifted circularly along axes, into out. axes=None shifts along the flattened x."""
    np.copyto(out, np.roll(x, shifts[0] if axes is None else shifts, axes))


BITS: Final = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
# Masks up to this number of elements are cached.
_KEPT: Final = 1 << 16


def bits_of_triangle(rows: int, columns: int, diagonal: int, upper: bool, kind: type[Any]) -> Array:
    """Return a matrix of integers with all bits set inside a triangle, and none outside."""
    lower = np.tri(rows, columns, diagonal - upper, np.bool_)
    chosen = np.logical_not(lower, out=lower) if upper else lower
    bits: Array = chosen.astype(kind)
    return np.negative(bits, out=bits)


_kept_bits = functools.lru_cache(maxsize=8)(bits_of_triangle)


@silent
def triangle(x: Array, out: Array, diagonal: int, upper: bool) -> None:
    """Write x into out, with zeros on one side of the diagonal of the last two axes: below it if
    `upper`, else above it.
    """
    kind = BITS.get(x.dtype.itemsize)
    if kind is None or out.dtype != x.dtype:
        np.copyto(out, np.triu(x, diagonal) if upper else np.tril(x, diagonal))
        return
    rows, columns = x.shape[-2:]
    make = _kept_bits if rows * columns <= _KEPT else bits_of_triangle
    bits = make(rows, columns, diagonal, upper, kind)
    # The bitwise AND of a number and its mask is the number or 0. For 200 x 200 float32 this takes
    # 3 us, and np.tril takes 33 us (AMD EPYC, Zen 4).
    np.bitwise_and(x.view(kind), bits, out=out.view(kind))


@silent
def place_diagonal(x: Array, out: Array, offset: int, dim1: int, dim2: int) -> None:
    """Write x, whose last axis is the diagonal of dim1 and dim2, into out, and zeros elsewhere."""
    out.fill(0)
    np.moveaxis(out, (dim1, dim2), (-2, -1))[
        ..., np.arange(x.shape[-1]) + max(-offset, 0), np.arange(x.shape[-1]) + max(offset, 0)
    ] = x


def fill_by(x: Array, out: Array, fill: Callable[[Any, Any], None]) -> None:
    """Call fill(x, out), which writes into out, for ops whose values come from other code."""
    fill(x, out)


@silent
def cat(x: Array, out: Array, axis: int, start: int) -> None:
    """Write x into the part of out that begins at `start` along axis."""
    part = [slice(None)] * out.ndim
    part[axis] = slice(start, start + x.shape[axis])
    convert(x, out[tuple(part)])
