"""Collectives on Python objects, under the same rules as RPC messages."""

from __future__ import annotations

from typing import Any

import pytest

import fastdist as fd
from fastdist import distributed as dist
from fastdist import nn
from fastdist.core.errors import ForbiddenFunctionError, MessageError, RpcError
from fastdist.distributed import rpc
from fastdist.distributed.process_group.object_bytes import pack, unpack
from tests.distributed.process_group.thread_members import run_members


class Point:
    def __init__(self, x: int) -> None:
        self.x = x


def test_objects_of_all_shapes_reach_all_members() -> None:
    def member(rank: int) -> list[Any]:
        own = {"rank": rank, "t": fd.full((rank,), 2.0), "n": None, "text": "ä" * rank}
        gathered: list[Any] = [None] * 3
        dist.all_gather_object(gathered, own)
        to_one: list[Any] | None = [None] * 3 if rank == 1 else None
        dist.gather_object([rank], to_one, dst=1)
        sent = [Point(5), (1, 2)] if rank == 2 else [None, None]
        dist.broadcast_object_list(sent, src=2)
        part: list[Any] = [None]
        dist.scatter_object_list(
            part, [f"for {r}" * (r + 1) for r in range(3)] if rank == 0 else None
        )
        if rank == 0:
            dist.send_object_list(["a", {"b": fd.ones(2)}], 2)
        received: list[Any] = [None, None]
        if rank == 2:
            assert dist.recv_object_list(received, 0) == 0
        assert [one["rank"] for one in gathered] == [0, 1, 2]
        assert [one["t"].tolist() for one in gathered] == [[], [2.0], [2.0, 2.0]]
        return [to_one, sent[0].x, sent[1], part[0], received[0]]

    assert run_members(3, member) == [
        [None, 5, (1, 2), "for 0", None],
        [[[0], [1], [2]], 5, (1, 2), "for 1" * 2, None],
        [None, 5, (1, 2), "for 2" * 3, "a"],
    ]


def test_a_receiver_of_any_learns_the_sender() -> None:
    def member(rank: int) -> Any:
        if rank == 0:
            dist.send_object_list([1], 1)
            return None
        found: list[Any] = [None]
        return dist.recv_object_list(found), found

    assert run_members(2, member)[1] == (0, [1])


def test_what_does_not_pickle_is_named_before_anything_is_sent() -> None:
    def member(rank: int) -> None:
        with pytest.raises(RpcError, match=r"cannot send obj.* to another worker"):
            dist.all_gather_object([None, None], {"f": lambda: 0})
        for words, call in (
            ("has 1 entries; the group has 2", lambda: dist.all_gather_object([None], 1)),
            ("list of size at least 1", lambda: dist.scatter_object_list([], [1, 2])),
        ):
            with pytest.raises(ValueError, match=words):
                call()
        if rank == 0:
            with pytest.raises(ValueError, match="must be specified on destination"):
                dist.gather_object(1)
            with pytest.raises(ValueError, match="provide non-None scatter_object_input_list"):
                dist.scatter_object_list([None])
        else:
            with pytest.raises(ValueError, match="must NOT be specified"):
                dist.gather_object(1, [None, None])
        assert dist.group.WORLD._carriers["threads"].names == []

    run_members(2, member)


def test_tensors_keep_dtype_shape_and_whether_they_are_parameters() -> None:
    for dtype in (fd.bfloat16, fd.bool, fd.complex64, fd.float64):
        one = unpack(pack([fd.ones(2, 3, dtype=dtype).t()]))[0]
        assert one.dtype is dtype and one.shape == (3, 2)
    layer = nn.Linear(2, 2)
    copy = unpack(pack(layer))
    assert isinstance(copy.weight, nn.Parameter) and copy.weight.requires_grad
    assert copy.weight.tolist() == layer.weight.tolist()
    assert unpack(pack(fd.ones(1, requires_grad=True))).requires_grad
    assert unpack(pack(None)) is None


def test_broken_bytes_are_refused() -> None:
    whole = pack({"a": fd.ones(3)})
    for broken in (b"", whole[:10], whole[:-4], whole.replace(b"[[", b"[9")):
        with pytest.raises(MessageError):
            unpack(broken)


def test_strict_mode_decides_which_classes_others_may_send() -> None:
    data = pack(Point(3))
    assert unpack(data).x == 3
    from fastdist.distributed.rpc.message import gate

    before = gate._mode
    try:
        gate._mode = gate.STRICT
        with pytest.raises(ForbiddenFunctionError, match="strict mode"):
            unpack(data)
        assert unpack(pack([1, fd.ones(2)]))[0] == 1
    finally:
        gate._mode = before
    assert rpc is not None
