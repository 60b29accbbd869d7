"""Reductions over axes, on CUDA arrays."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from .launch import C_TYPES, THREADS, Launch, Scratch, headers_for, int64_fields, launch, text_of
from .layout import Walk, element_strides, walk

DType = np.dtype[Any]
# Blocks that a sum is cut into chunks for, and how much is left to each thread of a chunk. Numbers
# of ours rather than of the GPU: the order of additions must not depend on the machine.
_ENOUGH_BLOCKS: Final = 1024
_LEAST_PER_LANE: Final = 32


def sum(x: Any, out: Any, axes: tuple[int, ...]) -> None:
    """Write the sums of x over axes into out, whose shape is x's without them.

    x and out have any strides. float32 and float64 add in float64, float16 in float32, integers and
    bool in int64, rounded to out's dtype once at the end. No atomics: the order of additions
    follows from the shapes alone.

    Thread  any; queued on the current stream of out's device
    """
    launch(plan_sum(x, out, axes))


def plan_sum(x: Any, out: Any, axes: tuple[int, ...]) -> list[Launch]:
    """Return the one or two launches of sum; none if out is empty."""
    steps, out_steps = element_strides(x), element_strides(out)
    axes = tuple(axis % len(steps) for axis in axes)
    kept = [axis for axis in range(len(steps)) if axis not in axes]
    # Read rather than written side by side: x is the larger one.
    across = walk([x.shape[a] for a in kept], [out_steps, [steps[a] for a in kept]])
    along = walk([x.shape[a] for a in axes], [[steps[a] for a in axes]])
    if across.size == 0:
        return []
    cut = _cut(across, along)
    if cut.chunks == 1:
        return [_launch(x, out, across, along, cut, (x.dtype, out.dtype))]
    added = sum_dtype(x.dtype)
    partial = Scratch((cut.chunks, *across.shape), added)
    out_strides, x_strides = across.strides
    rows = _c_order(across.shape)
    first = Walk(across.shape, (rows, x_strides))
    second = Walk(across.shape, (out_strides, rows))
    chunks = Walk((cut.chunks,), ((across.size,),))
    joined = _cut(second, chunks)._replace(chunks=1, chunk=cut.chunks)
    return [
        _launch(x, partial, first, along, cut, (x.dtype, added)),
        _launch(partial, out, second, chunks, joined, (added, out.dtype)),
    ]


def sum_dtype(dtype: DType) -> DType:
    """Return the dtype in which elements of a dtype are added."""
    if dtype.kind != "f":
        return np.dtype(np.int64)
    return np.dtype(np.float32 if dtype.itemsize == 2 else np.float64)


class _Cut(NamedTuple):
    """How the threads share the work: see reduce.cu."""

    lanes: int
    together: bool
    chunks: int
    chunk: int


def _cut(across: Walk, along: Walk) -> _Cut:
    length = along.size
    together = across.size == 1 or _finest(along.strides[0]) < _finest(across.strides[1])
    # Otherwise up to 32 neighbouring sums read together, and what is left of the block are lanes.
    most = THREADS if together else THREADS // min(32, _power_of_two(across.size))
    elements_per_lane = 4 if together else 16
    lanes = min(most, _power_of_two(-(-length // elements_per_lane)))
    blocks = -(-across.size * lanes // THREADS)
    chunks = min(_ENOUGH_BLOCKS // blocks, length // (lanes * _LEAST_PER_LANE))
    if chunks <= 1:
        return _Cut(lanes, together, 1, max(length, 1))
    chunk = -(-length // (chunks * lanes)) * lanes
    return _Cut(lanes, together, -(-length // chunk), chunk)


def _finest(strides: Sequence[int]) -> int:
    return min((abs(stride) for stride in strides if stride), default=0)


def _power_of_two(least: int) -> int:
    return 1 << max(least - 1, 0).bit_length()


def _c_order(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _launch(
    x: Any, out: Any, across: Walk, along: Walk, cut: _Cut, dtypes: tuple[DType, DType]
) -> Launch:
    wide = max(across.size, along.size) >= 2**32
    source = source_of_sum(*dtypes, len(across.shape), len(along.shape), wide)
    task = int64_fields(
        *(across.size, along.size, cut.chunk, cut.lanes, cut.together),
        *(*across.shape, *across.strides[0], *across.strides[1]),
        *(*along.shape, *along.strides[0]),
    )
    blocks = -(-across.size * cut.lanes // THREADS)
    return Launch(source, "sum", (blocks, cut.chunks), (x, out, task))


@functools.lru_cache(maxsize=1024)
def source_of_sum(
    read: DType, written: DType, kept: int = 1, reduced: int = 1, wide: bool = False
) -> str:
    """Return the text of sum for these dtypes and numbers of merged axes.

    A text that is not wide counts elements in 32 bits, which divides faster.
    """
    total = sum_dtype(read)
    return f"""{headers_for([read, written])}
typedef {C_TYPES[read]} In;
typedef {"unsigned long long" if total.kind == "i" else C_TYPES[total]} Sum;
typedef {C_TYPES[total]} Total;
typedef {C_TYPES[written]} Out;
typedef {"unsigned long long" if wide else "unsigned int"} Index;
constexpr int KEPT = {kept}, REDUCED = {reduced};
{text_of("reduce.cu")}"""
