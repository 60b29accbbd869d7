"""Members that leave as soon as their part is done do not harm members that still work."""

from __future__ import annotations

import os
import re
import socket
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fastdist.core.errors import CollectiveLostError
from fastdist.distributed.links import LinksTransport, group, hub, records, segment
from fastdist.distributed.links import ring as rings
from fastdist.distributed.links.alarm import LEFT, Alarm, Waiting
from fastdist.distributed.links.machine import Machine
from fastdist.distributed.links.records import Records
from fastdist.distributed.pipe.transports.zeromq import ZmqLane
from fastdist.distributed.process_group.transport import Call
from fastdist.distributed.sockets import Doorbell
from tests.distributed.links.members import Member, together

BOARD_BYTES = 1 << 20


class Names:
    """A stand-in for the members of a group."""

    def name(self, member: int) -> str:
        return f"rank {member}"

    def names(self, members: Sequence[int]) -> str:
        return ", ".join(map(self.name, members))


def waiting_for(alarm: Alarm, timeout_s: float = 5.0) -> Waiting:
    call = Call(1, "all_reduce", "", "program.py:1", time.monotonic() + timeout_s)
    return Waiting(call, Names(), alarm, timeout_s)  # type: ignore[arg-type]


def test_memory_of_a_segment_is_mapped_as_long_as_somebody_reads_it() -> None:
    mapping = segment.private(1)
    mapped = weakref.ref(mapping)
    mine = segment.Segment(mapping, 1, 1, segment.board_bytes())
    slot, table = mine.small(0, 0), mine.table(0, 0)
    slot[...] = 7
    table[...] = 5
    mine.close()
    # Check this before the views are read: unmapped memory may belong to another thread by now.
    assert not mapping.closed
    del mapping, mine
    assert slot.tolist() == [7] * segment.SMALL_BYTES and table.tolist() == [5, 5]
    del slot
    assert mapped() is not None
    del table
    assert mapped() is None


def test_a_segment_that_nobody_reads_is_unmapped_at_once() -> None:
    mapping = segment.private(1)
    segment.Segment(mapping, 1, 1, segment.board_bytes()).close()
    assert mapping.closed


class Ring:
    """A leader, number 0 of 2 in a ring, and the remote ends of its connections."""

    def __init__(self) -> None:
        mine, self.to_us = socket.socketpair()
        self.from_us, out = socket.socketpair()
        for connection in (mine, out):
            connection.setblocking(False)
        self.bell, self.alarm = Doorbell(), Alarm()
        self.alarm.wakers.append(self.bell.ring)
        self.leader = rings.Ring(Records(out, mine, None, None, (2, 1), self.alarm, self.bell))

    def leave(self, array: NDArray[np.float64]) -> None:
        """Send everything that the preceding leader would send for the same array, and leave."""
        half = array.size // 2
        for step, part in enumerate((array[half:], array[:half])):
            for start, stop in rings.pieces_of(part):
                data = part[start:stop].tobytes()
                self.to_us.sendall(records._HEAD.pack(1, step, len(data), 8 * start) + data)
        self.to_us.close()
        self.alarm.member_left(1)

    def reduce(self, array: NDArray[np.float64]) -> None:
        """Replace the array by the sum."""
        self.leader.reduce(1, array, array, "sum", 0, 2, waiting_for(self.alarm))

    def close(self) -> None:
        """Close all connections."""
        self.to_us.close()
        self.from_us.close()
        self.leader.close()
        self.bell.close()


@pytest.fixture
def ring() -> Iterator[Ring]:
    made = Ring()
    yield made
    made.close()


