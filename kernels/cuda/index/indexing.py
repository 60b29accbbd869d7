"""Reads and writes at places given by index tensors, on CUDA arrays.

If several values go to one place, they are added in their order in memory; if they are written, the
last one remains. So each run gives the same result. This requires sorting the places. If the user
waived repeatable results by use_deterministic_algorithms(False), places are not sorted: atomics add
where a dtype has them, and any of several written values may remain. An index that is out of bounds
raises no error here: reading gives NaN, or the largest or smallest integer, and writing is skipped.

Thread  any; queued on the current stream of out's device
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from fastdist.core.determinism import determinism
from fastdist.core.dtypes import WIDE
from fastdist.core.errors import NoKernelError
from fastdist.language.scalar import parse

from ..launch import (
    C_TYPES,
    THREADS,
    Launch,
    Scratch,
    adding_type,
    computing_type,
    headers_for,
    int64_fields,
    is_float8,
    is_whole,
    launch,
    text_of,
)
from ..layout import broadcast_strides, element_strides
from ..pointwise.pointwise import plan, pointwise
from ..prepared import heeds_determinism, on_device_of_out, only_launches
from ..reduce.radix import plan_order_of_numbers
from ..shape.copying import cast

_ZERO: Final = parse("T(0)", ())
_SAME: Final = parse("x", ("x",))
# The largest number of entries that one thread adds.
CHUNK: Final = 256

DType = np.dtype[Any]
Steps = Sequence[int]
# For each axis of the indexed array: an array of indices, or None for the whole axis.
Places = tuple[Any, ...]
_NUMBER: Final = np.dtype(np.int64)


@only_launches
def gather(x: Any, index: Any, out: Any, axis: int) -> None:
    """Write the elements of x at index along axis into out; the other axes of index may be shorter
    than x's.
    """
    launch(plan_gather(x, index, out, axis, element_strides(index) or (0,)))


@only_launches
def select(x: Any, index: Any, out: Any, axis: int) -> None:
    """Write the slices of x at index along axis into out (index_select)."""
    steps = [0] * max(out.ndim, 1)
    steps[axis] = element_strides(index)[0] if index.ndim else 0
    launch(plan_gather(x, index, out, axis, steps))


def plan_gather(x: Any, index: Any, out: Any, axis: int, steps: Steps) -> list[Launch]:
    """Return the launch of gather for an index with these strides along out's axes."""
    read = element_strides(x) or (0,)
    along = [0 if a == axis else step for a, step in enumerate(read)]
    length = x.shape[axis] if x.ndim else 1
    return _launch("gather", (x, index, out), out, (axis, length, read[axis]), (along, steps))


@heeds_determinism
@only_launches
def scatter(x: Any, index: Any, src: Any, out: Any, axis: int) -> None:
    """Write x into out, then src at index along axis; src has the axes of index, or is 0-d."""
    cast(x, out)
    _put_elements(index, src, out, axis, added=False)


@heeds_determinism
@only_launches
def scatter_add(x: Any, index: Any, src: Any, out: Any, axis: int) -> None:
    """Write x into out, and add src at index along axis. Half types are added in float32."""
    cast(x, out)
    _put_elements(index, src, out, axis, added=True)


@heeds_determinism
@only_launches
def scatter_zeros(x: Any, index: Any, out: Any, axis: int) -> None:
    """Write zeros into out, and add x at index along axis."""
    launch(plan(_ZERO, [], out))
    _put_elements(index, x, out, axis, added=True)


@heeds_determinism
@only_launches
def add(x: Any, index: Any, src: Any, out: Any, axis: int, alpha: Any) -> None:
    """Write x into out, and add the slices of src, times alpha, at index along axis (index_add).

    alpha is a number of x's dtype.
    """
    cast(x, out)
    if not src.size or not out.size:
        return
    length = out.shape[axis] if out.ndim else 1
    step = element_strides(index)[0] if index.ndim else 0
    named = Scratch((index.size,), _NUMBER)
    numbered = _launch("number", (index, named), index, (axis, length, 1), ([0], [step]), named)
    written = plan_written(
        lambda to: runs_of_slices(src, to, axis, index.size), src, named, out, added=True, by=alpha
    )
    launch([*numbered, *written])


def _put_elements(index: Any, src: Any, out: Any, axis: int, *, added: bool) -> None:
    if not index.size or not out.size:
        return
    named = Scratch((index.size,), _NUMBER)
    written = plan_written(
        lambda to: runs_of_elements(index, src, to), src, named, out, added=added
    )
    launch([*plan_numbers(index, named, out, axis), *written])


