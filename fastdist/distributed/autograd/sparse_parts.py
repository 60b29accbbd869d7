"""Sparse gradients in messages: coordinates and values, and numbers that describe them.

A gradient of few rows costs on the wire what these rows cost. Its two parts are tensors of the
message like all others, so they need no pickle, and pass in strict mode. Sparse tensors that users
send have values that are in the graph: their gradients come back dense, one for each value.
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

# A name in a message's metadata: for each sparse gradient where in the message its coordinates are,
# before its values, whether they are coalesced, how many axes it has, and the lengths of these.
SPARSE = "sparse"


def apart(gradients: Sequence[Tensor]) -> tuple[list[Tensor], list[Value]]:
    """Return gradients with sparse ones as their two parts, and the numbers that describe these."""
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
    """Return the gradients of a message's tensors; what follows them stays.

    Raises  MessageError where the numbers do not fit the tensors
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
    """Return one name for each tensor of a message that leaves, of one for each gradient."""
    found, at = [*names], 0
    while at < len(told):
        first, _, axes = told[at : at + 3]
        found.insert(first, found[first])
        at += 3 + axes
    return found


def carried_parts(tensor: Tensor, *, has_history: bool = False) -> tuple[Any, ...]:
    """Return the arguments with which rebuild_recorded makes a sparse tensor; its values have its
    tangents, and its history with has_history.
    """
    if not has_history and not levels_of((tensor,)):
        return parts_of(tensor)
    whole = coalesce(tensor)
    indices, _, shape, is_coalesced, requires_grad = parts_of(whole)
    return indices, values(whole), shape, is_coalesced, requires_grad


def rebuild_recorded(
    indices: Tensor, values: Tensor, shape: Any, is_coalesced: bool, requires_grad: bool
) -> Tensor:
    """Return the sparse tensor that was sent; a leaf, or part of the graph that its values are of.

    Raises  ValueError for parts that do not fit together
    """
    made = rebuild_sparse(indices, values, shape, is_coalesced, False)
    edge = values._edge
    if (edge is None or edge.is_accumulate) and not levels_of((values,)):
        return made.requires_grad_() if requires_grad else made
    return sparse_of(indices, values, made._layout.shape, is_coalesced=is_coalesced)  # type: ignore[no-any-return]
