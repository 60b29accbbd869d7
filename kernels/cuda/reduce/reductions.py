"""Reductions over axes, on CUDA arrays.

`out` has x's shape without the axes; both have any strides. The order in which elements are
combined follows from x's shape and strides, and from whether x begins at a multiple of 16 bytes, as
every allocated array does. Atomics are not used.

Thread  any; queued on the current stream of out's device
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from ..launch import (
    C_TYPES,
    THREADS,
    Launch,
    Scratch,
    address_of,
    computing_type,
    headers_for,
    int64_fields,
    is_real,
    is_whole,
    launch,
    text_of,
)
from ..layout import Walk, element_strides, walk
from ..prepared import only_launches
from ..rows import ELEMENTS

DType = np.dtype[Any]
Axes = tuple[int, ...]
# A reduction is cut into chunks until it has this many blocks, if each thread gets at least this
# many elements. Neither limit depends on the GPU, because the order of additions must not.
_ENOUGH_BLOCKS: Final = 1024
_LEAST_PER_LANE: Final = 32
# The least elements per thread, if combining two States costs as much as adding many elements.
_OF_LARGE_STATES: Final = 64


@only_launches
def sum(x: Any, out: Any, axes: Axes) -> None:
    """Write the sums of x over axes into out.

    float32 and float64 are added in float64, half types in float32, complex numbers in complex128,
    integers and bool in int64. The sum is rounded to out's dtype once, at the end.
    """
    launch(plan_reduce("Adding", x, out, axes))


@only_launches
def mean(x: Any, out: Any, axes: Axes) -> None:
    """Write the means of x over axes into out; NaN if there are no elements.

    x has a real or complex dtype, and is added as in `sum`; the quotient is rounded once.
    """
    launch(plan_reduce("Averaging", x, out, axes))


@only_launches
def prod(x: Any, out: Any, axes: Axes) -> None:
    """Write the products of x over axes into out, computed in the dtypes of `sum`; 1 if there are
    no elements.
    """
    launch(plan_reduce("Multiplying", x, out, axes))


@only_launches
def amax(x: Any, out: Any, axes: Axes | None) -> None:
    """Write the largest elements over axes (over all axes if None) into out; NaN if an element is
    NaN.
    """
    launch(plan_reduce("Extreme<true>", x, out, axes))


@only_launches
def amin(x: Any, out: Any, axes: Axes | None) -> None:
    """Write the smallest elements over axes (over all axes if None) into out; NaN if an element is
    NaN.
    """
    launch(plan_reduce("Extreme<false>", x, out, axes))


@only_launches
def all(x: Any, out: Any, axes: Axes) -> None:
    """Write into out, which is bool or uint8, whether all elements over axes are nonzero."""
    launch(plan_reduce("Holding<true>", x, out, axes))


@only_launches
def any(x: Any, out: Any, axes: Axes) -> None:
    """Write into out, which is bool or uint8, whether any element over axes is nonzero."""
    launch(plan_reduce("Holding<false>", x, out, axes))


@only_launches
def count_nonzero(x: Any, out: Any, axes: Axes) -> None:
    """Write into out, which is int64, the number of nonzero elements over axes."""
    launch(plan_reduce("Counting", x, out, axes))


@only_launches
def var(x: Any, out: Any, axes: Axes, correction: float) -> None:
    """Write the variances over axes into out: the sum of squared deviations, divided by
    max(n - correction, 0), in the dtypes of `sum`.
    """
    launch(plan_reduce("Deviating<false>", x, out, axes, correction))


@only_launches
def std(x: Any, out: Any, axes: Axes, correction: float) -> None:
    """Write the standard deviations, the square roots of `var`, into out."""
    launch(plan_reduce("Deviating<true>", x, out, axes, correction))


@only_launches
def logsumexp(x: Any, out: Any, axes: Axes) -> None:
    """Write log(sum(exp(x))) over axes into out, shifted by the maximum; -inf if there are no
    elements.
    """
    launch(plan_reduce("LogSumming", x, out, axes))


@only_launches
def norm(x: Any, out: Any, axes: Axes, order: float) -> None:
    """Write (sum of |x|**order)**(1/order) over axes into out, in the dtypes of `sum`. Order 0
    counts the nonzero elements, and order inf gives the largest |x|, as does any order for one
    element.
    """
    if order and x.size == out.size:
        order = math.inf
    launch(plan_reduce(f"Norming<{_ORDERS.get(order, 'POWER')}>", x, out, axes, order))


@only_launches
def argmax(x: Any, out: Any, axis: int | None) -> None:
    """Write the first index of the largest x along axis, or in the flattened x; NaN is largest."""
    launch(plan_reduce("Place<true>", x, out, None if axis is None else (axis,)))


@only_launches
def argmin(x: Any, out: Any, axis: int | None) -> None:
    """Write the first index of the smallest x along axis, or in the flattened x; NaN is
    smallest.
    """
    launch(plan_reduce("Place<false>", x, out, None if axis is None else (axis,)))


@only_launches
def max_along(x: Any, out: Any, indices: Any, axis: int) -> None:
    """Write the largest x along axis into out, and its first index into indices; NaN is largest."""
    launch(plan_reduce("Placing<true>", x, out, (axis,), places=indices))


@only_launches
def min_along(x: Any, out: Any, indices: Any, axis: int) -> None:
    """Write the smallest x along axis into out, and its first index into indices; NaN is
    smallest.
    """
    launch(plan_reduce("Placing<false>", x, out, (axis,), places=indices))


_ORDERS: Final = {
    0.0: "NONZERO",
    1.0: "ABSOLUTE",
    2.0: "EUCLIDEAN",
    math.inf: "LARGEST",
    -math.inf: "SMALLEST",
}
# Fold -> the size of a State of real numbers in words of 8 bytes, for folds whose State is larger
# than one word.
_WORDS: Final = {"Place": 2, "Placing": 2, "Deviating": 3, "LogSumming": 2}


def plan_reduce(
    fold: str,
    x: Any,
    out: Any,
    axes: Axes | None,
    argument: float = 0.0,
    places: Any | None = None,
) -> list[Launch]:
    """Return the one or two launches of a fold of folds.cuh over axes (over all axes if None); no
    launch if out is empty.

    `argument` is the correction of Deviating or the order of Norming. `places` gets the index of
    each element that a fold finds.
    """
    # A 0-d x is treated as a row of one element.
    axes = tuple(range(x.ndim)) if axes is None or not x.ndim else tuple(a % x.ndim for a in axes)
    steps, out_steps = element_strides(x), element_strides(out)
    place_steps = out_steps if places is None else element_strides(places)
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    # Threads read adjacent elements, even if they then write distant ones: x is larger than out.
    across = walk([x.shape[a] for a in kept], [out_steps, place_steps, [steps[a] for a in kept]])
    lengths = [x.shape[a] for a in axes]
    # An index counts elements in C order over the axes, in the order in which axes are given.
    in_order = [_c_order(lengths)] if "Plac" in fold else []
    along = walk(lengths, [[steps[a] for a in axes], *in_order])
    if across.size == 0:
        return []
    pack = _pack_of(x, across, along)
    words = 2 if x.dtype.kind == "c" else _WORDS.get(fold.partition("<")[0], 1)
    cut = _cut(across, along, pack, ELEMENTS if words == 1 else _OF_LARGE_STATES)
    task = _Task(fold, along.size, argument, places)
    if cut.chunks == 1:
        return [_launch(task, x, out, across, along, cut, x.dtype, pack=pack)]
    states = Scratch((cut.chunks, *across.shape, words), np.dtype(np.int64))
    rows = _c_order(across.shape)
    first = Walk(across.shape, (rows, rows, across.strides[2]))
    second = Walk(across.shape, (*across.strides[:2], rows))
    chunks = Walk((cut.chunks,), ((across.size,),))
    joined = _cut(second, chunks)._replace(chunks=1, chunk=cut.chunks)
    return [
        _launch(task, x, states, first, along, cut, x.dtype, stage="states", pack=pack),
        _launch(task, states, out, second, chunks, joined, x.dtype, stage="joined"),
    ]


def sum_dtype(dtype: DType) -> DType:
    """Return the dtype in which elements of a dtype are added."""
    if dtype.kind == "c":
        return np.dtype(np.complex128)
    if is_whole(dtype):
        return np.dtype(np.int64)
    return np.dtype(np.float32 if dtype.itemsize == 2 else np.float64)


class _Task(NamedTuple):
    """The fold, the number of elements per result, its argument, and the array for indices."""

    fold: str
    size: int
    argument: float
    places: Any


class _Cut(NamedTuple):
    """How threads divide the work: see reductions.cu."""

    lanes: int
    together: bool
    chunks: int
    chunk: int


def _pack_of(x: Any, across: Walk, along: Walk) -> int:
    """Return how many adjacent elements a thread loads at a time: as many as 16 bytes hold, or 1 if
    rows are not contiguous, or do not begin at multiples of 16 bytes.
    """
    pack: int = 16 // x.dtype.itemsize
    rows_begin_well = not [step for step in across.strides[-1] if step % pack]
    if isinstance(x, Scratch) or address_of(x) % 16 or not rows_begin_well:
        return 1
    return pack if along.is_contiguous(0) and along.size >= pack else 1


def _cut(across: Walk, along: Walk, pack: int = 1, elements: int = ELEMENTS) -> _Cut:
    length = along.size
    together = across.size == 1 or _finest(along.strides[0]) < _finest(across.strides[-1])
    # If `together` is false, a block reads up to 32 adjacent sums at once. Its threads are divided
    # among these sums as lanes.
    most = THREADS if together else THREADS // min(32, _power_of_two(across.size))
    lanes = min(most, _power_of_two(-(-length // max(pack, elements))))
    blocks = -(-across.size * lanes // THREADS)
    chunks = min(_ENOUGH_BLOCKS // blocks, length // (lanes * _LEAST_PER_LANE))
    if chunks <= 1:
        return _Cut(lanes, together, 1, max(length, 1))
    chunk = -(-length // (chunks * lanes * pack)) * lanes * pack
    return _Cut(lanes, together, -(-length // chunk), chunk)


def _finest(strides: Sequence[int]) -> int:
    return min((abs(stride) for stride in strides if stride), default=0)


def _power_of_two(least: int) -> int:
    return 1 << max(least - 1, 0).bit_length()


def _c_order(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _launch(
    task: _Task,
    x: Any,
    out: Any,
    across: Walk,
    along: Walk,
    cut: _Cut,
    dtype: DType,
    stage: str = "",
    pack: int = 1,
) -> Launch:
    """Return a launch over elements of a dtype; stage "states" writes the States of chunks, and
    "joined" reads them.
    """
    has_places = stage != "states" and task.places is not None
    source = source_of_reduce(
        task.fold,
        dtype,
        None if stage == "states" else out.dtype,
        len(across.shape),
        len(along.shape),
        joined=stage == "joined",
        places=has_places,
        pack=pack,
        wide=max(across.size, along.size) >= 2**32,
    )
    argument = int(np.float64(task.argument).view(np.int64))
    fields = int64_fields(
        *(across.size, along.size, cut.chunk, cut.lanes, cut.together, task.size, argument),
        *(*across.shape, *across.strides[0], *across.strides[1], *across.strides[2]),
        *(*along.shape, *along.strides[0]),
    )
    grid = (-(-across.size * cut.lanes // THREADS), cut.chunks)
    # A kernel that writes no indices gets an array that it does not use.
    return Launch(source, "reduce", grid, (x, out, task.places if has_places else out, fields))


@functools.lru_cache(maxsize=1024)
def source_of_reduce(
    fold: str,
    read: DType,
    written: DType | None,
    kept: int = 1,
    reduced: int = 1,
    pack: int = 1,
    *,
    joined: bool = False,
    places: bool = False,
    wide: bool = False,
) -> str:
    """Return the CUDA source of a fold of elements of a dtype. `kept` and `reduced` are numbers of
    merged axes; `pack` is the number of adjacent elements that a thread loads at a time.

    written=None writes the States of chunks, and joined=True reads them. If `wide` is false,
    elements are counted with 32-bit integers, whose division is faster.
    """
    total, real, whole = sum_dtype(read), is_real(read), is_whole(read)
    small = whole and read.itemsize < 4
    return f"""{headers_for([read] if written is None else [read, written])}
typedef {C_TYPES[read]} In;
typedef {"int" if small else computing_type(read)} Value;
typedef {computing_type(read) if real else "double"} Real;
typedef {"unsigned long long" if whole else C_TYPES[total]} Sum;
typedef {C_TYPES[total]} Total;
{text_of("headers/folds.cuh", *["headers/real_folds.cuh"] * real)}
typedef {fold} Fold;
typedef {C_TYPES[written or read]} Out;
typedef {"unsigned long long" if wide else "unsigned int"} Index;
constexpr int KEPT = {kept}, REDUCED = {reduced}, PACK = {pack};
constexpr bool JOINED = {_word(joined)}, FINISHED = {_word(written)}, PLACES = {_word(places)};
{text_of("reduce/reductions.cu")}"""


def _word(value: object) -> str:
    return "true" if value is not None and value is not False else "false"
