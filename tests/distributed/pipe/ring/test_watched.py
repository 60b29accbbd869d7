"""A shared lane uses a ring, and ZeroMQ after the ring has ended."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest

from fastdist.distributed.pipe.batch import split
from fastdist.distributed.pipe.lane import READABLE, WRITABLE, LaneInDoubt
from fastdist.distributed.pipe.ring.memory import CAPACITY
from fastdist.distributed.pipe.ring.watched import WatchedRingLane
from fastdist.distributed.pipe.shared_lane import SharedLane
from fastdist.distributed.rpc.message.message import Message, decode
from fastdist.distributed.sockets import monitor
from tests.distributed.pipe.ring.house import House, soon


@pytest.fixture
def house() -> Iterator[House]:
    house = House()
    yield house
    house.end()


def events_until(lane: WatchedRingLane, last: str) -> list[str]:
    """Return the connection's events up to `last`."""
    told: list[str] = []
    deadline = soon()
    while last not in told:
        assert time.monotonic() < deadline, told
        kind = lane.next_connection_event()
        if kind is not None:
            told.append(kind)
    return told


def meet(house: House, lane: WatchedRingLane) -> None:
    """Wait until the ring and the ZeroMQ connection next to it exist."""
    assert lane.try_send([b"hello"])
    received = house.receive()
    assert received is not None and received.frames == [b"hello"]
    events_until(lane, monitor.HANDSHAKE_SUCCEEDED)


def end_ring(house: House) -> None:
    """Make the listener drop its only caller."""
    rings = house.listener._rings
    assert rings is not None
    (caller,) = rings._callers.values()
    rings._awake.clear()
    rings._forget(caller)


def test_the_end_of_a_ring_is_told_as_a_break_before_the_next_lane_is_made(house: House) -> None:
    lane = house.watched()
    meet(house, lane)
    assert lane.fileno() >= 0 and lane.connection_fileno() == -1
    assert lane.events() == WRITABLE
    assert lane.next_connection_event() is None
    assert not lane.takes_edges
    end_ring(house)
    lane.events()
    assert lane.fileno() == -1
    assert not lane.try_send([b"too early"]) and lane.try_receive() is None
    assert lane.next_connection_event() == monitor.DISCONNECTED
    assert lane.fileno() == -1  # a caller that reads no further events stays without a new lane
    told = events_until(lane, monitor.HANDSHAKE_SUCCEEDED)
    assert told == [monitor.CONNECTED, monitor.HANDSHAKE_SUCCEEDED]
    assert lane.takes_edges and lane.fileno() >= 0 and lane.connection_fileno() >= 0
    assert lane.try_send([b"hello again"])
    received = house.receive()
    assert received is not None and received.frames == [b"hello again"]
    assert isinstance(received.route, bytes)  # a ZeroMQ connection


def test_a_ring_that_ends_at_once_is_told_as_a_break_alone(house: House) -> None:
    lane = house.watched()
    assert lane.try_send([b"hello"])
    assert house.receive() is not None
    end_ring(house)
    lane.events()  # before the lane's connection events have been read
    assert lane.next_connection_event() == monitor.DISCONNECTED
    told = events_until(lane, monitor.HANDSHAKE_SUCCEEDED)
    assert told.count(monitor.HANDSHAKE_SUCCEEDED) == 1


def test_one_who_waits_goes_on_by_zeromq_at_once(house: House) -> None:
    lane = house.watched()
    meet(house, lane)
    end_ring(house)
    with pytest.raises(LaneInDoubt):
        lane.receive(soon())
    lane.send([b"hello again"], soon())
    received = house.receive()
    assert received is not None and house.listener.reply(received.route, [b"answer"])
    assert lane.receive(soon()) == [b"answer"]


def test_a_ring_takes_one_descriptor_of_each_end(house: House) -> None:
    before = len(os.listdir("/proc/self/fd"))
    meet(house, house.watched())
    assert len(os.listdir("/proc/self/fd")) == before + 2  # both ends are in this process


def test_what_was_answered_before_the_end_is_read(house: House) -> None:
    lane = house.watched()
    assert lane.try_send([b"a"])
    received = house.receive()
    assert received is not None
    assert house.listener.reply(received.route, [b"answer"])
    end_ring(house)
    assert lane.events() & READABLE
    assert lane.try_receive() == [b"answer"]
    assert lane.fileno() >= 0
    lane.events()
    assert lane.fileno() == -1


def test_a_message_larger_than_the_ring_goes_in_pieces_and_others_wait(house: House) -> None:
    lane = house.watched()
    large = bytearray(b"x") * (3 * CAPACITY)
    assert lane.try_send([large])
    large[:] = bytes(len(large))  # the sender reuses the buffer
    assert not lane.try_send([b"next"])
    assert not lane.events() & WRITABLE
    deadline = soon()
    received = None
    while received is None:
        assert time.monotonic() < deadline
        lane.events()  # like the lane's reader when the bell rings
        received = house.receive(0.01)
    assert received.frames == [b"x" * 3 * CAPACITY]
    assert lane.events() == WRITABLE
    assert lane.try_send([b"next"])
    received = house.receive()
    assert received is not None and received.frames == [b"next"]


def test_a_shared_lane_goes_on_by_zeromq(house: House) -> None:
    lane = house.watched()
    meet(house, lane)
    shared = SharedLane(lane, lambda: None)
    assert shared.receive() is None
    end_ring(house)
    assert shared.receive() is None
    shared.hold()  # like the handler of a break
    events_until(lane, monitor.HANDSHAKE_SUCCEEDED)
    assert lane.takes_edges
    shared.send(Message(0x102, 2, body=b"while it is away").encode())
    shared.resume(Message(0x102, 1, body=b"greeting").encode())
    deadline = soon()
    came: list[bytes] = []
    while len(came) < 2:
        assert time.monotonic() < deadline
        assert shared.receive() is None
        received = house.receive(0.01)
        if received is not None:
            came += [bytes(decode(frames).body) for frames in split(received.frames)]
    assert came == [b"greeting", b"while it is away"]


def test_rubbish_among_the_answers_ends_the_ring(house: House) -> None:
    lane = house.watched()
    meet(house, lane)
    way = 256  # start of the answers' direction; see memory.py
    lane._end._memory[way : way + 8] = b"\xff" * 8
    assert lane.events() & READABLE
    assert lane.try_receive() is None
    assert lane.fileno() == -1
    assert lane.next_connection_event() == monitor.DISCONNECTED


def test_hanging_up_ends_the_connection_and_not_what_stands_in_the_ring(house: House) -> None:
    lane = house.watched()
    meet(house, lane)
    assert lane.try_send([b"a"])
    lane.hang_up()
    assert lane.next_connection_event() == monitor.DISCONNECTED
    received = house.receive()
    assert received is not None and received.frames == [b"a"]
    assert house.listener.reply(received.route, [b"answer"])
    assert lane.try_receive() == [b"answer"]
    # From now on the ZeroMQ connection shows whether the peer is alive.
    events_until(lane, monitor.HANDSHAKE_SUCCEEDED)
    assert not lane.takes_edges and lane.connection_fileno() >= 0
    lane.hang_up()
    events_until(lane, monitor.DISCONNECTED)
    events_until(lane, monitor.HANDSHAKE_SUCCEEDED)
    end_ring(house)
    lane.events()
    told = [lane.next_connection_event() for _ in range(3)]
    assert told == [monitor.DISCONNECTED, monitor.HANDSHAKE_SUCCEEDED, None]
    assert lane.takes_edges
