"""Sparse gradients in messages: coordinates, values, and numbers that describe them.

In a message, a gradient with few nonzero rows takes only as many bytes as these rows. Its
coordinates and its values are ordinary tensors of the message, so they need no pickle and are
allowed in strict mode. If a user sends a sparse tensor, the graph records its values. The gradient
that comes back for them is dense, with one element per value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.errors import MessageError
from ...graph.tensor_tangents import levels_of
from ...ops.sparse.conversion import coalesce, sparse_of, values
from ...tensor.pickling import parts_of, rebuild_sparse
from ...tensor.tensor import Tensor
from ..rpc.message.metadata import Value
from ..rpc.message.metadata_fields import Metadata, numbers, refuse

# A field of a message's metadata. It has, for each sparse gradient, the position of its coordinates
# among the tensors (its values are the next tensor), whether it is coalesced, its number of axes,
# and the length of each axis.
SPARSE = "sparse"


def apart(gradients: Sequence[Tensor]) -> tuple[list[Tensor], list[Value]]:
    """Return the tensors of the gradients, and the numbers for the field SPARSE. A sparse gradient
    has two tensors: its coordinates and its values.
    """
    tensors: list[Tensor] = []
    told: list[Value] = []
    for gradient in gradients:
        if not gradient._layout.is_sparse:
            tensors.append(gradient)
            continue
        indices, own, shape, is_coalesced, _ = carried_parts(gradient)
        told += (len(tensors), int(is_coalesced), len(shape), *shape)
        tensors += (indices, own)
    return tensors, told


def together(tensors: Sequence[Tensor], metadata: Metadata, sender: int) -> Sequence[Tensor]:
    """Return the gradients rebuilt from a message's tensors; tensors after them are left unchanged.

    Raises  MessageError if the numbers do not fit the tensors
    """
    if SPARSE not in metadata:
        return tensors
    told = numbers(metadata, SPARSE, sender)
    found: list[Tensor] = []
    at = taken = 0
    while at < len(told):
        if len(told) < at + 3 or not taken <= told[at] <= len(tensors) - 2 or told[at + 2] < 0:
            refuse(metadata, SPARSE, sender, f"the places of parts among {len(tensors)} tensors")
        first, is_coalesced, axes = told[at : at + 3]
        shape = told[at + 3 : at + 3 + axes]
        found += tensors[taken:first]
        try:
            indices, own = tensors[first : first + 2]
            found.append(rebuild_recorded(indices, own, shape, bool(is_coalesced), False))
        except ValueError as error:
            raise MessageError(f"worker {sender} sent an invalid gradient: {error}") from error
        at, taken = at + 3 + axes, first + 2
    return [*found, *tensors[taken:]]


def spread(names: Sequence[str], told: Sequence[int]) -> list[str]:
    """Return one device name for each tensor of an outgoing message; `names` has one per gradient.
    `told` has the numbers of the field SPARSE.
    """
    found, at = [*names], 0
    while at < len(told):
        first, _, axes = told[at : at + 3]
        found.insert(first, found[first])
        at += 3 + axes
    return found


def carried_parts(tensor: Tensor, *, has_history: bool = False) -> tuple[Any, ...]:
    """Return the arguments with which rebuild_recorded builds a sparse tensor. The values among
    them keep their tangents, and with `has_history` also their history.
    """
    if not has_history and not levels_of((tensor,)):
        return parts_of(tensor)
    whole = coalesce(tensor)
    indices, _, shape, is_coalesced, requires_grad = parts_of(whole)
    return indices, values(whole), shape, is_coalesced, requires_grad


def rebuild_recorded(
    indices: Tensor, values: Tensor, shape: Any, is_coalesced: bool, requires_grad: bool
) -> Tensor:
    """Return the sparse tensor that was sent: a leaf, or a tensor with the history of its values.

    Raises  ValueError if the parts do not fit together
    """
    made = rebuild_sparse(indices, values, shape, is_coalesced, False)
    edge = values._edge
    if (edge is None or edge.is_accumulate) and not levels_of((values,)):
        return made.requires_grad_() if requires_grad else made
    return sparse_of(indices, values, made._layout.shape, is_coalesced=is_coalesced)
