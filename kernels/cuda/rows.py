"""The launches of kernels that work along one axis, row by row, such as softmax and scans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from .launch import (
    THREADS,
    Launch,
    Scratch,
    address_of,
    headers_for,
    int64_fields,
    text_of,
)
from .layout import Walk, element_strides, walk

# The least elements of a row per thread, if the row has enough elements. With fewer, too few loads
# would be in flight to hide the latency of memory, and combining the threads would cost more
# (`bench gpu`).
ELEMENTS: Final = 16
# The most elements of a row that a thread holds in registers.
_MOST_HELD: Final = 32
# The number of adjacent rows that a block reads together if a row is not contiguous.
_ROWS_APART: Final = 32


class Sharing(NamedTuple):
    """How many threads share a row, and how many elements of a row each thread has in registers."""

    lanes: int
    held: int

    def grid(self, rows: int) -> tuple[int, int]:
        """Return the grid for this many rows."""
        return (-(-rows * self.lanes // THREADS), 1)


def shared(length: int, pack: int = 1, *, apart: bool = False) -> Sharing:
    """Return how a row of this length is divided: some elements per thread, more if the row is
    long. If rows are apart (not contiguous), a block reads many rows, so few threads share each
    row.
    """
    most = THREADS // _ROWS_APART if apart else THREADS
    lanes = min(most, _power_of_two(-(-length // max(pack, ELEMENTS))))
    held = _power_of_two(-(-length // lanes))
    return Sharing(lanes, held if held <= _MOST_HELD else 0)


def _power_of_two(least: int) -> int:
    return 1 << max(least - 1, 0).bit_length()


def pack_of(length: int, *arrays: Any) -> int:
    """Return how many adjacent elements of rows a thread loads at a time: as many as fit 16 bytes
    in the first array's dtype, or 1 if the layout of an array does not allow it. Rows are along the
    last axes. An array that is None is skipped.
    """
    pack: int = 16 // arrays[0].dtype.itemsize
    for array in arrays:
        if array is None:
            continue
        *steps, step = element_strides(array)
        if step != 1 or not _lets_pack(array, length, steps, pack):
            return 1
    return pack


def _lets_pack(array: Any, length: int, steps: Sequence[int], pack: int) -> bool:
    if isinstance(array, Scratch) or address_of(array) % 16:
        return False
    return not length % pack and not any(step % pack for step in steps)


def rows_header(
    dtypes: Sequence[np.dtype[Any]], real: str, held: int, pack: int = 1, *, apart: bool = False
) -> str:
    """Return the first lines of sources that use rows.cuh, and load and store these dtypes."""
    return f"""{headers_for(dtypes)}
typedef {real} Real;
constexpr int HELD = {held}, PACK = {pack};
constexpr bool APART = {str(apart).lower()};
{text_of("headers/rows.cuh")}"""


class Rows(NamedTuple):
    """The rows of inputs and out along one axis; `walk` iterates over the other axes.

    Units   `steps` in elements, from one element of a row to the next: of each input, then of out
    """

    inputs: tuple[Any, ...]
    out: Any
    walk: Walk
    length: int
    steps: tuple[int, ...]

    @property
    def kept(self) -> int:
        """The number of merged axes, without the row's axis."""
        return len(self.walk.shape)

    @property
    def apart(self) -> bool:
        """Whether adjacent rows of the first input are closer in memory than adjacent elements of a
        row.
        """
        nearest = min(map(abs, self.walk.strides[1]))
        return self.walk.size >= _ROWS_APART and 0 < nearest < abs(self.steps[0])

    @property
    def pack(self) -> int:
        """How many adjacent elements a thread loads at a time, for arrays of one dtype: see
        pack_of.
        """
        pack: int = 16 // self.out.dtype.itemsize
        arrays = zip((self.out, *self.inputs), self.walk.strides, strict=True)
        lets = all(_lets_pack(array, self.length, steps, pack) for array, steps in arrays)
        return pack if lets and set(self.steps) == {1} else 1

    @property
    def wide(self) -> bool:
        """Whether the numbers of rows need 64 bits."""
        return self.walk.size >= 2**32

    def launch(self, source: str, name: str, lanes: int) -> Launch:
        """Return the launch of a kernel in which `lanes` threads share a row."""
        rows = self.walk
        fields = (*rows.shape, *[step for one in rows.strides for step in one])
        task = int64_fields(rows.size, self.length, lanes, *self.steps, *fields)
        grid = (-(-rows.size * lanes // THREADS), 1)
        return Launch(source, name, grid, (*self.inputs, self.out, task))


def rows_along(inputs: tuple[Any, ...], out: Any, axis: int) -> Rows | None:
    """Return the rows along axis; None if out is empty. A 0-d out is treated as a row of one
    element.

    Note    the walk has out's strides first, then the strides of the inputs, which have out's shape
    """
    strides = [element_strides(array) for array in (*inputs, out)]
    axis = axis % out.ndim if out.ndim else 0
    kept = [other for other in range(out.ndim) if other != axis]
    rows = walk(
        [out.shape[a] for a in kept],
        [[steps[a] for a in kept] for steps in (strides[-1], *strides[:-1])],
    )
    length = out.shape[axis] if out.ndim else 1
    if not length or not rows.size:
        return None
    steps = tuple([one[axis] if out.ndim else 1 for one in strides])
    return Rows(inputs, out, rows, length, steps)
