"""The functions that programs call: collectives on tensors."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from ...concurrency.future import Future
from ...core.folded_frames import folds
from ...tensor.tensor import Tensor
from . import dual
from .arrivals import wait_for_members
from .coalescing import note
from .lists import require_list
from .options import (
    AllgatherOptions,
    AllreduceOptions,
    AllToAllOptions,
    BarrierOptions,
    BroadcastOptions,
    GatherOptions,
    ReduceOptions,
    ReduceScatterOptions,
    ScatterOptions,
)
from .ranks import rank_in
from .reductions import ReduceOp, supports_complex
from .work import Work, future_for, returned
from .world import member_group


@folds
def all_reduce(
    tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Replace each member's tensor by the reduction of all members' tensors.

    Raises  CollectiveMismatchError if members' calls differ in the collective, the dtype or the
            shape; CollectiveLostError if a member ended or cannot be reached;
            CollectiveTimeoutError if members did not call the collective in time; TypeError,
            ValueError or RuntimeError if an argument is wrong, before anything is sent

    Args:
        tensor: Read and written; it has the same dtype and shape on all members.
        op: The reduction, such as ReduceOp.SUM.
        group: The group; the default group if None.
        async_op: Whether to return a Work without waiting for the result.

    Returns:
        A Work if async_op is true, otherwise None.

    Threads: any; collectives of one group run in the order of the calls.

    Example:
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> x = torch.ones(2)
        >>> dist.all_reduce(x)
        >>> x
        tensor([1., 1.])
        >>> dist.destroy_process_group()
    """
    found = member_group("all_reduce", group)
    if found is None:
        return None
    options = AllreduceOptions()
    options.reduceOp, options.asyncOp = op, async_op
    if found._coalesced is not None:
        note(found, all_reduce, tensor, None, options)
        return None
    if dual.has_tangent(tensor):
        dual.require_linear("all_reduce", op)
        work = dual.replace(tensor, lambda part: all_reduce(part, op, found))
        return returned(work, async_op)
    work = found.allreduce([tensor], options)
    return returned(work, async_op)


