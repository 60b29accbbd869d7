"""Copies that change dtype, order or position, on CUDA arrays."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

from fastdist.language.scalar import parse

from ..launch import (
    C_TYPES,
    THREADS,
    Launch,
    address_of,
    headers_for,
    int64_fields,
    launch,
    text_of,
)
from ..layout import element_strides
from ..pointwise.pointwise import plan, pointwise
from ..prepared import on_device_of_out, only_launches

_SAME: Final = parse("x", ("x",))
_FAR: Final = 1 << 62


@only_launches
def cast(x: Any, out: Any) -> None:
    """Write x into out, of the same shape, with C's cast between the two dtypes."""
    launch(plan(_SAME, [x], out))


@on_device_of_out
def place(x: Any, out: Any, index: Any, value: Any) -> None:
    """Write x into out[index], and value everywhere else. index holds integers, slices, None and
    Ellipsis; value is 0-d, of out's dtype.
    """
    # The elements at index are written twice, which costs less than finding the other elements.
    pointwise(_SAME, [value], out)
    pointwise(_SAME, [x], out[index])


def fill_by(x: Any, out: Any, fill: Callable[[Any, Any], None]) -> None:
    """Call fill(x, out), which writes out, for ops whose values come from other code."""
    fill(x, out)


@on_device_of_out
def cat(x: Any, out: Any, axis: int, start: int) -> None:
    """Write x into the part of out that begins at `start` along axis."""
    part = [slice(None)] * out.ndim
    part[axis] = slice(start, start + x.shape[axis])
    pointwise(_SAME, [x], out[tuple(part)])


@only_launches
def flip(x: Any, out: Any, axes: tuple[int, ...]) -> None:
    """Write x into out with the order along axes reversed."""
    turned = {axis % max(x.ndim, 1) for axis in axes}
    begins = [n - 1 if axis in turned else 0 for axis, n in enumerate(x.shape)]
    signs = [-1 if axis in turned else 1 for axis in range(x.ndim)]
    launch(plan_move(x, out, begins, signs))


@only_launches
def roll(x: Any, out: Any, shifts: tuple[int, ...], axes: tuple[int, ...] | None) -> None:
    """Write x, shifted circularly along axes, into out; with axes=None along the flattened x."""
    if axes is None:
        launch(plan_move(x, out, turn=-shifts[0] % max(out.size, 1)))
        return
    begins = [0] * x.ndim
    for shift, axis in zip(shifts, axes, strict=True):
        begins[axis % x.ndim] -= shift
    begins = [begin % max(n, 1) for begin, n in zip(begins, x.shape, strict=True)]
    launch(plan_move(x, out, begins))


@only_launches
def triangle(x: Any, out: Any, diagonal: int, upper: bool) -> None:
    """Write x into out, with zeros below the diagonal of the last two axes if `upper`, otherwise
    with zeros above the diagonal.
    """
    band = (diagonal, _FAR) if upper else (-_FAR, diagonal)
    launch(plan_move(x, out, band=(x.ndim - 2, x.ndim - 1, *band)))


@only_launches
def place_diagonal(x: Any, out: Any, offset: int, dim1: int, dim2: int) -> None:
    """Write x, whose last axis becomes the diagonal of dim1 and dim2, into out; zeros elsewhere."""
    dim1, dim2 = dim1 % out.ndim, dim2 % out.ndim
    *steps, along = element_strides(x)
    kept = iter(steps)
    # x is read with its last stride along dim1, and with stride 0 along dim2.
    read = [
        along if axis == dim1 else 0 if axis == dim2 else next(kept) for axis in range(out.ndim)
    ]
    first = -max(-offset, 0) * along
    launch(plan_move(x, out, band=(dim1, dim2, offset, offset), steps=read, first=first))


class _Axis(NamedTuple):
    """An axis of a move: its length, the index at which reading begins, its direction, and the
    strides of input and output.
    """

    length: int
    begin: int
    sign: int
    read: int
    write: int


def plan_move(
    x: Any,
    out: Any,
    begins: Any = None,
    signs: Any = None,
    *,
    turn: int = 0,
    band: tuple[int, int, int, int] = (0, 0, -_FAR, _FAR),
    steps: Any = None,
    first: int = 0,
) -> list[Launch]:
    """Return the launch of the kernel `move` (see moves.cu); no launch if out is empty.

    Note    steps are x's strides along out's axes; by default the strides of x itself
    """
    if not out.size:
        return []
    read, write = element_strides(x) if steps is None else steps, element_strides(out)
    zeros, ones = [0] * out.ndim, [1] * out.ndim
    given = zip(out.shape, begins or zeros, signs or ones, read, write, strict=True)
    axes, band = _joined([_Axis(*one) for one in given], band)
    if turn and len(axes) == 1 and axes[0].begin == 0:
        axes, turn = [axes[0]._replace(begin=turn)], 0
    task = int64_fields(*(out.size, turn, first, *band), *itertools.chain(*zip(*axes, strict=True)))
    pack, last = max(16 // out.dtype.itemsize, 1), axes[-1]
    # If `steps` are given, elements outside of the band are not read. A thread can skip a single
    # element, but not a part of a pack.
    packed = pack > 1 and not turn and steps is None and last.length % pack == 0
    packed = packed and last.write == 1 and all(axis.write % pack == 0 for axis in axes[:-1])
    packed = packed and address_of(x) % 16 == 0 and address_of(out) % 16 == 0
    grid = (-(-out.size // (THREADS * (pack if packed else 1))), 1)
    source = source_of_move(out.dtype, len(axes), wide=out.size >= 2**32)
    return [Launch(source, "move_packs" if packed else "move", grid, (x, out, task))]


def _joined(
    given: list[_Axis], band: tuple[int, int, int, int]
) -> tuple[list[_Axis], tuple[int, int, int, int]]:
    """Return the same move with adjacent axes merged, at least one, and the band with the numbers
    of the merged axes.

    If an outer axis is rolled, the merged axis is rolled by whole rows.
    """
    row, column, least, most = band
    kept = {row, column} if (least, most) != (-_FAR, _FAR) else set()
    axes: list[_Axis] = []
    numbers: dict[int, int] = {}
    joins = False  # whether the next axis may be merged with the last one
    for number, one in enumerate(given):
        if number not in kept and one.length == 1:
            continue
        last = axes[-1] if axes else one
        if (
            joins
            and number not in kept
            and (one.begin, one.sign) == (0, 1)
            and (last.sign, last.read, last.write)
            == (1, one.read * one.length, one.write * one.length)
        ):
            begin = last.begin * one.length
            axes[-1] = one._replace(length=last.length * one.length, begin=begin)
            continue
        joins = number not in kept
        numbers[number] = len(axes)
        axes.append(one)
    if not kept:
        return axes or [_Axis(1, 0, 1, 0, 1)], band
    return axes, (numbers[row], numbers[column], least, most)


@functools.lru_cache(maxsize=256)
def source_of_move(dtype: np.dtype[Any], dims: int = 1, *, wide: bool = False) -> str:
    """Return the CUDA source for elements of a dtype and a number of axes. If `wide` is false,
    elements are counted with 32-bit integers, whose division is faster.
    """
    return f"""{headers_for([dtype])}
typedef {C_TYPES[dtype]} Stored;
typedef {"unsigned long long" if wide else "unsigned int"} Index;
constexpr int DIMS = {dims};
{text_of("index/moves.cu")}"""
