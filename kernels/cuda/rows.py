"""How kernels that go along one axis, row by row, are launched: softmax, running sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from .launch import THREADS, Launch, headers_for, int64_fields, text_of
from .layout import Walk, element_strides, walk

# Of a row, in the registers of each of its threads.
_MOST_HELD: Final = 16


class Sharing(NamedTuple):
    """How many threads share a row, and how many of its elements each holds; 0: none."""

    lanes: int
    held: int

    def grid(self, rows: int) -> tuple[int, int]:
        """Return the grid for so many rows."""
        return (-(-rows * self.lanes // THREADS), 1)


def shared(length: int) -> Sharing:
    """Return how a row of a length is shared: four elements a thread, more where it is long."""
    lanes = min(THREADS, 1 << max(-(-length // 4) - 1, 0).bit_length())
    held = 1 << max(-(-length // lanes) - 1, 0).bit_length()
    return Sharing(lanes, held if held <= _MOST_HELD else 0)


def rows_header(dtypes: Sequence[np.dtype[Any]], real: str, held: int) -> str:
    """Return what texts of rows.cuh begin with, that load and store these dtypes."""
    return f"""{headers_for(dtypes)}
typedef {real} Real;
constexpr int HELD = {held};
{text_of("rows.cuh")}"""


class Rows(NamedTuple):
    """The rows of inputs and out along one axis; `walk` goes over the axes that stay.

    Units   `steps` from one element of a row to the next, of the inputs, then of out
    """

    inputs: tuple[Any, ...]
    out: Any
    walk: Walk
    length: int
    steps: tuple[int, ...]

    @property
    def kept(self) -> int:
        """The number of merged axes that stay."""
        return len(self.walk.shape)

    @property
    def wide(self) -> bool:
        """Whether the number of a row needs 64 bits."""
        return self.walk.size >= 2**32

    def launch(self, source: str, name: str, lanes: int) -> Launch:
        """Return the launch of a kernel of which so many threads share a row."""
        rows = self.walk
        fields = (*rows.shape, *[step for one in rows.strides for step in one])
        task = int64_fields(rows.size, self.length, lanes, *self.steps, *fields)
        grid = (-(-rows.size * lanes // THREADS), 1)
        return Launch(source, name, grid, (*self.inputs, self.out, task))


def rows_along(inputs: tuple[Any, ...], out: Any, axis: int) -> Rows | None:
    """Return the rows along axis; None if out is empty. A 0-d out is a row of one.

    Note    the walk has out's strides first, then those of the inputs, which are of out's shape
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
