"""Private functions of DistributedDataParallel in PyTorch that other module wrappers call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...graph.modes import no_grad
from ...tensor.tensor import Tensor
from ..process_group.world import group_of
from .buckets import Kind
from .same_model import broadcast_tensors, require_same_model


def _compute_bucket_assignment_by_size(
    tensors: Sequence[Tensor],
    bucket_size: Sequence[int],
    expect_sparse_gradient: Sequence[bool] = (),
    tensor_indices: Sequence[int] = (),
    logger: Any = None,
) -> tuple[list[list[int]], list[int]]:
    """Return the tensors of each bucket, as indices, and the size limit of each bucket in bytes.

    Raises  ValueError if `tensors` or `bucket_size` is empty, or `tensor_indices` has another
            length than `tensors`; RuntimeError if a tensor is sparse

    Args:
        tensors: Parameters, in the order in which buckets are filled.
        bucket_size: The sizes in bytes at which buckets are full. For each dtype and device, the
            first number applies to the first bucket, and so on; the last number applies to all
            later buckets.
        expect_sparse_gradient: Whether the gradient of each tensor is sparse. Such a tensor has a
            separate bucket, whose limit is 0.
        tensor_indices: The index of each tensor. If the list is empty, the index of a tensor is its
            position in `tensors`, and buckets are ordered by their lowest index. Otherwise buckets
            are returned in the order in which they became full.
        logger: Ignored.
    """
    if not tensors or not bucket_size:
        raise ValueError("buckets need at least one tensor and one size")
    if tensor_indices and len(tensor_indices) != len(tensors):
        raise ValueError(f"{len(tensor_indices)} indices of {len(tensors)} tensors")
    found: list[tuple[list[int], int]] = []
    open_buckets: dict[Kind, list[int]] = {}
    sizes: dict[Kind, int] = {}
    num_full: dict[Kind, int] = {}
    for place, tensor in enumerate(tensors):
        if tensor.is_sparse:
            raise RuntimeError("No support for sparse tensors.")
        index = tensor_indices[place] if tensor_indices else place
        if expect_sparse_gradient and expect_sparse_gradient[index]:
            found.append(([index], 0))
            continue
        layout = tensor._layout
        kind = Kind(layout.dtype, layout.device)
        open_buckets.setdefault(kind, []).append(index)
        sizes[kind] = sizes.get(kind, 0) + layout.nbytes
        limit = _limit(bucket_size, num_full.get(kind, 0))
        if sizes[kind] >= limit:
            found.append((open_buckets.pop(kind), limit))
            sizes[kind], num_full[kind] = 0, num_full.get(kind, 0) + 1
    for kind, indices in open_buckets.items():
        found.append((indices, _limit(bucket_size, num_full.get(kind, 0))))
    if not tensor_indices:
        found.sort(key=lambda bucket: min(bucket[0]))
    return [indices for indices, _ in found], [limit for _, limit in found]


def _limit(bucket_size: Sequence[int], number: int) -> int:
    return int(bucket_size[min(number, len(bucket_size) - 1)])


def _verify_params_across_processes(
    process_group: Any, params: Sequence[Tensor], logger: Any = None
) -> None:
    """Raise on all members unless the parameters of all members have the same shapes and dtypes.

    Raises  RuntimeError naming the first difference of the parameters

    Args:
        process_group: The group.
        params: The parameters of this member.
        logger: Ignored.
    """
    named = [(f"number {number}", one) for number, one in enumerate(params)]
    require_same_model(group_of(process_group), named)


def _broadcast_coalesced(
    process_group: Any, tensors: Sequence[Tensor], buffer_size: int, src: int = 0
) -> None:
    """Copy one member's values into the tensors of all members, in messages of limited size.

    Args:
        process_group: The group.
        tensors: Tensors with the same shapes and dtypes on all members.
        buffer_size: The largest size of a message in bytes; only a single tensor may exceed it.
        src: The group rank of the member whose values are copied.
    """
    with no_grad():
        broadcast_tensors(group_of(process_group), tensors, src, buffer_size)
