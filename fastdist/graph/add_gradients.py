"""Initial gradients of a pass, copies of gradients, and sums of two gradients."""

from __future__ import annotations

import numpy as np

from ..core.device import CPU
from ..core.errors import GraphError
from ..devices.backend import backend_of
from ..tensor.layout import Layout
from ..tensor.storage import storage_of
from ..tensor.tensor import Tensor, layout_near, layout_of, wrap
from .modes import modes, no_grad, tls
from .node import node_of, output_number


def add_gradients(have: Tensor, new: Tensor, mine: bool) -> Tensor:
    """Return the sum of two gradients.

    If grad mode is on or a special mode is active, the sum is `have + new`, which is recorded and
    carries tangents. Otherwise `new` is added to `have` in place if `mine`, and to a copy of `have`
    if not. `mine` means that the pass itself allocated `have`.
    """
    if tls.grad or modes.special:
        return have + new
    if have._layout.is_sparse or new._layout.is_sparse:
        return add_sparse(have, new, in_place=mine)
    total = have if mine else copy_gradient(have)
    backend_of(total._layout.device.type).add_into(total._array, new._array)
    return total


def add_sparse(have: Tensor, new: Tensor, *, in_place: bool) -> Tensor:
    """Return the sum of two gradients, one or both of which are sparse. The sum is sparse if both
    are.

    Note    with in_place=True, the sum is stored in `have`, except if `have` is sparse and `new` is
            dense. Two sparse tensors may share entries, because entries are never overwritten
    """
    if not have._layout.is_sparse:
        with no_grad():
            return have.add_(new) if in_place else have + new
    if not new._layout.is_sparse:
        with no_grad():
            return new + have
    total = have._array.plus(new._array)
    if not in_place:
        return wrap(total, have._layout)
    # In place, so that existing references to the gradient see the sum.
    have._array = total
    storage_of(have).bump()
    return have


def copy_gradient(grad: Tensor) -> Tensor:
    """Return a copy in new memory, in C order, outside of any graph."""
    layout = grad._layout
    if layout.is_sparse:
        return wrap(grad._array, layout)
    backend = backend_of(layout.device.type)
    array = backend.empty(layout.shape, layout.dtype.numpy, layout.device.index)
    backend.copy_into(array, grad._array)
    return wrap(array, layout_near(array, layout))


def first_gradient(root: Tensor) -> Tensor:
    """Return the first gradient of a pass: ones, in the layout of root, which has one element.

    Raises  GraphError if `root.data` was replaced by data that does not fit the op that made root
    """
    layout = _layout_of_gradient(root)
    if not layout.shape and layout.device is CPU:
        return wrap(np.array(1, layout.dtype.numpy), layout)
    backend = backend_of(layout.device.type)
    array = backend.empty(layout.shape, layout.dtype.numpy, layout.device.index)
    backend.copy_into(array, np.ones((), array.dtype))
    return wrap(array, layout_of(array, layout.device))


def _layout_of_gradient(root: Tensor) -> Layout:
    """Return the layout in which the op that made root returned its output."""
    layout, edge = root._layout, root._edge
    if edge is None or (node := node_of(edge)).is_accumulate:
        return layout
    made = (
        node.output_layout[output_number(edge)]
        if node.output_layout.__class__ is tuple
        else node.output_layout
    )
    if made is None or made is layout:
        return layout
    assert isinstance(made, Layout)
    if made.device is not layout.device:
        raise GraphError(
            f"invalid gradient at index 0 - expected device {made.device} but got "
            f"{layout.device}: {_SET_MEANWHILE}"
        )
    # The root has one element. So the op's output must have one element too, and no more dimensions
    # than the root.
    if made.numel != 1 or len(made.shape) > len(layout.shape):
        raise GraphError(
            f"invalid gradient at index 0 - got {list(layout.shape)} but expected shape compatible "
            f"with {list(made.shape)}: {_SET_MEANWHILE}"
        )
    return made


_SET_MEANWHILE = "the root's data was set since an op made it; begin at a tensor that an op made"
