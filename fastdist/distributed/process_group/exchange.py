"""The functions that programs call: sends and receives between two members."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...tensor.tensor import Tensor
from .group_base import GroupBase
from .point_to_point import Messages
from .ranks import rank_in
from .work import Work, wait_for
from .world import default_group, member_group


def send(
    tensor: Tensor,
    dst: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> None:
    """Send a tensor to one member; return when it may be changed.

    Args:
        tensor: The numbers to send.
        dst: The global rank of the receiver.
        group: The group of both; the default group if None.
        tag: A number that the receiver gives as well, to tell messages apart.
        group_dst: The rank of the receiver in the group, in place of dst.

    Raises:
        ValueError: The receiver is this process, or is not in the group.
        CollectiveError: The receiver is lost, too late, or expects another dtype or size.

    Two processes: `dist.send(x, dst=1)` on rank 0 meets `dist.recv(x, src=0)` on rank 1.

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


def isend(
    tensor: Tensor,
    dst: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> Work | None:
    """Begin to send a tensor, and return the Work to wait for before it is changed; see send.

    Args:
        tensor: The tensor to send; it may be changed once the Work is done.
        dst: The global rank of the receiver.
        group: The members; the default group if None.
        tag: A number that the receive has as well.
        group_dst: The rank of the receiver in the group, in place of dst.

    Returns:
        A Work: `wait()` returns once the tensor may be changed.

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


def recv(
    tensor: Tensor,
    src: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_src: int | None = None,
) -> int:
    """Fill a tensor with the next message of a member, and return the sender's global rank.

    Args:
        tensor: Written; of the dtype and size of what was sent.
        src: The global rank of the sender; None receives from any.
        group: The group of both; the default group if None.
        tag: The tag that the sender gave.
        group_src: The rank of the sender in the group, in place of src.

    Returns:
        The sender's global rank; -1 outside of the group.

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


def irecv(
    tensor: Tensor,
    src: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_src: int | None = None,
) -> Work | None:
    """Begin to receive, and return the Work to wait for before the tensor is read; see recv.

    Args:
        tensor: Written; of the shape and dtype of what is sent.
        src: The global rank of the sender; any if None.
        group: The members; the default group if None.
        tag: A number that the send has as well.
        group_src: The rank of the sender in the group, in place of src.

    Returns:
        A Work: `wait()` returns once the tensor is there.

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
    """Return another member's rank in the group.

    Raises:
        ValueError: It is this process, not in the group, or given twice or not at all.
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
    """A send or a receive for batch_isend_irecv.

    Args:
        op: The function isend or irecv.
        tensor: The tensor that is sent or filled.
        peer: The other's global rank.
        group: The group of both; the default group if None.
        tag: See send.
        group_peer: The other's rank in the group, in place of peer.
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


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Work]:
    """Begin several sends and receives, and return their Works; none waits for another.

    Those of GPUs begin together and have one Work; all members of the group make their first batch
    or collective together.

    Raises:
        ValueError: An entry is not a P2POp, or they have several groups.
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