def plan_written(
    runs_of: Callable[[Any], Runs], src: Any, named: Any, out: Any, *, added: bool, by: Any = 1
) -> list[Launch]:
    """Return the launches that write src to places of out, or add `by` times src at these places.
    `named` has the flat indices of the places.

    Elements are written in the order of src, or in any order if the user waived repeatable results.
    `runs_of` returns the Runs of src for the array that is written.
    """
    runs = runs_of(out)
    if not determinism.is_waived or (added and out.dtype not in _ADDED_AT_ONCE):
        ordered, sorted_, order = plan_sorted(named, math.prod(runs.places[0]))
        if added:
            return [*ordered, *plan_add(runs, src, sorted_, order, out, by)]
        return [*ordered, *plan_put(runs, src, sorted_, order, out)]
    if not added:
        return [runs.launch("put_at_once", out.dtype, (src, named, out), at_once=True)]
    real = _ADDED.get(computing_type(out.dtype), np.int64)(by)
    if out.dtype not in WIDE:
        args = (src, named, real, out)
        return [runs.launch("add_at_once", out.dtype, args, at_once=True)]
    # In half types each addition would be rounded, so terms are added to a float32 copy.
    copy = Scratch(out.shape, np.dtype(np.float32))
    args = (src, named, real, copy)
    added_up = runs_of(copy).launch("add_at_once", out.dtype, args, at_once=True)
    return [*plan(_SAME, [out], copy), added_up, *plan(_SAME, [copy], out)]


def plan_sorted_elements(index: Any, out: Any, axis: int) -> tuple[list[Launch], Scratch, Scratch]:
    """Return the launches that compute and sort the flat indices of the elements of `out` which
    `index` selects along `axis`. Also return the array of the sorted flat indices (-1 for an index
    that is out of bounds), and the array of their positions in `index`.
    """
    named = Scratch((index.size,), _NUMBER)
    numbered = plan_numbers(index, named, out, axis)
    ordered, sorted_, order = plan_sorted(named, out.size)
    return [*numbered, *ordered], sorted_, order


def plan_sorted(numbers: Any, places: int) -> tuple[list[Launch], Scratch, Scratch]:
    """Return the launches that sort numbers below `places`, stably, and the arrays for the sorted
    numbers and their original positions.
    """
    sorted_, order = [Scratch(numbers.shape, _NUMBER) for _ in range(2)]
    return plan_order_of_numbers(numbers, sorted_, order, places - 1), sorted_, order


def plan_numbers(index: Any, numbers: Any, out: Any, axis: int) -> list[Launch]:
    """Return the launch that writes into `numbers` the flat indices of the elements of `out` which
    `index` selects along `axis`.
    """
    shape = out.shape or (1,)
    steps = [math.prod(shape[a + 1 :]) for a in range(len(shape))]
    along = [0 if a == axis else step for a, step in enumerate(steps)]
    places = element_strides(index) or (0,)
    how = (axis, shape[axis], steps[axis])
    return _launch("number", (index, numbers), index, how, (along, places), numbers)


