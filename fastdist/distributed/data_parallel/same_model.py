"""Checks that all members of a group have the same model, and copies one member's values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...ops.shape.joining import cat
from ...tensor.tensor import Tensor
from ..process_group.group import ProcessGroup
from ..process_group.objects import all_gather_object
from ..process_group.options import BroadcastOptions
from ..process_group.work import wait_for

# The largest total size, in bytes, of several tensors that are sent in one message.
_TOGETHER_BYTES = 250 * 1024 * 1024


def require_same_model(
    group: ProcessGroup, named: Sequence[tuple[str, Tensor]], what: str = "params"
) -> None:
    """Raise on all members unless the tensors of all members have the same shapes and dtypes.

    Raises  RuntimeError naming a tensor if counts, shapes, strides, dtypes or requires_grad differ

    Args:
        group: The group.
        named: The tensors of this process, with their names.
        what: The name of the tensors in errors: "params" or "buffers".
    """
    if group.size() == 1:
        return
    own = [
        (name, one._layout.shape, one._layout.strides, one._layout.dtype.name, one.requires_grad)
        for name, one in named
    ]
    found: list[Any] = [None] * group.size()
    all_gather_object(found, own, group)
    first = found[0]
    for rank, other in enumerate(found):
        if len(other) != len(first):
            more, less = (other, first) if len(other) > len(first) else (first, other)
            names = [row[0] for row in less]
            extra = next(row[0] for row in more if row[0] not in names)
            raise RuntimeError(
                f"DDP expects same model across all ranks, but Rank {rank} has {len(other)} "
                f"{what}, while rank 0 has inconsistent {len(first)} {what}; one rank alone has "
                f"{extra!r}"
            )
    for rank, other in enumerate(found):
        for index, (row, reference) in enumerate(zip(other, first)):
            if row[1:] != reference[1:]:
                raise RuntimeError(_difference(what, index, rank, row, reference))


def _difference(what: str, index: int, rank: int, row: Any, reference: Any) -> str:
    words = "shape", "strides", "dtype", "requires_grad"
    part = next(i for i in range(4) if row[i + 1] != reference[i + 1])
    return (
        f"[{rank}]: {what}[{index}] ({row[0]}) in this process with sizes {list(row[1])} appears "
        f"not to match {'sizes' if part == 0 else words[part]} of the same param in process 0. "
        f"The {words[part]} is {row[part + 1]} on rank {rank} and {reference[part + 1]} on rank 0"
    )


def broadcast_tensors(
    group: ProcessGroup,
    tensors: Sequence[Tensor],
    root: int = 0,
    together_bytes: int = _TOGETHER_BYTES,
) -> None:
    """Copy the values of the member `root`, but no gradients, into the tensors of all members."""
    if group.size() == 1:
        return
    for batch in _batches(tensors, together_bytes):
        joined = cat([one.reshape(-1) for one in batch])
        wait_for(group.broadcast([joined], BroadcastOptions(rootRank=root, asyncOp=False)))
        if group.rank() != root:
            for one, part in zip(batch, joined.split([one.numel() for one in batch]), strict=True):
                one.copy_(part.reshape(one.shape))


def _batches(tensors: Sequence[Tensor], together_bytes: int) -> list[list[Tensor]]:
    """Return the tensors in batches of limited size; each batch has one dtype and device."""
    by_kind: dict[Any, list[list[Tensor]]] = {}
    for tensor in tensors:
        lists = by_kind.setdefault((tensor._layout.dtype, tensor._layout.device), [[]])
        size = sum(one._layout.nbytes for one in lists[-1])
        if lists[-1] and size + tensor._layout.nbytes > together_bytes:
            lists.append([])
        lists[-1].append(tensor)
    return [one for lists in by_kind.values() for one in lists]
