"""Scalar bodies on CUDA arrays: which text fits the arrays, and how it is launched."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from fastdist.core.scalar import Body

from .launch import (
    THREADS,
    ByValue,
    Launch,
    Slot,
    address_of,
    int64_fields,
    is_number,
    launch,
)
from .layout import broadcast_strides, walk
from .pointwise_source import Operand, compute_dtype, pack_size, source_of, value_dtype
from .prepared import PreparedTable, key_of, only_launches

# Blocks of a grid: enough to fill every GPU; beyond that each thread takes several elements.
_MOST_BLOCKS: Final = 1 << 16


def pointwise(body: Body, arrays: Sequence[Any], out: Any) -> None:
    """Write the body's value into out; arrays broadcast to out's shape.

    Thread  any; queued on the current stream of out's device, which is the current one
    """
    given = (*arrays, out)
    table = _table_of(body)
    found = table.get(key := key_of(given))
    (found or table.prepare(key, given)).run(given)


@functools.lru_cache(maxsize=1024)
def _table_of(body: Body) -> PreparedTable:
    return PreparedTable(kernel_of_body(body))


def kernel_of_body(body: Body) -> Callable[..., None]:
    """Return the kernel of a body, a function of its arrays and out."""

    @only_launches
    def kernel(*given: Any) -> None:
        launch(plan(body, given[:-1], given[-1]))

    return kernel


def plan(body: Body, arrays: Sequence[Any], out: Any) -> list[Launch]:
    """Return the launch that writes the body's value into out; none if out is empty.

    arrays stand for body.names, in order; a NumPy array of shape () is a number, passed by value.
    out may be one of them, element for element.
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
