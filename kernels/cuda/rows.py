"""How kernels that go along one axis, row by row, are launched: softmax, running sums."""

from __future__ import annotations

from typing import Any, NamedTuple

from .launch import THREADS, Launch, int64_fields
from .layout import Walk, element_strides, walk


class Rows(NamedTuple):
    """The rows of x and out along one axis; `walk` goes over the axes that stay."""

    x: Any
    out: Any
    walk: Walk
    length: int
    step_in: int
    step_out: int

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
        fields = (*rows.shape, *rows.strides[0], *rows.strides[1])
        task = int64_fields(rows.size, self.length, lanes, self.step_in, self.step_out, *fields)
        return Launch(source, name, (-(-rows.size * lanes // THREADS), 1), (self.x, self.out, task))


def rows_along(x: Any, out: Any, axis: int) -> Rows | None:
    """Return the rows along axis; None if x is empty. A 0-d x is a row of one."""
    steps, out_steps = element_strides(x), element_strides(out)
    axis = axis % x.ndim if x.ndim else 0
    kept = [other for other in range(x.ndim) if other != axis]
    rows = walk(
        [x.shape[a] for a in kept], [[out_steps[a] for a in kept], [steps[a] for a in kept]]
    )
    length = x.shape[axis] if x.ndim else 1
    if not length or not rows.size:
        return None
    step_in, step_out = (steps[axis], out_steps[axis]) if x.ndim else (1, 1)
    return Rows(x, out, rows, length, step_in, step_out)
