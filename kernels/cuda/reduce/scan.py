"""Cumulative sums, products, log-sums, extremes and linear recurrences, on CUDA arrays."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from ..launch import (
    C_TYPES,
    THREADS,
    Launch,
    Scratch,
    adding_type,
    headers_for,
    int64_fields,
    is_whole,
    launch,
    text_of,
)
from ..prepared import only_launches
from ..rows import Rows, rows_along

# Long rows are cut into chunks until there are this many blocks, if each chunk has at least this
# many tiles of a group. Neither limit depends on the GPU, because the order of combining must not.
_ENOUGH_BLOCKS: Final = 1024
_LEAST_TILES: Final = 4


@only_launches
def cumsum(x: Any, out: Any, axis: int) -> None:
    """Write the sums of x[..., :k + 1, ...] along axis into out. Within a group of threads,
    floating numbers are added in float32 (float64 if x is float64). The sums of groups are added in
    float64. The real and imaginary parts of complex numbers are added in the same way.
    """
    launch(plan_scan(x, out, axis, joined="SUM"))


@only_launches
def cumprod(x: Any, out: Any, axis: int) -> None:
    """Write the products of x[..., :k + 1, ...] along axis into out; floating numbers are
    multiplied in the dtypes of `cumsum`.
    """
    launch(plan_scan(x, out, axis, joined="PRODUCT"))


@only_launches
def logcumsumexp(x: Any, out: Any, axis: int) -> None:
    """Write log(sum(exp(x[..., :k + 1, ...]))) along axis into out, in the dtypes of `cumsum`."""
    launch(plan_scan(x, out, axis, joined="LOG_SUM"))


def plan_scan(x: Any, out: Any, axis: int, *, joined: str) -> list[Launch]:
    """Return the launches of cumsum, cumprod or logcumsumexp; no launch if x is empty. A 0-d x is
    treated as a row of one element.
    """
    rows = rows_along((x,), out, axis)
    if rows is None:
        return []
    source = source_of_scan(x.dtype, rows.kept, rows.pack, joined=joined, wide=rows.wide)
    walk = rows.walk
    fields = (0, *rows.steps, *walk.shape, *walk.strides[0], *walk.strides[0], *walk.strides[1])
    return _scan(source, x, out, out, rows, fields, words=2 if x.dtype.kind == "c" else 1)


class _Cut(NamedTuple):
    """The number of threads that share a row, and the number and length of the row's chunks."""

    lanes: int
    chunks: int
    chunk: int

    @classmethod
    def of(cls, rows: Rows, most: int, elements: int) -> _Cut:
        """Return how rows are divided among groups of at most `most` threads. Each thread processes
        `elements` elements at a time.
        """
        # Adjacent threads read adjacent elements, whether of one row or of several rows.
        lanes = 1 if rows.apart else min(32, 1 << ((rows.length - 1) // elements).bit_length())
        if not rows.apart and rows.length > 32 * most:
            lanes = most
        blocks = -(-rows.walk.size * lanes // THREADS)
        # A chunk costs a second read of its elements, and a State.
        chunks = min(_ENOUGH_BLOCKS // blocks, rows.length // (lanes * elements * _LEAST_TILES))
        if chunks <= 1:
            return cls(lanes, 1, rows.length)
        tile = lanes * elements
        chunk = -(-rows.length // (chunks * tile)) * tile
        return cls(lanes, -(-rows.length // chunk), chunk)

    def grid(self, rows: Rows) -> tuple[int, int]:
        return (-(-rows.walk.size * self.lanes // THREADS), self.chunks)


def _scan(
    source: str, x: Any, out: Any, places: Any, rows: Rows, fields: Sequence[int], *, words: int
) -> list[Launch]:
    """Return the launches of scan.cu; a State has `words` words of 8 bytes."""
    cut, count = _Cut.of(rows, THREADS, _items(rows.pack)), rows.walk.size
    # The strides of the States per row and per chunk: adjacent threads read adjacent States.
    steps = (1, count) if cut.lanes == 1 else (cut.chunks, 1)
    task = int64_fields(
        *(count, rows.length, cut.lanes, cut.chunk, cut.chunks, *fields[:3], *steps, *fields[3:])
    )
    if cut.chunks == 1:
        return [Launch(source, "scan", cut.grid(rows), (x, places, out, out, task))]
    states = Scratch((cut.chunks * count * words,), np.dtype(np.int64))
    return [
        Launch(source, "totals", cut.grid(rows), (x, states, task)),
        Launch(source, "scan", cut.grid(rows), (x, places, out, states, task)),
    ]


@functools.lru_cache(maxsize=256)
def source_of_scan(
    dtype: np.dtype[Any], kept: int = 1, pack: int = 1, *, joined: str, wide: bool = False
) -> str:
    """Return the CUDA source for x and out of one dtype. `kept` is the number of merged axes of
    rows, and `pack` the number of adjacent elements that a thread loads at a time.
    """
    return _source("headers/sums.cuh", dtype, kept, pack, joined, wide=wide)


def _items(pack: int) -> int:
    """Return how many adjacent elements a thread combines at a time."""
    return max(4, pack)


def _source(
    file: str, dtype: np.dtype[Any], kept: int, pack: int, joined: str, *, wide: bool
) -> str:
    real = adding_type(dtype)
    carry = real if is_whole(dtype) else C_TYPES[_wide(dtype)]
    return f"""{headers_for([dtype])}
typedef {C_TYPES[dtype]} Stored;
typedef {real} Real;
typedef {carry} Carry;
typedef {"unsigned long long" if wide else "unsigned int"} Index;
constexpr int KEPT = {kept}, PACK = {pack}, ITEMS = {_items(pack)};
enum Joining {{ SUM, PRODUCT, LOG_SUM, LARGEST, SMALLEST }};
constexpr Joining JOINED = {joined};
{text_of(file, "reduce/scan.cu")}"""


@only_launches
def cummax(x: Any, out: Any, indices: Any, axis: int) -> None:
    """Write the largest of x[..., :k + 1, ...] along axis into out, and its index into indices: the
    last one among equals. From the first NaN on, the results are NaN.
    """
    launch(plan_extremes(x, out, indices, axis, largest=True))


@only_launches
def cummin(x: Any, out: Any, indices: Any, axis: int) -> None:
    """Write the smallest of x[..., :k + 1, ...] along axis into out, and its index into indices:
    the last one among equals. From the first NaN on, the results are NaN.
    """
    launch(plan_extremes(x, out, indices, axis, largest=False))


def plan_extremes(x: Any, out: Any, indices: Any, axis: int, *, largest: bool) -> list[Launch]:
    """Return the launches of cummax or cummin; no launch if x is empty. A 0-d x is treated as a row
    of one element.
    """
    rows = rows_along((x, indices), out, axis)
    if rows is None:
        return []
    source = source_of_extremes(x.dtype, rows.kept, rows.pack, largest=largest, wide=rows.wide)
    of_x, of_places, of_out = rows.steps
    strides = (rows.walk.strides[0], rows.walk.strides[2], rows.walk.strides[1])
    fields = (of_places, of_x, of_out, *rows.walk.shape, *[step for one in strides for step in one])
    return _scan(source, x, out, indices, rows, fields, words=2)


@functools.lru_cache(maxsize=256)
def source_of_extremes(
    dtype: np.dtype[Any], kept: int = 1, pack: int = 1, *, largest: bool, wide: bool = False
) -> str:
    """Return the CUDA source for x and out of one dtype. `kept` is the number of merged axes of
    rows, and `pack` the number of adjacent elements that a thread loads at a time.
    """
    joined = "LARGEST" if largest else "SMALLEST"
    return _source("headers/extremes.cuh", dtype, kept, pack, joined, wide=wide)


@only_launches
def recurrence(factor: Any, x: Any, out: Any, axis: int, backwards: bool) -> None:
    """Write y with y[k] = factor[k] * y[k - 1] + x[k] along axis into out, beginning with y[0] =
    x[0]. If backwards: y[k] = factor[k + 1] * y[k + 1] + x[k], beginning at the end.

    factor, x and out have one shape. Computed in float64, or complex128, and rounded once.
    """
    launch(plan_recurrence(factor, x, out, axis, backwards=backwards))


def plan_recurrence(factor: Any, x: Any, out: Any, axis: int, *, backwards: bool) -> list[Launch]:
    """Return the launches of recurrence; no launch if x is empty. A 0-d x is treated as a row of
    one element.
    """
    rows = rows_along((factor, x), out, axis)
    if rows is None:
        return []
    cut, walk = _Cut.of(rows, 32, 1), rows.walk
    source = source_of_recurrence(x.dtype, rows.kept, backwards=backwards, wide=rows.wide)
    task = int64_fields(
        *(walk.size, rows.length, cut.lanes, cut.chunk, cut.chunks, *rows.steps),
        *(*walk.shape, *[step for one in walk.strides for step in one]),
    )
    if cut.chunks == 1:
        return [Launch(source, "recurrence", cut.grid(rows), (factor, x, out, out, task))]
    lines = Scratch((cut.chunks, walk.size, 3), _wide(x.dtype))
    return [
        Launch(source, "pieces", cut.grid(rows), (factor, x, lines, task)),
        Launch(source, "begins", (cut.grid(rows)[0], 1), (factor, x, lines, task)),
        Launch(source, "recurrence", cut.grid(rows), (factor, x, out, lines, task)),
    ]


def _wide(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(np.complex128 if dtype.kind == "c" else np.float64)


@functools.lru_cache(maxsize=256)
def source_of_recurrence(
    dtype: np.dtype[Any], kept: int = 1, *, backwards: bool, wide: bool = False
) -> str:
    """Return the CUDA source for arrays of one floating or complex dtype. `kept` is the number of
    merged axes of rows.
    """
    return f"""{headers_for([dtype])}
typedef {C_TYPES[dtype]} Stored;
typedef {C_TYPES[_wide(dtype)]} Real;
typedef {"unsigned long long" if wide else "unsigned int"} Index;
constexpr int KEPT = {kept};
constexpr bool BACKWARDS = {str(backwards).lower()};
{text_of("reduce/recurrence.cu")}"""
