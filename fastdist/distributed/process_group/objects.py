"""Collectives on Python objects: the public functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.device import CPU
from ...core.folded_frames import folds
from ...tensor.tensor import Tensor, from_array
from .object_bytes import pack, unpack
from .options import AllgatherOptions, BroadcastOptions, GatherOptions, ScatterOptions
from .ranks import rank_in
from .world import member_group


@folds
def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Fill a list on all members with one object from each member.

    Raises  RpcError if the object cannot be pickled, before anything is sent;
            ForbiddenFunctionError if RPC's strict mode does not allow a class of an object;
            ValueError if there is no default group, or group is not a group

    Args:
        object_list: The list to fill, with one entry per member; entry i is from rank i.
        obj: The object of this member; it must be picklable.
        group: The group; the default group if None.

    Note: only processes that hold the secret of the job can send objects, and RPC's strict mode
    applies to the objects.

    Example:
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> found = [None]
        >>> dist.all_gather_object(found, {"rank": 0})
        >>> found
        [{'rank': 0}]
        >>> dist.destroy_process_group()
    """
    found = member_group("all_gather_object", group)
    if found is None:
        return
    found = found._for_objects()
    _require_length("object_list", object_list, found.size())
    own = np.frombuffer(pack(obj, "obj"), np.uint8)
    sizes = _sizes_of_all(found, own.size)
    rooms = [_room(size) for size in sizes]
    found.allgather([rooms], [_bytes_tensor(own)], AllgatherOptions(asyncOp=False))
    object_list[: found.size()] = [unpack(room._array) for room in rooms]


@folds
def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: Any = None,
    group_dst: int | None = None,
) -> None:
    """Fill a list on one member with one object from each member.

    Args:
        obj: The object of this member; it must be picklable.
        object_gather_list: On dst, the list to fill, with one entry per member; None on others.
        dst: The global rank of the member with the list; 0 by default.
        group: The group; the default group if None.
        group_dst: The rank of dst in the group, instead of dst; None if dst is given.
    """
    found = member_group("gather_object", group)
    if found is None:
        return
    found = found._for_objects()
    root = rank_in(found, "gather_object", dst, group_dst, 0)
    is_root = root == found.rank()
    if is_root and not object_gather_list:
        raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
    if not is_root and object_gather_list:
        raise ValueError("Argument ``gather_list`` must NOT be specified on non-destination ranks.")
    if is_root:
        assert object_gather_list is not None
        _require_length("object_gather_list", object_gather_list, found.size())
    own = np.frombuffer(pack(obj, "obj"), np.uint8)
    sizes = _sizes_of_all(found, own.size)
    padded = np.zeros(max(sizes), np.uint8)
    padded[: own.size] = own
    rooms = [_room(padded.size) for _ in sizes] if is_root else []
    options = GatherOptions(rootRank=root, asyncOp=False)
    found.gather([rooms], [_bytes_tensor(padded)], options)
    if object_gather_list is not None and is_root:
        object_gather_list[: found.size()] = [
            unpack(room._array[:size]) for room, size in zip(rooms, sizes)
        ]


@folds
def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
) -> None:
    """Replace the objects of a list on all members by those of one member.

    Raises  ValueError if there is no default group, or the root is not in the group; RpcError if an
            object cannot be pickled, before anything is sent; CollectiveError if a member is lost,
            did not call in time, or called another collective

    Args:
        object_list: On src, the objects to send; on other members, a list of the same length,
            which is filled.
        src: The global rank of the sender; 0 by default.
        group: The group; the default group if None.
        device: Ignored: objects are sent from CPU memory.
        group_src: The rank of src in the group, instead of src; None if src is given.

    Example:
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> values = ["settings"]
        >>> dist.broadcast_object_list(values, src=0)
        >>> dist.destroy_process_group()
    """
    found = member_group("broadcast_object_list", group)
    if found is None:
        return
    found = found._for_objects()
    root = rank_in(found, "broadcast_object_list", src, group_src, 0)
    options = BroadcastOptions(rootRank=root, asyncOp=False)
    is_root = root == found.rank()
    parts = [pack(obj, "object_list") for obj in object_list] if is_root else []
    sizes = np.zeros(len(object_list), np.int64)
    if is_root:
        sizes[:] = [len(part) for part in parts]
    found.broadcast([from_array(sizes, CPU)], options)
    joined = np.frombuffer(b"".join(parts), np.uint8).copy() if is_root else _empty(sizes.sum())
    found.broadcast([from_array(joined, CPU)], options)
    if not is_root:
        object_list[:] = _unpack_all(joined, sizes)


