"""Collectives that replace a dual tensor of forward mode: its numbers and its tangents."""

# The numbers of the result and its tangents are those of the collectives of distributed.nn.
# functional, which are then copied into the tensor. So all members make the same calls, and each
# must have a tangent at the same levels: zeros where nothing depends on the input.

from __future__ import annotations

from typing import Any

from ...dispatch.tangents import levels_of
from ...graph.modes import no_grad
from ...tensor.tensor import Tensor
from ...tensor.writable import require_writable
from .work import Work, finished


def has_tangent(tensor: Any) -> bool:
    """Return whether an argument is a tensor with a tangent at an open level."""
    return isinstance(tensor, Tensor) and tensor.extra is not None and bool(levels_of((tensor,)))


def all_reduce(tensor: Tensor, op: Any, group: Any) -> Work:
    """Replace a dual tensor on all members by its reduction."""
    from ..nn.functional import all_reduce

    require_writable(tensor)
    with no_grad():
        tensor.copy_(all_reduce(tensor, op, group))
    return finished([tensor])


def reduce(tensor: Tensor, root: int, op: Any, group: Any) -> Work:
    """Replace a dual tensor on the member `root` by its reduction; the others keep theirs."""
    from ..nn.functional import all_reduce

    require_writable(tensor)
    with no_grad():
        result = all_reduce(tensor, op, group)
        if group.rank() == root:
            tensor.copy_(result)
    return finished([tensor])


def broadcast(tensor: Tensor, root: int, group: Any) -> Work:
    """Replace a dual tensor on all members by that of the member `root`."""
    from ..nn.collective import Broadcast, carried

    require_writable(tensor)
    with no_grad():
        result = carried(tensor, Broadcast(group, root))
        if group.rank() != root:
            tensor.copy_(result)
    return finished([tensor])