def test_what_a_leader_sent_before_it_left_is_read(
    ring: Ring, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = np.arange(10.0)
    sleep = Records.sleep

    def sleep_after_it_left(*args: Any, **options: Any) -> None:
        # The leader found no data. Before it sleeps, the other leader sends its data and leaves.
        monkeypatch.undo()
        ring.leave(np.arange(10.0))
        sleep(*args, **options)

    monkeypatch.setattr(Records, "sleep", sleep_after_it_left)
    ring.reduce(array)
    assert array.tolist() == [0, 1, 2, 3, 4, 10, 12, 14, 16, 18]


def test_a_leader_that_has_left_does_not_fail_what_is_still_sent_to_the_next(
    ring: Ring, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = np.arange(400_000.0)
    has_left, waits_for_next = threading.Event(), threading.Event()
    arrived = bytearray()
    sleep = Records.sleep

    def sleep_after_it_left(*args: Any, reads: bool) -> None:
        if not reads:
            has_left.wait(10)
            waits_for_next.set()
        sleep(*args, reads=reads)

    def neighbours() -> None:
        ring.leave(np.arange(400_000.0))
        has_left.set()
        waits_for_next.wait(10)
        while part := ring.from_us.recv(1 << 20):
            arrived.extend(part)

    monkeypatch.setattr(Records, "sleep", sleep_after_it_left)
    thread = threading.Thread(target=neighbours)
    thread.start()
    try:
        ring.reduce(array)
    finally:
        ring.leader.close()
        thread.join()
    assert waits_for_next.is_set()
    assert array[:200_000].tolist() == list(range(200_000))
    assert array[200_000:].tolist() == list(range(400_000, 800_000, 2))
    assert len(arrived) > array.nbytes


def test_a_leader_that_leaves_before_its_part_is_done_is_named(ring: Ring) -> None:
    ring.to_us.close()
    ring.alarm.member_left(1)
    with pytest.raises(
        CollectiveLostError, match=r"rank 1 .*(its connection has ended|left the group)"
    ):
        ring.reduce(np.ones(10))


def test_a_member_that_comes_and_leaves_between_two_looks_has_come() -> None:
    descriptor, mapping = segment.create(2, 2, BOARD_BYTES)
    shared = segment.Segment(mapping, 2, 2, BOARD_BYTES)
    alarm = Alarm()
    mine, other = (Machine(shared, one, (0, 1), Names(), alarm) for one in (0, 1))  # type: ignore[arg-type]
    require_good = mine._require_good

    def require_after_it_left(missing: Sequence[int]) -> None:
        if not shared.words[other._mine + segment.FAILURE]:
            other.publish(segment.STAGE, 1)
            other.fail(LEFT, "")
            alarm.member_left(1)
        require_good(missing)

    mine._require_good = require_after_it_left  # type: ignore[method-assign]
    mine.meet(waiting_for(alarm))
    with pytest.raises(CollectiveLostError, match="rank 1 has left the group"):
        mine.meet(waiting_for(alarm))
    shared.close()
    os.close(descriptor)


def test_the_watcher_queries_a_lane_that_no_other_thread_can_close(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Querying a closed socket would end the watcher's thread.
    peers: list[hub._Peer] = []
    unguarded: list[str] = []
    queried = threading.Event()
    query = ZmqLane.connection_fileno

    class Peer(hub._Peer):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            peers.append(self)

    def connection_fileno(self: ZmqLane) -> int:
        (peer,) = [one for one in peers if one.lane is self]
        if not peer.watch_lock.locked():
            unguarded.append(self.address)
        queried.set()
        return query(self)

    monkeypatch.setattr(hub, "_Peer", Peer)
    monkeypatch.setattr(ZmqLane, "connection_fileno", connection_fileno)
    together("ab", lambda member: member.transport.barrier(member.call()))
    assert queried.is_set() and unguarded == []


def messages_without(member: Member, left: int) -> str:
    """Exchange messages of two sizes with the other present member; then wait for member `left`.

    Return the error of the last wait.
    """
    other = 1 - member.rank
    for size in (3, 300_000):
        if member.rank:
            member.transport.send(member.message(), np.full(size, 7, np.uint8), other, 0)
        else:
            found = np.zeros(size, np.uint8)
            member.transport.recv(member.message(), found, other, 0)
            assert (found == 7).all()
    began = time.monotonic()
    with pytest.raises(CollectiveLostError) as raised:
        member.transport.recv(member.message(), np.zeros(1), left, 0)
    assert time.monotonic() - began < 5.0
    return str(raised.value)


def test_a_process_that_ends_after_it_left_ends_no_message_of_others() -> None:
    has_left = threading.Event()

    def play(member: Member) -> str:
        if member.rank == 2:
            member.transport.close()
            has_left.set()
            return ""
        assert has_left.wait(10)
        # The hub makes this call when a process of this machine has ended.
        record = member.transport._members.records[2]
        member.transport.peer_lost(record, "its process has ended")
        return messages_without(member, 2)

    for text in together("aaa", play)[:2]:
        assert re.fullmatch(r"rank 2 \(pid .*\) left the group: recv waits in vain", text)


@pytest.mark.parametrize(
    ("machines", "shows"), [("aaaa", "hub"), ("aaaa", "memory"), ("aabb", "hub")]
)
def test_a_message_of_a_member_that_has_left_is_not_waited_for(
    machines: str, shows: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody sends to the member that leaves, so that member says goodbye to nobody."""
    if shows == "memory":
        # Treat the member like another process that is still alive.
        monkeypatch.setattr(hub.Hub, "hub_closed", lambda *_: None)
        monkeypatch.setattr(hub, "_is_in_this_process", lambda _: False)
    waits = threading.Barrier(4)
    has_left = threading.Event()

    def play(member: Member) -> str:
        waits.wait(10)
        if member.rank == 3:
            member.transport.close()
            has_left.set()
            return ""
        if member.rank == 2:
            assert has_left.wait(10)
            return ""
        return messages_without(member, 3)

    for text in together(machines, play)[:2]:
        assert re.search(r"rank 3 \(pid .*\) (left the group|was lost: it has left)", text)


def test_what_a_member_sent_before_it_left_is_received_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    has_left, gone = threading.Event(), []
    receive = LinksTransport.receive

    def receive_late(self: LinksTransport, *args: Any) -> None:
        # The message is read only after its sender has left. The sender waits for a reply to the
        # goodbye, but not forever.
        if self.rank == 0 and not gone:
            assert has_left.wait(10)
            gone.append(self._machine.gone_members())
        receive(self, *args)

    monkeypatch.setattr(LinksTransport, "receive", receive_late)
    monkeypatch.setattr(group, "_READ_S", 0.05)

    def play(member: Member) -> list[int]:
        found = np.zeros(2, np.uint8)
        if member.rank:
            member.transport.send(member.message(), np.full(2, 9, np.uint8), 0, 0)
            member.transport.close()
            has_left.set()
        else:
            member.transport.recv(member.message(), found, 1, 0)
        return found.tolist()

    assert together("aa", play)[0] == [9, 9]
    assert gone == [[]]
