"""Sends and receives between two members: the public functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.folded_frames import folds
from ...tensor.tensor import Tensor
from .group_base import GroupBase
from .point_to_point import Messages
from .ranks import rank_in
from .work import Work, wait_for
from .world import default_group, member_group


@folds
def send(
    tensor: Tensor,
    dst: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> None:
    """Send a tensor to one member; return when the tensor may be changed.

    Raises  ValueError if the receiver is this process, or not in the group; CollectiveError if the
            receiver is lost, did not call in time, or expects another dtype or size

    Args:
        tensor: The tensor to send.
        dst: The global rank of the receiver; None if group_dst is given.
        group: The group of both members; the default group if None.
        tag: A number that distinguishes messages; the receiver must pass the same tag.
        group_dst: The rank of the receiver in the group, instead of dst; None if dst is given.

    Example with two processes: `dist.send(x, dst=1)` on rank 0, `dist.recv(x, src=0)` on rank 1.

    Example:
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> if dist.get_world_size() > 1:
        ...     dist.send(torch.ones(2), dst=1)
        >>> dist.destroy_process_group()
    """
    found = member_group("send", group)
    if found is not None:
        root = _other(found, "send", dst, group_dst)
        found.send([tensor], root, tag, is_async=False)


@folds
def isend(
    tensor: Tensor,
    dst: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> Work | None:
    """Start to send a tensor, and return a Work; do not change the tensor before the Work is done.

    Raises  ValueError if there is no default group, or the receiver is this process or not in the
            group; CollectiveError from wait() if the receiver is lost, did not call in time, or
            uses another dtype or size

    Args:
        tensor: The tensor to send; it may be changed when the Work is done.
        dst: The global rank of the receiver; None if group_dst is given.
        group: The group; the default group if None.
        tag: A number that distinguishes messages; the receiver must pass the same tag.
        group_dst: The rank of the receiver in the group, instead of dst; None if dst is given.

    Returns:
        A Work; its `wait()` returns when the tensor may be changed.

    Example:
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> if dist.get_world_size() > 1:
        ...     work = dist.isend(torch.ones(2), dst=1)
        >>> dist.destroy_process_group()
    """
    found = member_group("isend", group)
    if found is None:
        return None
    return found.send([tensor], _other(found, "isend", dst, group_dst), tag)


@folds
def recv(
    tensor: Tensor,
    src: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_src: int | None = None,
) -> int:
    """Fill a tensor with the next message of a member, and return the sender's global rank.

    Raises  ValueError if there is no default group, or the sender is this process or not in the
            group; CollectiveError if the sender is lost, did not call in time, or sent another
            dtype or size

    Args:
        tensor: The tensor to fill, with the dtype and size of the sent tensor.
        src: The global rank of the sender; None receives from any member.
        group: The group of both members; the default group if None.
        tag: The tag of the sender's call.
        group_src: The rank of the sender in the group, instead of src; None if src is given.

    Returns:
        The sender's global rank; -1 if this process is not in the group.

    Example:
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> x = torch.zeros(2)
        >>> if dist.get_world_size() > 1:
        ...     dist.recv(x, src=1)
        >>> dist.destroy_process_group()
    """
    found = member_group("recv", group)
    if found is None:
        return -1
    root = _sender(found, "recv", src, group_src)
    if root is None and _is_foreign(found):
        work: Any = found.recv_anysource([tensor], tag)
        wait_for(work)
    else:
        work = found.recv([tensor], root, tag, is_async=False)
    return src if src is not None else int(work._source_rank())


@folds
def irecv(
    tensor: Tensor,
    src: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_src: int | None = None,
) -> Work | None:
    """Start to receive, and return a Work; do not read the tensor before the Work is done.

    Raises  ValueError if there is no default group, or the sender is this process or not in the
            group; CollectiveError from wait() if the sender is lost, did not call in time, or uses
            another dtype or size

    Args:
        tensor: The tensor to fill, with the shape and dtype of the sent tensor.
        src: The global rank of the sender; None receives from any member.
        group: The group; the default group if None.
        tag: The tag of the sender's call.
        group_src: The rank of the sender in the group, instead of src; None if src is given.

    Returns:
        A Work; its `wait()` returns when the tensor has been received.

    Example:
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> x = torch.zeros(2)
        >>> if dist.get_world_size() > 1:
        ...     work = dist.irecv(x, src=1)
        >>> dist.destroy_process_group()
    """
    found = member_group("irecv", group)
    if found is None:
        return None
    root = _sender(found, "irecv", src, group_src)
    if root is None:
        return found.recv_anysource([tensor], tag)
    return found.recv([tensor], root, tag)


def _is_foreign(group: Any) -> bool:
    return isinstance(group, GroupBase) and group.is_foreign


def _sender(group: Any, what: str, src: int | None, group_src: int | None) -> int | None:
    if src is None and group_src is None:
        return None
    return _other(group, what, src, group_src)


def _other(group: Any, what: str, global_rank: int | None, group_rank: int | None) -> int:
    """Return the group rank of another member.

    Raises  ValueError if the rank is that of this process or of no member, or both or neither of
            global_rank and group_rank are given
    """
    root = rank_in(group, what, global_rank, group_rank, None)
    if root == group.rank():
        kind = "destination" if what in ("send", "isend") else "source"
        raise ValueError(
            f"Invalid {kind} rank: {kind} rank should not be the same as the rank of the current "
            "process."
        )
    return root


class P2POp:
    """A send or a receive, as an argument of batch_isend_irecv.

    Args:
        op: The function isend or irecv.
        tensor: The tensor that is sent or filled.
        peer: The global rank of the other member.
        group: The group of both members; the default group if None.
        tag: See send.
        group_peer: The group rank of the other member, instead of peer.
    """

    def __init__(
        self,
        op: Callable[..., Any],
        tensor: Tensor,
        peer: int | None = None,
        group: Any = None,
        tag: int = 0,
        group_peer: int | None = None,
    ) -> None:
        if op not in (isend, irecv):
            raise ValueError(
                "Invalid ``op``. Expected ``op`` to be of type ``torch.distributed.isend`` or "
                "``torch.distributed.irecv``."
            )
        if not isinstance(tensor, Tensor):
            raise TypeError(
                "Invalid function argument. Expected parameter `tensor` of type torch.Tensor but "
                f"got {type(tensor)} instead."
            )
        self.op, self.tensor, self.tag = op, tensor, tag
        self.group: Any = default_group() if group is None else group
        is_member = isinstance(self.group, GroupBase)
        self.group_peer = (
            rank_in(self.group, op.__name__, peer, group_peer, None) if is_member else -1
        )
        self.peer: int = self.group._ranks[self.group_peer] if is_member else -1

    def __repr__(self) -> str:
        layout = self.tensor._layout
        return f"P2POp({self.op.__name__} peer={self.peer}, {layout.shape}, {layout.dtype})"


P2POp.__module__ = "fastdist.distributed.distributed_c10d"


@folds
def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Work]:
    """Start several sends and receives in parallel, and return their Works.

    Operations on GPUs start together and share one Work. The first batch or collective of a group
    must be called by all members.

    Raises  ValueError if an entry is not a P2POp, or the entries belong to different groups

    Args:
        p2p_op_list: The P2POps, each of isend or irecv, with a tensor and a peer.
    """
    if not all(isinstance(one, P2POp) for one in p2p_op_list):
        raise ValueError(
            "Invalid ``p2p_op_list``. Each op is expected to to be of type "
            "``torch.distributed.P2POp``."
        )
    if any(one.group is not p2p_op_list[0].group for one in p2p_op_list):
        raise ValueError("All ops need to use the same group.")
    group: Any = p2p_op_list[0].group if p2p_op_list else None
    if isinstance(group, Messages) and not group.is_foreign:
        messages = [(one.op is isend, one.tensor, one.group_peer) for one in p2p_op_list]
        together = group._start_batch(messages)
        if together is not None:
            return [together]
    works = []
    for one in p2p_op_list:
        name = "group_dst" if one.op is isend else "group_src"
        work = one.op(one.tensor, group=one.group, tag=one.tag, **{name: one.group_peer})
        if work is not None:
            works.append(work)
    return works
