"""How two gradients of one Node become one, and the buffer in which they meet."""

from __future__ import annotations

from typing import Any

from ..backends.backend import backend_of
from ..tensor.tensor import Tensor, layout_of, wrap
from .modes import modes, tls


def add_gradients(have: Tensor, new: Tensor, mine: bool) -> Tensor:
    """Return the sum of two gradients.

    In place where `have` is a sum that the pass itself allocated and nothing records; else `have +
    new`, the operator that namespace installed, which records where grad mode is on and carries
    tangents.
    """
    if tls.grad or modes.special:
        return have + new
    layout = have.layout
    backend = backend_of(layout.device.type)
    if mine:
        backend.add_into(have.array, new.array)
        return have
    array: Any = backend.empty(layout.shape, layout.dtype.numpy, layout.device.index)
    backend.copy_into(array, have.array)
    backend.add_into(array, new.array)
    return wrap(array, layout_of(array, layout.device))
