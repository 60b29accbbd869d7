"""Private functions of PyTorch that other wrappers of modules call, as DistributedDataParallel."""

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
    """Return which tensors share a bucket, and the limit of each bucket in bytes.

    Args:
        tensors: Parameters, in the order in which buckets are filled.
        bucket_size: A bucket is full from this size on: the first number is for the first bucket
            of a dtype and device, the last for all from its place on.
        expect_sparse_gradient: Whether the gradient of each tensor is sparse: such a tensor has a
            bucket for itself, whose limit is 0.
        tensor_indices: The number of each tensor; its place in `tensors` if empty. The buckets are
            then in the order of their lowest numbers, else in that in which they became full.
        logger: Ignored.

    Raises:
        ValueError: There are no tensors or sizes, or not as many numbers as tensors.
        RuntimeError: A tensor is sparse.
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
    """Raise on all members, at once, unless all have parameters of the same shapes and dtypes.

    Args:
        process_group: The members.
        params: The parameters of this member.
        logger: Ignored.

    Raises:
        RuntimeError: They differ; it names the first that does.
    """
    named = [(f"number {number}", one) for number, one in enumerate(params)]
    require_same_model(group_of(process_group), named)


def _broadcast_coalesced(
    process_group: Any, tensors: Sequence[Tensor], buffer_size: int, src: int = 0
) -> None:
    """Give tensors the values that one member has, in messages of a limited size.

    Args:
        process_group: The members.
        tensors: Tensors of the same shapes and dtypes on all members.
        buffer_size: The bytes of a message, which a larger tensor exceeds.
        src: The rank in the group of the member whose values count.
    """
    with no_grad():
        broadcast_tensors(group_of(process_group), tensors, src, buffer_size)