@folds
def all_reduce_coalesced(
    tensors: Sequence[Tensor], op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Future[Any] | None:
    """Replace each tensor of a list by its reduction over the members, in one message.

    All tensors have one dtype. `op` is the reduction, and `group` None the default group. If
    `async_op` is true, this returns a Future, as in PyTorch.
    """
    found = member_group("all_reduce_coalesced", group)
    if found is None:
        return None
    options = AllreduceOptions(reduceOp=op, asyncOp=async_op)
    given = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    if supports_complex(op):
        # The real and imaginary parts of complex numbers are added as two real numbers.
        given = [_as_real(one) for one in given]
    return future_for(found.allreduce_coalesced(given, options), async_op)


@folds
def reduce(
    tensor: Tensor,
    dst: int | None = None,
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Replace one member's tensor by the reduction of all members' tensors.

    Raises  ValueError if there is no default group, or member `dst` is not in the group;
            CollectiveError if a member is lost, did not call in time or called another collective

    Args:
        tensor: Read on all members, written only on member `dst`.
        dst: The global rank of the member that gets the reduction; None if group_dst is given.
        op: The reduction, such as ReduceOp.SUM.
        group: The group; the default group if None.
        async_op: Whether to return a Work without waiting for the result.
        group_dst: The rank of dst in the group, instead of dst; None if dst is given.

    Returns:
        A Work if async_op is true, otherwise None.

    Example:
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> x = torch.ones(2)
        >>> dist.reduce(x, dst=0)
        >>> dist.destroy_process_group()
    """
    found = member_group("reduce", group)
    if found is None:
        return None
    root = rank_in(found, "reduce", dst, group_dst, None)
    if dual.has_tangent(tensor):
        dual.require_linear("reduce", op)
        work = dual.replace(tensor, lambda part: reduce(part, None, op, found, group_dst=root))
        return returned(work, async_op)
    options = ReduceOptions(reduceOp=op, rootRank=root, asyncOp=async_op)
    return returned(found.reduce([tensor], options), async_op)


@folds
def broadcast(
    tensor: Tensor,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Replace the tensors of all members by the tensor of one member.

    Raises  ValueError if there is no default group, or member `src` is not in the group;
            CollectiveError if a member is lost, did not call in time or called another collective

    Args:
        tensor: Read on member `src`, written on the other members.
        src: The global rank of the member that has the values; None if group_src is given.
        group: The group; the default group if None.
        async_op: Whether to return a Work without waiting for the result.
        group_src: The rank of src in the group, instead of src; None if src is given.

    Returns:
        A Work if async_op is true, otherwise None.

    Example:
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> x = torch.ones(2)
        >>> dist.broadcast(x, src=0)
        >>> dist.destroy_process_group()
    """
    found = member_group("broadcast", group)
    if found is None:
        return None
    root = rank_in(found, "broadcast", src, group_src, None)
    if dual.has_tangent(tensor):
        work = dual.replace(tensor, lambda part: broadcast(part, None, found, group_src=root))
        return returned(work, async_op)
    options = BroadcastOptions(rootRank=root, asyncOp=async_op)
    return returned(found.broadcast([tensor], options), async_op)


@folds
def all_gather(
    tensor_list: list[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """Fill a list on each member with the tensors of all members.

    Raises  ValueError if there is no group, or tensor_list does not have one tensor per member;
            CollectiveError if a member is lost, did not call in time or called another collective

    Args:
        tensor_list: One tensor per member, ordered by rank, to be filled. Sizes may differ.
        tensor: The tensor of this member, with the size of `tensor_list[rank]`.
        group: The group; the default group if None.
        async_op: Whether to return a Work without waiting for the result.

    Returns:
        A Work if async_op is true, otherwise None.

    Example:
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> parts = [torch.zeros(2)]
        >>> dist.all_gather(parts, torch.ones(2))
        >>> parts
        [tensor([1., 1.])]
        >>> dist.destroy_process_group()
    """
    found = member_group("all_gather", group)
    if found is None:
        return None
    require_list("tensor_list", tensor_list)
    return returned(
        found.allgather([tensor_list], [tensor], AllgatherOptions(asyncOp=async_op)), async_op
    )


@folds
def all_gather_coalesced(
    output_tensor_lists: list[list[Tensor]],
    input_tensor_list: list[Tensor],
    group: Any = None,
    async_op: bool = False,
) -> Future[Any] | None:
    """Fill `output_tensor_lists[member][i]` with `input_tensor_list[i]` of that member.

    `group` None is the default group. If `async_op` is true, this returns a Future, as in PyTorch.
    """
    found = member_group("all_gather_coalesced", group)
    if found is None:
        return None
    options = AllgatherOptions(asyncOp=async_op)
    work = found.allgather_coalesced(output_tensor_lists, input_tensor_list, options)
    return future_for(work, async_op)


@folds
def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """Fill one tensor on each member with the concatenated tensors of all members.

    Args:
        output_tensor: Written; of shape (members * n, ...) or (members, n, ...).
        input_tensor: The tensor of this member, of shape (n, ...).
        group: The group; the default group if None.
        async_op: Whether to return a Work without waiting for the result.
    """
    found = member_group("all_gather_into_tensor", group)
    if found is None:
        return None
    options = AllgatherOptions(asyncOp=async_op)
    if found._coalesced is not None:
        note(found, all_gather_into_tensor, input_tensor, output_tensor, options)
        return None
    return returned(found._allgather_base(output_tensor, input_tensor, options), async_op)


@folds
def reduce_scatter(
    output: Tensor,
    input_list: list[Tensor],
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Reduce each entry of a list over the members; member i gets the reduction of entry i.

    Raises  ValueError if there is no group, or input_list does not have one tensor per member;
            CollectiveError if a member is lost, did not call in time or called another collective

    Args:
        output: Written; it has the size of `input_list[rank]`.
        input_list: One tensor per member. Sizes may differ.
        op: The reduction, such as ReduceOp.SUM.
        group: The group; the default group if None.
        async_op: Whether to return a Work without waiting for the result.

    Returns:
        A Work if async_op is true, otherwise None.

    Example:
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> x = torch.zeros(2)
        >>> dist.reduce_scatter(x, [torch.ones(2)])
        >>> x
        tensor([1., 1.])
        >>> dist.destroy_process_group()
    """
    found = member_group("reduce_scatter", group)
    if found is None:
        return None
    require_list("input_list", input_list)
    options = ReduceScatterOptions(reduceOp=op, asyncOp=async_op)
    return returned(found.reduce_scatter([output], [input_list], options), async_op)


@folds
def reduce_scatter_tensor(
    output: Tensor,
    input: Tensor,
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Reduce a tensor over the members; member i gets part i of the result.

    Args:
        output: Written; of shape (n, ...).
        input: Read; of shape (members * n, ...) or (members, n, ...).
        op: The reduction, such as ReduceOp.SUM.
        group: The group; the default group if None.
        async_op: Whether to return a Work without waiting for the result.
    """
    found = member_group("reduce_scatter_tensor", group)
    if found is None:
        return None
    options = ReduceScatterOptions(reduceOp=op, asyncOp=async_op)
    if found._coalesced is not None:
        note(found, reduce_scatter_tensor, input, output, options)
        return None
    return returned(found._reduce_scatter_base(output, input, options), async_op)


@folds
def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Send rows of a tensor to each member, and fill another tensor with the received rows.

    Args:
        output: Written; the rows of member 0 come first, then those of member 1, and so on.
        input: Read; the rows for member 0 come first, then those for member 1, and so on.
        output_split_sizes: The number of rows from each member; equal parts if None.
        input_split_sizes: The number of rows to each member; equal parts if None.
        group: The group; the default group if None.
        async_op: Whether to return a Work without waiting for the result.
    """
    found = member_group("all_to_all_single", group)
    if found is None:
        return None
    work = found.alltoall_base(
        output, input, output_split_sizes, input_split_sizes, AllToAllOptions(asyncOp=async_op)
    )
    return returned(work, async_op)


@folds
def all_to_all(
    output_tensor_list: list[Tensor],
    input_tensor_list: list[Tensor],
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Send one tensor to each member, and fill a list with the tensors that this member receives.

    Raises  ValueError if there is no group, or a list does not have one tensor per member;
            CollectiveError if a member is lost, did not call in time or called another collective

    Args:
        output_tensor_list: One tensor per sender, ordered by rank, to be filled.
        input_tensor_list: One tensor per receiver, ordered by rank. Sizes may differ.
        group: The group; the default group if None.
        async_op: Whether to return a Work without waiting for the result.

    Returns:
        A Work if async_op is true, otherwise None.

    Example:
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> parts = [torch.zeros(2)]
        >>> dist.all_to_all(parts, [torch.ones(2)])
        >>> parts
        [tensor([1., 1.])]
        >>> dist.destroy_process_group()
    """
    found = member_group("all_to_all", group)
    if found is None:
        return None
    require_list("output_tensor_list", output_tensor_list)
    require_list("input_tensor_list", input_tensor_list)
    options = AllToAllOptions(asyncOp=async_op)
    return returned(found.alltoall(output_tensor_list, input_tensor_list, options), async_op)


@folds
def gather(
    tensor: Tensor,
    gather_list: list[Tensor] | None = None,
    dst: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Fill a list on one member with the tensors of all members.

    Raises  ValueError if there is no group, or gather_list does not have one tensor per member;
            CollectiveError if a member is lost, did not call in time or called another collective

    Args:
        tensor: The tensor of this member.
        gather_list: On member `dst`, one tensor per member, to be filled; None on other members.
        dst: The global rank of the member with the list; 0 by default.
        group: The group; the default group if None.
        async_op: Whether to return a Work without waiting for the result.
        group_dst: The rank of dst in the group, instead of dst; None if dst is given.

    Returns:
        A Work if async_op is true, otherwise None.

    Example:
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> parts = [torch.zeros(2)]
        >>> dist.gather(torch.ones(2), parts, dst=0)
        >>> parts
        [tensor([1., 1.])]
        >>> dist.destroy_process_group()
    """
    found = member_group("gather", group)
    if found is None:
        return None
    root = rank_in(found, "gather", dst, group_dst, 0)
    if root == found.rank():
        if not gather_list:
            raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
    elif gather_list:
        raise ValueError("Argument ``gather_list`` must NOT be specified on non-destination ranks.")
    options = GatherOptions(rootRank=root, asyncOp=async_op)
    return returned(found.gather([gather_list or []], [tensor], options), async_op)


@folds
def scatter(
    tensor: Tensor,
    scatter_list: list[Tensor] | None = None,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Fill the tensor of each member i with entry i of one member's list.

    Raises  ValueError if there is no group, or scatter_list does not have one tensor per member;
            CollectiveError if a member is lost, did not call in time or called another collective

    Args:
        tensor: The tensor to fill.
        scatter_list: On member `src`, one tensor per member; None on other members.
        src: The global rank of the member with the list; 0 by default.
        group: The group; the default group if None.
        async_op: Whether to return a Work without waiting for the result.
        group_src: The rank of src in the group, instead of src; None if src is given.

    Returns:
        A Work if async_op is true, otherwise None.

    Example:
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> x = torch.zeros(2)
        >>> dist.scatter(x, [torch.ones(2)], src=0)
        >>> x
        tensor([1., 1.])
        >>> dist.destroy_process_group()
    """
    found = member_group("scatter", group)
    if found is None:
        return None
    root = rank_in(found, "scatter", src, group_src, 0)
    if root == found.rank():
        if not scatter_list:
            raise ValueError("Argument ``scatter_list`` must be specified on source rank.")
    elif scatter_list:
        raise ValueError("Argument ``scatter_list`` must NOT be specified on non-source ranks.")
    options = ScatterOptions(rootRank=root, asyncOp=async_op)
    return returned(found.scatter([tensor], [scatter_list or []], options), async_op)


@folds
def barrier(
    group: Any = None,
    async_op: bool = False,
    device_ids: Any = None,
    timeout: timedelta | None = None,
) -> Work | None:
    """Wait until all members of a group have called barrier().

    Raises  ValueError if there is no default group, or `group` is not a process group;
            CollectiveError if a member is lost, did not call in time or called another collective

    Args:
        group: The group; the default group if None.
        async_op: Whether to return a Work without waiting for the result.
        device_ids: The GPU on which an NCCL barrier runs, as a list; this process's GPU if None.
        timeout: The longest wait; the group's timeout by default.

    Returns:
        A Work if async_op is true, otherwise None.

    Example:
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> dist.barrier()
        >>> dist.destroy_process_group()
    """
    found = member_group("barrier", group)
    if found is None:
        return None
    if device_ids is not None and not isinstance(device_ids, list):
        raise TypeError("Invalid function argument: device_ids type should be List[int]")
    options = BarrierOptions(asyncOp=async_op, device_ids=device_ids, timeout=timeout)
    return returned(found.barrier(options), async_op)


def _as_real(tensor: Any) -> Any:
    is_complex = isinstance(tensor, Tensor) and tensor._layout.dtype.numpy.kind == "c"
    return Tensor.view_as_real(tensor) if is_complex else tensor


@folds
def monitored_barrier(
    group: Any = None, timeout: timedelta | None = None, wait_all_ranks: bool = False
) -> None:
    """Wait until all members have called this function; rank 0's error names missing members.

    Raises  RuntimeError on rank 0, if some members did not call in time, and on other members, if
            rank 0 reported missing members, or did not call this function

    Args:
        group: The group; the default group if None.
        timeout: The longest wait; the group's timeout by default.
        wait_all_ranks: Whether rank 0's error names all missing members, and not only the first.
    """
    found = member_group("monitored_barrier", group)
    if found is not None:
        wait_for_members(found, timeout, wait_all_ranks)
