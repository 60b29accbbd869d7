"""Scalar bodies on CUDA arrays: chooses the source and the launch that fit the arrays."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from fastdist.language.scalar import Body

from ..launch import THREADS, ByValue, Launch, Slot, address_of, int64_fields, is_number, launch
from ..layout import Walk, broadcast_strides, walk
from ..prepared import PreparedTable, only_launches
from .pointwise_source import (
    Operand,
    compute_dtype,
    pack_size,
    packs_at_once,
    source_of,
    value_dtype,
)

# The most blocks of a grid over elements that are not contiguous: enough to fill every GPU.
_MOST_BLOCKS: Final = 1 << 16


def pointwise(body: Body, arrays: Sequence[Any], out: Any) -> None:
    """Write the body's value into out; arrays broadcast to out's shape.

    Thread  any; queued on the current stream of out's device, which must be the current device
    """
    table_of(body).run(*arrays, out)


@functools.lru_cache(maxsize=1024)
def table_of(body: Body) -> PreparedTable:
    """Return the prepared launches of a body's kernel, by the layouts of arrays and out."""
    return PreparedTable(kernel_of_body(body))


def kernel_of_body(body: Body) -> Callable[..., None]:
    """Return the kernel of a body, a function of its arrays and out."""

    @only_launches
    def kernel(*given: Any) -> None:
        launch(plan(body, given[:-1], given[-1]))

    return kernel


def plan(body: Body, arrays: Sequence[Any], out: Any) -> list[Launch]:
    """Return the launch that writes the body's value into out; no launch if out is empty.

    `arrays` are the values of body.names, in order; a 0-d NumPy array is a number, passed by value.
    `out` may be one of the arrays, if its layout is the same.
    """
    read = [a for name, a in zip(body.names, arrays, strict=True) if name in body.used]
    operands = tuple(Operand(array.dtype, is_number(array)) for array in read)
    moved = [*(array for array in read if not is_number(array)), out]
    form = _form(
        body,
        operands,
        out.dtype,
        tuple(out.shape),
        tuple(broadcast_strides(array, out.shape) for array in moved),
        all(address_of(array) % 16 == 0 for array in moved),
    )
    if form is None:
        return []
    compute = compute_dtype(operands, out.dtype)
    args = [
        _value(array, value_dtype(array.dtype, compute)) if operand.by_value else array
        for array, operand in zip(read, operands, strict=True)
    ]
    return [Launch(form.source, form.name, form.grid, (*args, out, form.extent))]


def _value(number: Any, dtype: np.dtype[Any]) -> Any:
    return ByValue(number, dtype.type) if isinstance(number, Slot) else dtype.type(number[()])


class _Form(NamedTuple):
    source: str
    name: str
    grid: tuple[int, int]
    extent: Any


def _form(
    body: Body,
    operands: tuple[Operand, ...],
    out: np.dtype[Any],
    shape: tuple[int, ...],
    strides: tuple[tuple[int, ...], ...],
    aligned: bool,
) -> _Form | None:
    route = walk(shape, strides)
    if route.size == 0:
        return None
    if len(route.shape) == 1:
        return _along_one_axis(body, operands, out, route, aligned=aligned)
    if (tiles := _across(route, _tile_pack(operands, out) if aligned else 1)) is not None:
        side, pack, grid, extent = tiles
        dims = max(1, len(route.shape) - 2)
        source = source_of(body, operands, out, dims, pack=pack, side=side)
        return _Form(source, "tiled", grid, extent)
    return _of_rows(body, operands, out, route, aligned=aligned)


