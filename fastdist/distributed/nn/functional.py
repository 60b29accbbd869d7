"""Collectives that return their results, with forward and reverse derivatives and vmap.

The result of a collective depends on the inputs of all members. All members must make the same
calls in the same order, and all must run their backward passes. See
Note [Collectives as linear functions] in collective.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from ...core.errors import ShapeError
from ...core.folded_frames import fold_public
from ...core.missing import explain_missing
from ...interpreters.batched_tensor import Batched
from ...ops.shape.joining import cat, stack
from ...tensor.tensor import Tensor
from .. import distributed_c10d as c10d
from .collective import (
    AllGather,
    Broadcast,
    Exchange,
    Gather,
    Received,
    Reduced,
    ReducedAt,
    ReduceScatter,
    Scatter,
    Sent,
    carried,
)

__all__ = [
    "all_gather", "all_reduce", "all_to_all", "all_to_all_single", "broadcast", "gather", "recv",
    "reduce", "reduce_scatter", "scatter", "send",
]  # fmt: skip

ReduceOp = c10d.ReduceOp


def all_reduce(tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """Return, on all members, the reduction of all members' tensors.

    SUM, AVG and PREMUL_SUM are linear. PRODUCT, MIN and MAX have the derivatives of `prod`, `amin`
    and `amax` of the stacked tensors, so equal minima or maxima share the gradient. The other
    reductions apply to integers, and have no derivatives.

    Raises  CollectiveError if a member was lost, or called another collective

    Args:
        tensor: The input, with the same shape and dtype on all members.
        op: A ReduceOp.
        group: The group; the default group if None.
    """
    kind = getattr(op, "op", op)
    if kind == ReduceOp.SUM:
        return _sum(tensor, group)
    if kind == ReduceOp.AVG:
        return _sum(tensor, group) / c10d.get_world_size(group)
    if kind == ReduceOp.PREMUL_SUM:
        return _sum(tensor * op.factor, group)
    if not tensor.is_floating_point():
        return carried(tensor, Reduced(group, op))
    gathered = carried(tensor, AllGather(group))
    if kind == ReduceOp.MAX:
        return gathered.amax(0)
    if kind == ReduceOp.MIN:
        return gathered.amin(0)
    if kind == ReduceOp.PRODUCT:
        return gathered.prod(0)
    return carried(tensor, Reduced(group, op))  # raises: the op is unknown, or not for floats


def reduce(tensor: Tensor, dst: int, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """Return the reduction of all members' tensors on member `dst`, and zeros on other members.

    Raises  NotImplementedError if `op` is a different reduction (use all_reduce())

    Args:
        tensor: The input, with the same shape and dtype on all members.
        dst: A global rank.
        op: SUM, AVG or PREMUL_SUM.
        group: The group; the default group if None.
    """
    kind, root = getattr(op, "op", op), _member(group, dst)
    if kind == ReduceOp.PREMUL_SUM:
        tensor = tensor * op.factor
    elif kind not in (ReduceOp.SUM, ReduceOp.AVG):
        raise NotImplementedError(
            f"reduce with {kind} has no derivatives: call all_reduce(), which has, or "
            "distributed.reduce()"
        )
    total = carried(tensor, ReducedAt(group, root))
    return total / c10d.get_world_size(group) if kind == ReduceOp.AVG else total


def broadcast(tensor: Tensor, src: int, group: Any = None) -> Tensor:
    """Return, on all members, the tensor of member `src`.

    Args:
        tensor: On `src`, the tensor to send; on other members, any tensor of that shape and dtype.
        src: A global rank.
        group: The group; the default group if None.
    """
    return carried(tensor, Broadcast(group, _member(group, src)))


def all_gather(tensor: Tensor, group: Any = None) -> tuple[Tensor, ...]:
    """Return, on all members, the tensors of all members.

    Args:
        tensor: The input, with the same shape and dtype on all members.
        group: The group; the default group if None.
    """
    return carried(tensor, AllGather(group)).unbind(0)


def gather(tensor: Tensor, dst: int = 0, group: Any = None) -> tuple[Tensor, ...]:
    """Return all members' tensors on member `dst`, and as many tensors of zeros on other members.

    Args:
        tensor: The input, with the same shape and dtype on all members.
        dst: A global rank.
        group: The group; the default group if None.
    """
    found = carried(tensor, Gather(group, _member(group, dst)))
    return found.unbind(0)


def scatter(tensors: Sequence[Tensor], src: int = 0, group: Any = None) -> Tensor:
    """Return, on member i, tensor i of the list of member `src`.

    Args:
        tensors: One tensor per member, all of one shape. Only the values on `src` are used.
        src: A global rank.
        group: The group; the default group if None.
    """
    return carried(_stacked(tensors, group), Scatter(group, _member(group, src)))


def reduce_scatter(
    output: Tensor, input_list: Sequence[Tensor], op: Any = ReduceOp.SUM, group: Any = None
) -> Tensor:
    """Return, on member i, the reduction of tensor i in the lists of all members.

    Args:
        output: Receives a copy of the result.
        input_list: One tensor per member, all of one shape.
        op: A ReduceOp.
        group: The group; the default group if None.
    """
    return _placed(output, reduced_part(_stacked(input_list, group), op, group))


def reduced_part(parts: Tensor, op: Any, group: Any) -> Tensor:
    """Return, on member i, the reduction of `parts[i]` of all members."""
    kind = getattr(op, "op", op)
    if kind == ReduceOp.PREMUL_SUM:
        parts = parts * op.factor
    elif kind not in (ReduceOp.SUM, ReduceOp.AVG):
        return all_reduce(parts, op, group)[c10d.get_rank(group)]
    total = carried(parts, ReduceScatter(group))
    return total / c10d.get_world_size(group) if kind == ReduceOp.AVG else total


def all_to_all(
    output_tensor_list: Sequence[Tensor], input_tensor_list: Sequence[Tensor], group: Any = None
) -> tuple[Tensor, ...]:
    """Return the tensors that the members send to this one.

    Args:
        output_tensor_list: For each sender, a tensor with the shape of the tensor that the sender
            sends; it gets a copy of the received values.
        input_tensor_list: The tensors to send, one to each member.
        group: The group; the default group if None.
    """
    sent = [tensor.numel() for tensor in input_tensor_list]
    received = [tensor.numel() for tensor in output_tensor_list]
    rows = cat([tensor.reshape(-1) for tensor in input_tensor_list])
    came = carried(rows, Exchange(group, sent, received))
    ends = accumulate(received)
    return tuple(
        [
            _placed(like, came[end - count : end].reshape(like.shape))
            for like, count, end in zip(output_tensor_list, received, ends, strict=True)
        ]
    )


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Any = None,
) -> Tensor:
    """Return the rows that all members send to this one, ordered by the rank of the sender.

    Raises  ShapeError if the rows cannot be divided evenly, or their number differs from the sizes'
            sum

    Args:
        output: Receives a copy of the result.
        input: The rows to send, along the first axis, ordered by the rank of the receiver.
        output_split_sizes: The number of rows from each member; equal parts if None.
        input_split_sizes: The number of rows to each member; equal parts if None.
        group: The group; the default group if None.
    """
    sent = split_sizes("input", input.shape, input_split_sizes, group)
    received = split_sizes("output", output.shape, output_split_sizes, group)
    return _placed(output, carried(input, Exchange(group, sent, received)))


def send(tensor: Tensor, dst: int, group: Any = None, tag: int = 0) -> Tensor:
    """Send a tensor to member dst; return an empty tensor for the backward pass.

    The gradient comes back from `dst` when a backward pass reaches the returned tensor. So add the
    sum of the returned tensor, which is 0, to the loss. The order of calls must match: `dst` must
    call `recv` at the corresponding place in its program.

    Args:
        tensor: The tensor to send.
        dst: A global rank.
        group: The group; the default group if None.
        tag: Distinguishes messages between the same members.
    """
    layout = tensor._layout
    return carried(tensor, Sent(group, layout.shape, _member(group, dst), tag))


def recv(tensor: Tensor, src: int, group: Any = None, tag: int = 0) -> Tensor:
    """Return the tensor that member src sends by `send`.

    Args:
        tensor: A tensor with the shape and dtype of the sent tensor; its values are not read. It
            must require a gradient if the sent tensor does, and have a tangent if the sent tensor
            has one. Then the same is true of the result.
        src: A global rank.
        group: The group; the default group if None.
        tag: The tag of the sender's call.
    """
    shape = tensor.shape
    none = tensor.reshape(-1)[:0]
    return carried(none, Received(group, tuple(shape), _member(group, src), tag))


def _sum(tensor: Tensor, group: Any) -> Tensor:
    return carried(tensor, Reduced(group, ReduceOp.SUM))


def _member(group: Any, rank: int) -> int:
    return c10d.get_group_rank(group or c10d.group.WORLD, rank)


def _stacked(tensors: Sequence[Tensor], group: Any) -> Any:
    size = c10d.get_world_size(group)
    if len(tensors) != size:
        raise ShapeError(
            f"there are {len(tensors)} tensors, expected one for each of {size} members"
        )
    return stack(list(tensors))


def split_sizes(
    what: str, shape: Sequence[int], sizes: Sequence[int] | None, group: Any
) -> list[int]:
    """Return the number of rows that a tensor has for each member: `sizes`, or equal parts.

    Raises  ShapeError if the rows cannot be divided evenly, or their number differs from the sizes'
            sum
    """
    count = c10d.get_world_size(group)
    rows = shape[0] if shape else 0
    if not sizes:
        if rows % count:
            raise ShapeError(
                f"{what} has {rows} rows, which {count} members cannot share evenly: give "
                f"{what}_split_sizes"
            )
        return [rows // count] * count
    if len(sizes) != count or sum(sizes) != rows or min(sizes) < 0:
        raise ShapeError(
            f"{what}_split_sizes is {list(sizes)}; expected {count} sizes that sum to {rows}"
        )
    return list(sizes)


def _placed(output: Tensor, found: Tensor) -> Tensor:
    """Return `found`; copy its values to `output`, unless it is a batch or has another shape."""
    if not isinstance(found, Batched) and output.shape == found.shape:
        output.detach().copy_(found.detach())
    return found


fold_public(__name__)
explain_missing(__name__)