@folds
def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: Any = None,
    group_src: int | None = None,
) -> None:
    """Send one object of a member's list to each member.

    Args:
        scatter_object_output_list: A list with at least one entry; the received object replaces
            the first one.
        scatter_object_input_list: On src, one object per member.
        src: The global rank of the member with the list; 0 by default.
        group: The group; the default group if None.
        group_src: The rank of src in the group, instead of src; None if src is given.
    """
    found = member_group("scatter_object_list", group)
    if found is None:
        return
    found = found._for_objects()
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise ValueError(
            "Expected argument scatter_object_output_list to be a list of size at least 1."
        )
    root = rank_in(found, "scatter_object_list", src, group_src, 0)
    is_root = root == found.rank()
    parts: list[bytes] = []
    if is_root:
        if scatter_object_input_list is None:
            raise ValueError("source rank must provide non-None scatter_object_input_list")
        _require_length("scatter_object_input_list", scatter_object_input_list, found.size())
        parts = [pack(obj, "scatter_object_input_list") for obj in scatter_object_input_list]
    sizes = np.array([len(part) for part in parts] or [0] * found.size(), np.int64)
    found.broadcast([from_array(sizes, CPU)], BroadcastOptions(rootRank=root, asyncOp=False))
    inputs = []
    for part in parts:
        padded = _empty(sizes.max())
        padded[: len(part)] = np.frombuffer(part, np.uint8)
        inputs.append(from_array(padded, CPU))
    room = _room(int(sizes.max()))
    found.scatter([room], [inputs], ScatterOptions(rootRank=root, asyncOp=False))
    scatter_object_output_list[0] = unpack(room._array[: sizes[found.rank()]])


@folds
def send_object_list(
    object_list: list[Any],
    dst: int | None = None,
    group: Any = None,
    device: Any = None,
    group_dst: int | None = None,
    use_batch: bool = False,
) -> None:
    """Send the objects of a list to one member, which must call recv_object_list.

    Args:
        object_list: The objects to send; each must be picklable.
        dst: The global rank of the receiver.
        group: The group of both members; the default group if None.
        device: Ignored: objects are sent from CPU memory.
        group_dst: The rank of the receiver in the group, instead of dst; None if dst is given.
        use_batch: Ignored: it has no effect here.
    """
    found = member_group("send_object_list", group)
    if found is None:
        return
    found = found._for_objects()
    to = rank_in(found, "send_object_list", dst, group_dst, None)
    parts = [pack(obj, "object_list") for obj in object_list]
    sizes = np.array([len(part) for part in parts], np.int64)
    found.send([from_array(sizes, CPU)], to, 0, is_async=False)
    found.send([_bytes_tensor(np.frombuffer(b"".join(parts), np.uint8))], to, 0, is_async=False)


@folds
def recv_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
    use_batch: bool = False,
) -> int:
    """Fill a list with the objects that a member sent, and return the sender's global rank.

    Args:
        object_list: The list to fill, with the length of the sent list.
        src: The global rank of the sender; None receives from any member.
        group: The group of both members; the default group if None.
        device: Ignored: objects are sent from CPU memory.
        group_src: The rank of the sender in the group, instead of src; None if src is given.
        use_batch: Ignored: it has no effect here.
    """
    found = member_group("recv_object_list", group)
    if found is None:
        return -1
    found = found._for_objects()
    is_any = src is None and group_src is None
    sender = None if is_any else rank_in(found, "recv_object_list", src, group_src, None)
    sizes = np.zeros(len(object_list), np.int64)
    work = found.recv([from_array(sizes, CPU)], sender, 0, is_async=False)
    rank = int(work.source_rank())
    joined = _empty(sizes.sum())
    found.recv([from_array(joined, CPU)], found._ranks.index(rank), 0, is_async=False)
    object_list[:] = _unpack_all(joined, sizes)
    return rank


def _sizes_of_all(group: Any, size: int) -> list[int]:
    sizes = from_array(np.zeros(group.size(), np.int64), CPU)
    own = from_array(np.array([size], np.int64), CPU)
    group._allgather_base(sizes, own, AllgatherOptions(asyncOp=False))
    return [int(one) for one in sizes._array]


def _unpack_all(joined: NDArray[Any], sizes: NDArray[Any]) -> list[Any]:
    ends = np.cumsum(sizes)
    return [unpack(joined[end - size : end]) for end, size in zip(ends, sizes)]


def _bytes_tensor(array: NDArray[Any]) -> Tensor:
    return from_array(array, CPU)


def _room(size: int) -> Tensor:
    return from_array(_empty(size), CPU)


def _empty(size: Any) -> NDArray[Any]:
    return np.empty(size, np.uint8)


def _require_length(name: str, given: Sequence[Any], size: int) -> None:
    if len(given) < size:
        raise ValueError(f"`{name}` has {len(given)} entries; the group has {size} members")
