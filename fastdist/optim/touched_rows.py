"""Steps with sparse gradients: only rows for which the gradient has entries are accessed."""

from __future__ import annotations

import math

from ..core.errors import ShapeError
from ..devices.backend import backend_of
from ..graph.inplace_history import require_may_change
from ..ops.sparse.coordinates import flat_places, in_order, indices_of, values_of
from ..tensor.storage import storage_of
from ..tensor.tensor import Tensor


def step_rows(name: str, gradient: Tensor, tensors: list[Tensor], *numbers: float) -> None:
    """Update tensors at the rows for which a sparse gradient has entries.

    The last of the tensors is the parameter. The kernel sparse.touched_rows.NAME computes the
    update; the gradient need not be coalesced.

    Raises  RuntimeError for a gradient of another shape, and with grad mode on
    Note    a tensor that is not contiguous is copied before the kernel runs, and copied back later
    """
    parameter = tensors[-1]
    layout = parameter._layout
    if gradient._layout.shape != layout.shape:
        raise ShapeError(
            f"{name}: a gradient is of shape {gradient._layout.shape}, its parameter of shape "
            f"{layout.shape}"
        )
    require_may_change(parameter)
    indices, values = indices_of(gradient), values_of(gradient.to(layout.dtype)).contiguous()
    axes, count = indices._layout.shape
    width = math.prod(layout.shape[axes:])
    lengths = layout.shape[:axes]
    places, order = in_order(flat_places(indices, lengths), math.prod(lengths))
    packed = [one if one._layout.contiguous else one.contiguous() for one in tensors]
    backend_of(layout.device.type).kernel(f"sparse.touched_rows.{name}")(
        values._array.reshape((count, width)),
        places._array,
        order._array,
        *[one._array.reshape((-1, width)) for one in packed],
        *numbers,
    )
    for one, written in zip(tensors, packed, strict=True):
        if one is written:
            storage_of(one).bump()
        else:
            one.copy_(written)