class Runs(NamedTuple):
    """The memory layout of an indexed array, and of the values that are read or written there.

    `places` has the shape of the indexed axes, and the indexed array's strides along these axes.
    `columns` has the shape of the other axes, and the strides of the indexed array and of the
    values along them. `entries` has the shape of the index, and the values' strides along its axes.
    """

    places: tuple[Steps, Steps]
    columns: tuple[Steps, Steps, Steps]
    entries: tuple[Steps, Steps]

    def launch(
        self,
        name: str,
        dtype: DType,
        args: tuple[Any, ...],
        entries: int | None = None,
        *,
        at_once: bool = False,
    ) -> Launch:
        """Return the launch of a kernel over all columns of all entries, or of the first
        `entries`.
        """
        dims = max(1, *[len(one[0]) for one in self])
        fields = [n for one in self for each in one for n in _padded(each, dims, each is one[0])]
        task = int64_fields(self.num_entries, self.width, math.prod(self.places[0]), *fields)
        threads = self.width * (self.num_entries if entries is None else entries)
        most = max(self.width * self.num_entries, math.prod(self.places[0]))
        source = source_of_indexing(dtype, dims, wide=most >= 2**32, at_once=at_once)
        return Launch(source, name, (-(-threads // THREADS), 1), (*args, task))

    @property
    def num_entries(self) -> int:
        """The number of entries of the index."""
        return math.prod(self.entries[0])

    @property
    def width(self) -> int:
        """The number of elements in the axes that are not indexed."""
        return math.prod(self.columns[0])


def _padded(steps: Steps, dims: int, is_shape: bool) -> list[int]:
    return [int(is_shape)] * (dims - len(steps)) + list(steps)


def plan_put(runs: Runs, src: Any, sorted_: Any, order: Any, out: Any) -> list[Launch]:
    """Return the launch that writes src to sorted places of out."""
    return [runs.launch("put", out.dtype, (src, sorted_, order, out))]


def plan_add(
    runs: Runs, src: Any, sorted_: Any, order: Any, out: Any, alpha: Any = 1
) -> list[Launch]:
    """Return the launches that add src, times alpha, at sorted places of out. The first launch adds
    in chunks. If there are several chunks, a second launch combines their sums.
    """
    if is_float8(out.dtype):
        raise NoKernelError(
            f"no CUDA kernel adds elements of {out.dtype.name} at places: cast with "
            ".to(fastdist.float32) first, and the result back"
        )
    real = _ADDED.get(computing_type(out.dtype), np.int64)
    chunks = -(-runs.num_entries // CHUNK)
    tails, heads = [Scratch((chunks, runs.width), np.dtype(real)) for _ in range(2)]
    args = (src, sorted_, order, real(alpha), out, tails, heads)
    added = [runs.launch("add", out.dtype, args)]
    if chunks > 1:
        joined = (sorted_, tails, heads, out)
        added.append(runs.launch("join_chunks", out.dtype, joined, chunks))
    return added


def runs_of_elements(index: Any, src: Any, out: Any) -> Runs:
    """Return the Runs of src at elements of out; src has the axes of index, or is 0-d."""
    steps = element_strides(src) if src.ndim else [0] * index.ndim
    return Runs((out.shape, element_strides(out)), ((), (), ()), (index.shape, steps))


def runs_of_slices(src: Any, out: Any, axis: int, entries: int) -> Runs:
    """Return the Runs of `entries` slices of src at places of out along axis."""
    shape, steps = list(out.shape or (1,)), list(element_strides(out) or (0,))
    given = list(element_strides(src) or (0,))
    along = [shape.pop(axis)], [steps.pop(axis)]
    return Runs(along, (shape, steps, given), ([entries], [given.pop(axis)]))


def runs_of_places(indexed: Any, values: Any, shape: Steps, places: Places) -> Runs:
    """Return the Runs of values, which broadcast to the shape of indexed[places]."""
    used = [axis for axis, place in enumerate(places) if place is not None]
    others = [axis for axis in range(indexed.ndim) if axis not in used]
    met = np.broadcast_shapes(*[places[axis].shape for axis in used])
    # If the indexed axes are adjacent, the axes of the index replace them in the result. Otherwise
    # the axes of the index are the first axes of the result.
    lead = used[0] if used == list(range(used[0], used[-1] + 1)) else 0
    steps, given = element_strides(indexed), broadcast_strides(values, shape)
    of_entries = given[lead : lead + len(met)]
    of_columns = (*given[:lead], *given[lead + len(met) :])

    def pick(numbers: Steps, axes: list[int]) -> list[int]:
        return [numbers[axis] for axis in axes]

    return Runs(
        (pick(indexed.shape, used), pick(steps, used)),
        (pick(indexed.shape, others), pick(steps, others), of_columns),
        (met, of_entries),
    )


@on_device_of_out
def take(x: Any, out: Any, places: Places) -> None:
    """Write the elements of x at `places` into out."""
    if not out.size:
        return
    runs = runs_of_places(x, out, out.shape, places)
    located, named = _plan_numbers_of(x, places, runs.entries[0])
    launch([*located, runs.launch("take", out.dtype, (x, named, out))], out)


@on_device_of_out
def put(x: Any, out: Any, places: Places, accumulate: bool) -> None:
    """Write x to `places` of out, or add x at these places if `accumulate`; x broadcasts."""
    used = [one for one in places if one is not None]
    met = np.broadcast_shapes(*[one.shape for one in used])
    shape = [n for n, place in itertools.zip_longest(out.shape, places) if place is None]
    first = next(axis for axis, place in enumerate(places) if place is not None)
    is_together = all(place is not None for place in places[first : first + len(used)])
    lead = first if is_together else 0
    shape[lead:lead] = met
    if not out.size or not math.prod(shape):
        return
    if isinstance(x, np.ndarray):
        x = _on_device(x)
    located, named = _plan_numbers_of(out, places, met)
    written = plan_written(
        lambda to: runs_of_places(to, x, shape, places), x, named, out, added=accumulate
    )
    launch([*located, *written], out)


@on_device_of_out
def put_zeros(x: Any, out: Any, places: Places) -> None:
    """Write zeros into out, and add x at places: the adjoint of take."""
    out.fill(0)
    put(x, out, places, True)


@on_device_of_out
def replace(x: Any, src: Any, out: Any, places: Places, accumulate: bool) -> None:
    """Write x into out, then write src to `places` of out, or add src at these places if
    `accumulate`; src broadcasts.
    """
    cast(x, out)
    put(src, out, places, accumulate)


def _plan_numbers_of(indexed: Any, places: Places, met: Steps) -> tuple[list[Launch], Scratch]:
    """Return the launches that compute the flat index of each entry's place, in C order over the
    indexed axes, and the array for these flat indices.
    """
    named = Scratch((math.prod(met),), _NUMBER)
    used = [axis for axis, place in enumerate(places) if place is not None]
    located = [
        plan_locate(places[axis], named, met, indexed.shape[axis], nth)
        for nth, axis in enumerate(used)
    ]
    return list(itertools.chain(*located)), named


def plan_locate(index: Any, numbers: Any, met: Steps, length: int, nth: int) -> list[Launch]:
    """Return the launch that includes the index along the nth indexed axis, which has this length,
    in the flat indices of places.
    """
    count, shape, still = math.prod(met), met or (1,), [0] * max(len(met), 1)
    if not count:
        return []
    steps = broadcast_strides(index, met) or (0,)
    task = int64_fields(count, nth, length, 0, *shape, *still, *steps, *still)
    source = source_of_indexing(numbers.dtype, len(shape), index.dtype, wide=count >= 2**32)
    return [Launch(source, "locate", (-(-count // THREADS), 1), (index, numbers, task))]


def _on_device(number: Any) -> Any:
    """Return a 0-d CPU array copied to the device, as a kernel argument."""
    import cupy

    made = cupy.empty((), number.dtype)
    pointwise(_SAME, [number], made)
    return made


def _launch(
    name: str,
    arrays: tuple[Any, ...],
    over: Any,
    how: tuple[int, int, int],
    steps: tuple[Steps, Steps],
    out: Any = None,
) -> list[Launch]:
    """Return the launch of a kernel with one thread per element of `over`."""
    if not over.size:
        return []
    index, out = arrays[-2], over if out is None else out
    written = (1,) * max(over.ndim, 1) if out is not over else element_strides(over) or (0,)
    shape = over.shape or (1,)
    task = int64_fields(over.size, *how, *shape, *steps[0], *steps[1], *written)
    source = source_of_indexing(out.dtype, len(shape), index.dtype, wide=over.size >= 2**32)
    return [Launch(source, name, (-(-over.size // THREADS), 1), (*arrays, task))]


# The dtypes that atomics can add, except half types, which are added in float32. Complex numbers
# are added by their parts.
_WORDS: Final = (
    "float32",
    "float64",
    "int32",
    "int64",
    "uint32",
    "uint64",
    "complex64",
    "complex128",
)
_ADDED_AT_ONCE: Final = frozenset({*WIDE, *map(np.dtype, _WORDS)})
_ADDED: Final[dict[str, Any]] = {
    "float": np.float32,
    "double": np.float64,
    "Complex<float>": np.complex64,
    "Complex<double>": np.complex128,
}


@functools.lru_cache(maxsize=256)
def source_of_indexing(
    dtype: DType,
    dims: int = 1,
    index: DType | None = None,
    *,
    wide: bool = False,
    at_once: bool = False,
) -> str:
    """Return the CUDA source for elements of a dtype, a number of axes, and an index dtype, by
    default int64. If not `wide`, elements are counted in 32 bits, because divisions of 32 bits are
    faster. With `at_once` the source includes the kernels of at_once.cu.
    """
    files = ("headers/poison.cuh", "index/indexing.cu", *(("index/at_once.cu",) if at_once else ()))
    if is_float8(dtype):
        dtype = np.dtype(np.uint8)  # its elements are moved as bytes, never added
    added = "Real" if dtype in WIDE else "Stored"
    return f"""{headers_for([dtype])}
typedef {C_TYPES[dtype]} Stored;
typedef {adding_type(dtype)} Real;
typedef {C_TYPES[index] if index else "long long"} Place;
typedef {"unsigned long long" if wide else "unsigned int"} Index;
constexpr int DIMS = {dims};
constexpr bool IS_WHOLE = {str(is_whole(dtype)).lower()};
constexpr bool IS_COMPLEX = {str(dtype.kind == "c").lower()};
constexpr long long CHUNK = {CHUNK};
typedef {added} Added;
{text_of(*files)}"""
