"""How gradients begin, are copied, and become one where two meet."""

from __future__ import annotations

import numpy as np

from ..core.device import CPU
from ..devices.backend import backend_of
from ..tensor.tensor import Tensor, layout_of, wrap
from .modes import modes, no_grad, tls


def add_gradients(have: Tensor, new: Tensor, mine: bool) -> Tensor:
    """Return the sum of two gradients.

    In place where `have` is a sum that the pass itself allocated and nothing records; else `have +
    new`, the operator that namespace installed, which records where grad mode is on and carries
    tangents.
    """
    if tls.grad or modes.special:
        return have + new
    if have.facts.is_sparse or new.facts.is_sparse:
        return add_sparse(have, new, in_place=mine)
    total = have if mine else copy_gradient(have)
    backend_of(total.facts.device.type).add_into(total.array, new.array)
    return total


def add_sparse(have: Tensor, new: Tensor, *, in_place: bool) -> Tensor:
    """Return the sum of two gradients of which one at least is sparse, which it is if both are.

    Note    in_place changes `have` where it can hold the sum; the entries of a sparse one are never
            written over, and need no copies
    """
    if not have.facts.is_sparse:
        with no_grad():
            return have.add_(new) if in_place else have + new
    if not new.facts.is_sparse:
        with no_grad():
            return new + have
    total = have.array.plus(new.array)
    if not in_place:
        return wrap(total, have.facts)
    # Who holds the gradient sees it grow.
    have.array = total
    if have._storage is not None:
        have._storage.bump()
    return have


def copy_gradient(grad: Tensor) -> Tensor:
    """Return a copy in memory of its own, C order, outside of any graph."""
    layout = grad.facts
    if layout.is_sparse:
        return wrap(grad.array, layout)
    backend = backend_of(layout.device.type)
    array = backend.empty(layout.shape, layout.dtype.numpy, layout.device.index)
    backend.copy_into(array, grad.array)
    return wrap(array, layout_of(array, layout.device))


def first_gradient(root: Tensor) -> Tensor:
    """Return ones like root: the gradient that a pass begins with."""
    layout = root.facts
    if not layout.shape and layout.device is CPU:
        return wrap(np.array(1, layout.dtype.numpy), layout)
    ones = np.ones(layout.shape, layout.dtype.numpy)
    array = backend_of(layout.device.type).from_numpy(ones, layout.device.index)
    return wrap(array, layout_of(array, layout.device))
