"""How gradients begin, are copied, and become one where two meet."""

from __future__ import annotations

import numpy as np

from ..backends.backend import backend_of
from ..core.device import CPU
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
    total = have if mine else copy_gradient(have)
    backend_of(total.layout.device.type).add_into(total.array, new.array)
    return total


def copy_gradient(grad: Tensor) -> Tensor:
    """Return a copy in memory of its own, C order, outside of any graph."""
    layout = grad.layout
    backend = backend_of(layout.device.type)
    array = backend.empty(layout.shape, layout.dtype.numpy, layout.device.index)
    backend.copy_into(array, grad.array)
    return wrap(array, layout_of(array, layout.device))


def first_gradient(root: Tensor) -> Tensor:
    """Return ones like root: the gradient that a pass begins with."""
    layout = root.layout
    if not layout.shape and layout.device is CPU:
        return wrap(np.array(1, layout.dtype.numpy), layout)
    ones = np.ones(layout.shape, layout.dtype.numpy)
    array = backend_of(layout.device.type).from_numpy(ones, layout.device.index)
    return wrap(array, layout_of(array, layout.device))