def _along_one_axis(
    body: Body, operands: tuple[Operand, ...], out: np.dtype[Any], route: Walk, *, aligned: bool
) -> _Form:
    size, steps = route.size, [strides[0] for strides in route.strides]
    if aligned and (size == 1 or (steps[-1] == 1 and set(steps) <= {0, 1})):
        operands = _marked(operands, [(False, step == 0) for step in steps])
        threads = -(-size // pack_size(operands, out))
        blocks = -(-threads // (THREADS * packs_at_once(body, operands, out)))
        return _Form(source_of(body, operands, out), "contiguous", (blocks, 1), np.int64(size))
    # 32-bit indices must not overflow; a thread also computes the index one step beyond the end.
    wide = size + _MOST_BLOCKS * THREADS >= 2**32
    grid = (min(-(-size // THREADS), _MOST_BLOCKS), 1)
    source = source_of(body, operands, out, 1, wide)
    return _Form(source, "strided", grid, int64_fields(size, *steps))


def _marked(
    operands: tuple[Operand, ...], marks: Sequence[tuple[bool, bool]]
) -> tuple[Operand, ...]:
    """Return operands with `one_row` and `one_column` from `marks`, which has one mark for each
    operand in memory.
    """
    mark = iter(marks)
    return tuple(
        one if one.by_value else Operand(one.dtype, False, *next(mark)) for one in operands
    )


def _of_rows(
    body: Body, operands: tuple[Operand, ...], out: np.dtype[Any], route: Walk, *, aligned: bool
) -> _Form:
    *outer, columns = route.shape
    pack = pack_size(operands, out)
    whole = [strides for strides in route.strides if strides[-1]]
    packed = aligned and columns % pack == 0 and route.strides[-1][-1] == 1
    packed = packed and all(
        strides[-1] == 1 and not any(step % pack for step in strides[:-1]) for strides in whole
    )
    pack = pack if packed else 1
    marks = [(not any(strides[:-1]), strides[-1] == 0) for strides in route.strides]
    operands = _marked(operands, marks)
    rows, columns = route.size // columns, columns // pack
    # A thread loads several packs at once only if enough threads remain to fill every GPU.
    at_once = packs_at_once(body, operands, out) if rows * columns >= _MANY else 1
    together = -(-rows // at_once)
    wide = columns * together + THREADS >= 2**32 or rows + 4 * together >= 2**32
    fields = [n for strides in route.strides for n in strides]
    return _Form(
        source_of(body, operands, out, len(route.shape), wide, pack),
        "rows",
        (-(-columns * together // THREADS), 1),
        int64_fields(rows, columns, together, *outer, *fields),
    )


# If there are at least this many packs, a thread processes several of them.
_MANY: Final = 1 << 18


def _tile_pack(operands: Sequence[Operand], out: np.dtype[Any]) -> int:
    """Return the number of elements that each thread loads at a time from a tile. For elements of 8
    bytes the number is 1, not 2: loads of single elements keep as many bytes in flight as loads of
    pairs, and need tiles with less shared memory than loads of pairs.
    """
    pack = pack_size(operands, out)
    return pack if pack > 2 else 1


def _across(route: Walk, pack: int) -> tuple[int, int, tuple[int, int], Any] | None:
    """Return the side of tiles, the number of elements that a thread loads at a time, the grid and
    the extent of a transposing copy, whose input and out are contiguous along different axes.
    Return None for other copies.
    """
    if len(route.strides) != 2 or route.strides[1][-1] != 1 or abs(route.strides[0][-1]) < 2:
        return None
    inputs, written = route.strides
    row = next((axis for axis, step in enumerate(inputs) if abs(step) == 1), None)
    if row is None or min(route.shape[row], route.shape[-1]) < _LEAST_SIDE:
        return None
    others = [axis for axis in range(len(route.shape) - 1) if axis != row]
    lengths = [route.shape[axis] for axis in others] or [1]
    steps = [[strides[axis] for axis in others] or [0] for strides in route.strides]
    rows, columns, count = route.shape[row], route.shape[-1], math.prod(lengths)
    long = min(rows, columns) >= 64
    pack = min(pack, 16 if long else 4)
    apart = rows, columns, inputs[-1], written[row], *steps[0], *steps[1]
    if inputs[row] != 1 or any(step % pack for step in apart):
        pack = 1
    side = 64 if long and pack > 1 else 32
    blocks = -(-rows // side) * -(-columns // side)
    extent = int64_fields(
        *(rows, columns, count, inputs[row], inputs[-1], written[row]),
        *(*lengths, *steps[0], *steps[1]),
    )
    return side, pack, (blocks, min(count, _MOST_OF_Y)), extent


# The smallest length of either side of a tiled copy, and the limit on blocks along the grid's
# second axis.
_LEAST_SIDE: Final = 8
_MOST_OF_Y: Final = 65_535
