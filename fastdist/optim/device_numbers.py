"""State of optimisers that stays on a device: Tensors of one element, processed as one column."""

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
# The update of Adam depends on the number of steps. The host must not read a count on a device,
# because it would wait for the device, and because reading fails while a graph is captured. So one
# launch gathers the counts of a group's parameters into a column of float64. The optimiser's
# formulas accept a column or a plain number, and are applied to the column. The program that
# updates the parameters reads its numbers from the resulting columns. One more launch scatters the
# counts.


def taken(kept: Sequence[Tensor]) -> Tensor:
    """Gather Tensors of one element, which share a dtype and a device, into a column.

    Shape   (), each -> (n,)
    Dtype   floating -> float64
    """
    layout = kept[0]._layout
    column = empty(len(kept), dtype=layout.dtype, device=layout.device)
    backend = backend_of(layout.device.type)
    backend.kernel("pointwise.multi_tensor.take")(column._array, *[one._array for one in kept])
    return column.to(float64)


def put(column: Tensor, kept: Sequence[Tensor]) -> None:
    """Write a column back to the Tensors that `taken` gathered, and increment their versions."""
    layout = kept[0]._layout
    given = column.to(layout.dtype)
    backend = backend_of(layout.device.type)
    backend.kernel("pointwise.multi_tensor.put")(given._array, *[one._array for one in kept])
    bump_all(kept)


def overwrite(kept: Sequence[Tensor], numbers: Sequence[float]) -> None:
    """Set each Tensor of one element to its number, and increment the versions of the Tensors."""
    if {one._layout.device.type for one in kept} == {"cpu"}:
        # NumPy is used, because an op would take as long as updating a small parameter's mean.
        for one, number in zip(kept, numbers, strict=True):
            one._array.fill(number)
        bump_all(kept)
        return
    with no_grad():
        for one, number in zip(kept, numbers, strict=True):
            one.fill_(number)


def is_column(counts: Sequence[Any]) -> bool:
    """Return whether the counts are one column on a device, which is then every entry of counts."""
    return bool(counts) and isinstance(counts[0], Tensor) and counts[0].ndim > 0


def are_on_device(numbers: Sequence[Any]) -> bool:
    """Return whether any of the numbers is a Tensor on a device other than the CPU."""
    tensors = [one for one in numbers if isinstance(one, Tensor)]
    return bool(tensors) and any(one._layout.device.type != "cpu" for one in tensors)
