"""Numbers of optimisers that stay on a device: states of one element, worked on as a column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.dtypes import float64
from ..devices.backend import backend_of
from ..graph.modes import no_grad
from ..ops.create.creation import empty
from ..tensor.storage import bump_all
from ..tensor.tensor import Tensor

# Note [Numbers on a device]
# The amount that a step of Adam subtracts depends on the number of steps. The host must not read a
# count on a device: it would wait for the device, and could not read it while a graph is captured.
# So the counts of a group's parameters are gathered into a column of float64, in one launch for
# all; the formulas, written for numbers, get the column instead; and the program that changes the
# parameters reads its numbers from the resulting columns. The counts are scattered back by one
# launch as well.


def taken(kept: Sequence[Tensor]) -> Tensor:
    """Return numbers, Tensors of one element of a dtype on a device, as a column.

    Shape   (), each -> (n,)
    Dtype   floating -> float64
    """
    layout = kept[0]._layout
    column = empty(len(kept), dtype=layout.dtype, device=layout.device)
    backend = backend_of(layout.device.type)
    backend.kernel("pointwise.multi_tensor.take")(column._array, *[one._array for one in kept])
    return column.to(float64)


def put(column: Tensor, kept: Sequence[Tensor]) -> None:
    """Write a column over the numbers that taken made one of; they count a change."""
    layout = kept[0]._layout
    given = column.to(layout.dtype)
    backend = backend_of(layout.device.type)
    backend.kernel("pointwise.multi_tensor.put")(given._array, *[one._array for one in kept])
    bump_all(kept)


def overwrite(kept: Sequence[Tensor], numbers: Sequence[float]) -> None:
    """Let Tensors of one element be these numbers; they count a change."""
    if {one._layout.device.type for one in kept} == {"cpu"}:
        # By hand: an op takes as long as the whole update of a small parameter's mean.
        for one, number in zip(kept, numbers, strict=True):
            one._array.fill(number)
        bump_all(kept)
        return
    with no_grad():
        for one, number in zip(kept, numbers, strict=True):
            one.fill_(number)


def is_column(counts: Sequence[Any]) -> bool:
    """Return whether the counts of several parameters are one column, the same for each."""
    return bool(counts) and isinstance(counts[0], Tensor) and counts[0].ndim > 0


def are_on_device(numbers: Sequence[Any]) -> bool:
    """Return whether some numbers of a step are Tensors of a device, which has its own time."""
    tensors = [one for one in numbers if isinstance(one, Tensor)]
    return bool(tensors) and any(one._layout.device.type != "cpu" for one in tensors)
