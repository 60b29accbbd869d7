"""Sends and receives between two members, batches of them, and the monitored barrier."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import fastdist as fd
from fastdist import distributed as dist
from fastdist.core.errors import CollectiveMismatchError, CollectiveTimeoutError
from fastdist.distributed.process_group.carriers import QueueingCarrier
from tests.distributed.process_group.thread_members import run_members


def test_messages_of_a_pair_and_tag_come_in_order() -> None:
    def member(rank: int) -> list[Any]:
        if rank == 0:
            for step in range(3):
                dist.send(fd.full((2,), float(step)), 1)
            dist.send(fd.tensor(7.0), 1, tag=5)
            numbers = dist.group.WORLD._messages
            assert (numbers["send", 1, 0], numbers["send", 1, 5]) == (3, 1)
            return []
        x, late = fd.zeros(2), fd.tensor(0.0)
        assert dist.recv(late, 0, tag=5) == 0
        found = []
        for _ in range(3):
            assert dist.recv(x, src=0) == 0
            found.append(x[0].item())
        return [late.item(), *found]

    assert run_members(2, member)[1] == [7.0, 0.0, 1.0, 2.0]


def test_a_ring_of_sends_and_receives_begins_with_either() -> None:
    def member(rank: int) -> list[float]:
        x, y = fd.zeros(2), fd.zeros(2, 2).t()
        ops = [
            dist.P2POp(dist.irecv, x, (rank - 1) % 3),
            dist.P2POp(dist.isend, fd.full((2,), float(rank)), (rank + 1) % 3),
            dist.P2POp(dist.isend, fd.full((2, 2), rank + 10.0), group_peer=(rank + 2) % 3, tag=1),
            dist.P2POp(dist.irecv, y, (rank + 1) % 3, tag=1),
        ]
        for work in dist.batch_isend_irecv(ops):
            work.wait()
        return [x[0].item(), y[1, 0].item()]

    assert run_members(3, member) == [[(r - 1) % 3, (r + 1) % 3 + 10.0] for r in range(3)]


def test_a_receive_of_any_sender_says_who_it_was() -> None:
    def member(rank: int) -> Any:
        group = dist.new_group([1, 2])
        if rank == 2:
            x = fd.zeros(1)
            first = dist.recv(x)
            work: Any = dist.irecv(x)
            work.wait()
            assert {first, work.source_rank()} == {0, 1}
            assert dist.recv(x, group=group) == 1
            dist.send(x, 0)
            # A message received from any sender is counted for its actual sender.
            assert dist.recv(x, 0) == 0
            return x.item()
        dist.send(fd.ones(1), 2)
        if rank == 1:
            dist.send(fd.ones(1), 2, group=group)
        else:
            dist.recv(fd.zeros(1), 2)
            dist.send(fd.full((1,), 3.0), 2)
        return None

    assert run_members(3, member) == [None, None, 3.0]


def test_another_size_or_dtype_is_a_mismatch_and_silence_a_timeout() -> None:
    def member(rank: int) -> None:
        if rank == 0:
            dist.send(fd.ones(2), 1)
            return
        x = fd.zeros(3)
        with pytest.raises(CollectiveMismatchError, match="2 numbers for float32, 3"):
            dist.recv(x, 0)
        with pytest.raises(CollectiveTimeoutError, match="rank 0 sent nothing"):
            dist.recv(x, 0)
        assert x.tolist() == [0.0] * 3

    run_members(2, member, timeout=timedelta(milliseconds=30))


def test_wrong_arguments_are_refused() -> None:
    def member(rank: int) -> None:
        x, other = fd.ones(1), 1 - rank
        one, two = dist.new_group([0, 1]), dist.new_group([0, 1])
        for kind, words, call in (
            (ValueError, "destination rank should not be the same", lambda: dist.send(x, rank)),
            (ValueError, "source rank should not be the same", lambda: dist.recv(x, rank)),
            (ValueError, "invalid rank 7", lambda: dist.isend(x, group_dst=7)),
            (ValueError, "Must specify", lambda: dist.send(x)),
            (ValueError, "Expected ``op``", lambda: dist.P2POp(dist.send, x, other)),
            (TypeError, "Expected parameter `tensor`", lambda: dist.P2POp(dist.isend, 3, other)),
            (ValueError, "Invalid ``p2p_op_list``", lambda: dist.batch_isend_irecv([3])),
            (ValueError, "All ops need to use the same group", lambda: dist.batch_isend_irecv(
                [dist.P2POp(dist.isend, x, other, group) for group in (one, two)])),
        ):  # fmt: skip
            with pytest.raises(kind, match=words):
                call()
        assert f"isend peer={other}" in repr(dist.P2POp(dist.isend, x, other))

    run_members(2, member)


@pytest.mark.parametrize("waits", [False, True])
def test_a_monitored_barrier_names_who_did_not_come(waits: bool) -> None:
    def member(rank: int) -> str:
        dist.monitored_barrier()
        if rank in (1, 2):
            return ""
        with pytest.raises(RuntimeError) as found:
            dist.monitored_barrier(timeout=timedelta(milliseconds=60), wait_all_ranks=waits)
        return str(found.value)

    first, _, _, last = run_members(4, member)
    who = "Ranks 1, 2" if waits else "Rank 1"
    assert f"{who} failed to pass monitoredBarrier in 60 ms" in first
    assert "test_exchange.py:" in first
    assert last.startswith(
        "Rank 3 successfully reached monitoredBarrier, but received errors while waiting for "
        "send/recv from rank 0"
    )


def test_monitored_barriers_leave_one_answer_in_the_store() -> None:
    def member(rank: int) -> None:
        for _ in range(3):
            dist.monitored_barrier()
        dist.barrier()
        store = dist.PrefixStore("monitored_barrier", dist.group.WORLD.get_group_store())
        assert store.check(["2.answer"])
        for key in ("0.answer", "1.answer", "0.1", "1.1", "2.1"):
            assert not store.check([key])

    run_members(2, member)


@pytest.mark.parametrize("size", [1, 2])
def test_a_monitored_barrier_takes_seconds_and_one_member_alone_has_passed(size: int) -> None:
    def member(rank: int) -> str:
        text = ""
        if rank == 0:
            with pytest.warns(UserWarning, match=r"as a timedelta. Converting .* 0\.06 ass"):
                text = outcome()
        return text

    def outcome() -> str:
        try:
            dist.monitored_barrier(timeout=0.06)  # type: ignore[arg-type]
        except RuntimeError as error:
            return str(error)
        return "passed"

    found = run_members(size, member)[0]
    assert ("Rank 1 failed to pass monitoredBarrier in 60 ms" in found) == (size == 2)
    assert (found == "passed") == (size == 1)


def test_a_batch_for_gpus_is_checked_before_it_begins() -> None:
    class Carrier(QueueingCarrier):
        start = start_message = connect = abort = close = None  # type: ignore[assignment]

        def __init__(self) -> None:
            self.batches: list[Any] = []

        def start_batch(self, call: Any, messages: Any) -> Any:
            self.batches.append((call.name, call.agreed, call.line[:17], [*map(tuple, messages)]))
            return "work"

    group, carrier = dist.ProcessGroup(1, 3), Carrier()
    group._carriers["gloo"] = carrier
    x, wide = fd.ones(2), fd.ones(2, 1).expand(2, 3)
    for kind, words, message in (
        (RuntimeError, "single memory location", (False, wide, 0)),
        (TypeError, "sparse", (True, fd.sparse_coo_tensor([[0]], [1.0], (2,)), 0)),
        (ValueError, "isend: invalid rank 3; the group has ranks 0 to 2", (True, x, 3)),
        (ValueError, "irecv: invalid rank -1", (False, x, -1)),
        (ValueError, "destination rank should not be the same", (True, x, 1)),
        (ValueError, "source rank should not be the same", (False, x, 1)),
    ):
        with pytest.raises(kind, match=words):
            group._start_batch([(True, x, 0), message])
    assert carrier.batches == []
    messages = [(True, wide, 0), (False, x, 2)]
    assert group._start_batch(messages) == "work"
    assert carrier.batches == [
        ("batch_isend_irecv", "2 messages", "test_exchange.py:", messages),
    ]
