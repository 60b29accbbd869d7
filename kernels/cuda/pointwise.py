"""Scalar bodies on CUDA arrays: which text fits the arrays, and how it is launched."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from fastdist.core.scalar import Body

from .launch import THREADS, Launch, address_of, int64_fields, launch
from .layout import broadcast_strides, walk
from .pointwise_source import Operand, compute_dtype, pack_size, source_of, value_dtype

# Blocks of a grid: enough to fill every GPU; beyond that each thread takes several elements.
_MOST_BLOCKS: Final = 1 << 16


def pointwise(body: Body, arrays: Sequence[Any], out: Any) -> None:
    """Write the body's value into out; arrays broadcast to out's shape.

    Thread  any; queued on the current stream of out's device
    """
    launch(plan(body, arrays, out))


def plan(body: Body, arrays: Sequence[Any], out: Any) -> list[Launch]:
    """Return the launch that writes the body's value into out; none if out is empty.

    arrays stand for body.names, in order; a NumPy array of shape () is a number, passed by value.
    out may be one of them, element for element.
    """
    read = [a for name, a in zip(body.names, arrays, strict=True) if name in body.used]
    operands = tuple(Operand(array.dtype, _is_number(array)) for array in read)
    moved = [*(array for array in read if not _is_number(array)), out]
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
        value_dtype(array.dtype, compute).type(array[()]) if operand.by_value else array
        for array, operand in zip(read, operands, strict=True)
    ]
    return [Launch(form.source, form.name, form.grid, (*args, out, form.extent))]


def _is_number(array: Any) -> bool:
    return isinstance(array, np.ndarray) and array.shape == ()


class _Form(NamedTuple):
    source: str
    name: str
    grid: tuple[int, int]
    extent: Any


@functools.lru_cache(maxsize=8192)
def _form(
    body: Body,
    operands: tuple[Operand, ...],
    out: np.dtype[Any],
    shape: tuple[int, ...],
    strides: tuple[tuple[int, ...], ...],
    aligned: bool,
) -> _Form | None:
    route = walk(shape, strides)
    size = route.size
    if size == 0:
        return None
    if aligned and all(route.is_contiguous(operand) for operand in range(len(strides))):
        threads = -(-size // pack_size(operands, out))
        return _Form(source_of(body, operands, out), "contiguous", _grid(threads), np.int64(size))
    # The last step beyond the end must not wrap around either.
    wide = size + _MOST_BLOCKS * THREADS >= 2**32
    source = source_of(body, operands, out, len(route.shape), wide)
    fields = int64_fields(size, *route.shape, *(s for steps in route.strides for s in steps))
    return _Form(source, "strided", _grid(size), fields)


def _grid(threads: int) -> tuple[int, int]:
    return min(-(-threads // THREADS), _MOST_BLOCKS), 1
