"""The acceptor of rings: strangers, limits, and callers that hang up or do not read."""

from __future__ import annotations

import errno
import fcntl
import os
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NoReturn

import pytest

from fastdist.distributed.pipe.lane import LaneInDoubt, LaneTimeout
from fastdist.distributed.pipe.ring import acceptor, meeting
from fastdist.distributed.pipe.ring.memory import CAPACITY, RING_BYTES
from fastdist.distributed.pipe.transports.zeromq import ZmqLane
from tests.distributed.pipe.ring.house import House, soon


@pytest.fixture
def house() -> Iterator[House]:
    house = House()
    yield house
    house.end()


def memory(size: int, seals: int) -> int:
    fd = os.memfd_create("memory of a stranger", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


def file_that_is_no_memory() -> int:
    return os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)


def has_hung_up(line: socket.socket) -> bool:
    try:
        return line.recv(1) == b""
    except ConnectionResetError:
        return True  # the acceptor closed before reading all data


def num_memories() -> int:
    """Return the number of open descriptors of unnamed memory files."""
    links = []
    for fd in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # closed meanwhile, by libzmq's thread
            links.append(os.readlink(f"/proc/self/fd/{fd}"))
    return sum("memfd:" in link for link in links)


class FullDoor(socket.socket):
    """A listening socket of a process without free descriptors."""

    def accept(self) -> NoReturn:
        raise OSError(errno.EMFILE, "Too many open files")


SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW


@pytest.mark.parametrize(
    ("word", "opens"),
    [
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", [], id="a browser"),
        pytest.param(meeting.WORD, [], id="no memory"),
        pytest.param(b"fastdist ring 2\n", [lambda: memory(RING_BYTES, SEALS)], id="a version"),
        pytest.param(meeting.WORD, [lambda: memory(4096, SEALS)], id="too little memory"),
        pytest.param(meeting.WORD, [lambda: memory(RING_BYTES, 0)], id="memory that may shrink"),
        pytest.param(meeting.WORD, [file_that_is_no_memory], id="no memory but a file"),
        pytest.param(
            meeting.WORD, [lambda: memory(RING_BYTES, SEALS)] * 2, id="more than one memory"
        ),
    ],
)
def test_a_stranger_at_the_door_is_sent_away(
    house: House, word: bytes, opens: list[Callable[[], int]]
) -> None:
    before = num_memories()
    line, fds = house.stranger(), [open_one() for open_one in opens]
    try:
        socket.send_fds(line, [word], fds)
        assert house.receive(0.05) is None
        assert has_hung_up(line)
    finally:
        for fd in fds:
            os.close(fd)
    assert house.num_callers() == 0
    line.close()
    assert num_memories() == before
    lane = house.ring()
    lane.send([b"a member's"], soon())
    received = house.receive()
    assert received is not None and received.frames == [b"a member's"]


def test_who_says_nothing_at_the_door_keeps_nobody_waiting(house: House) -> None:
    silent = [house.stranger() for _ in range(3)]
    house.ring().send([b"a"], soon())
    assert house.receive() is not None
    assert [select.select([line], [], [], 0)[0] for line in silent] == [[], [], []]


def test_another_user_gets_no_ring(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    lane = house.ring()
    lane.send([b"a"], soon())
    monkeypatch.setattr(os, "getuid", lambda: 12_345)
    assert house.receive(0.05) is None
    assert house.num_callers() == 0


def test_who_comes_when_there_are_enough_rings_is_served_all_the_same(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acceptor, "MOST_RINGS", 1)
    first, second = house.ring(), house.ring()
    first.send([b"first"], soon())
    second.send([b"second"], soon())
    received = house.receive()
    assert received is not None and received.frames == [b"first"]
    assert house.receive(0.05) is None
    with pytest.raises(LaneInDoubt):
        second.receive(soon())
    second.send([b"second again"], soon())
    received = house.receive()
    assert received is not None and received.frames == [b"second again"]
    assert isinstance(received.route, bytes)  # a ZeroMQ connection
    house.listener.reply(received.route, [b"answer"])
    assert second.receive(soon()) == [b"answer"]


def test_without_descriptors_the_door_is_closed_and_nobody_waits_at_it(house: House) -> None:
    early = house.ring()
    early.send([b"a"], soon())
    rings = house.listener._rings
    assert rings is not None and rings._listener is not None

    rings._listener = FullDoor(fileno=rings._listener.detach())
    assert house.receive(0.05) is None
    with pytest.raises(LaneInDoubt):
        early.receive(soon())
    assert isinstance(house.lane(), ZmqLane)
    assert not os.path.exists(house.path)


def test_what_was_sent_before_the_caller_hung_up_is_read(house: House) -> None:
    lane = house.ring()
    for i in range(3):
        lane.send([b"%d" % i], soon())
    lane.close()
    came = [house.receive() for _ in range(3)]
    assert [received and received.frames for received in came] == [[b"0"], [b"1"], [b"2"]]
    assert house.receive(0.05) is None
    assert house.num_callers() == 0
    assert came[0] is not None
    assert not house.listener.knows(came[0].route)
    assert not house.listener.reply(came[0].route, [b"too late"])


def test_answers_to_who_does_not_read_wait_and_keep_nobody(house: House) -> None:
    lane = house.ring()
    lane.send([b"a"], soon())
    received = house.receive()
    assert received is not None
    answers = [bytearray([i]) * (3 * CAPACITY // 2) for i in range(4)]
    for answer in answers:
        assert house.listener.reply(received.route, [answer])
    kept = [bytes(answer) for answer in answers]
    for answer in answers:
        answer[:] = bytes(len(answer))  # the sender reuses the buffer
    came: list[bytes] = []

    def read() -> None:
        came.extend(bytes(lane.receive(soon())[0]) for _ in answers)

    reader = threading.Thread(target=read)
    reader.start()
    deadline = soon()
    while reader.is_alive():
        assert time.monotonic() < deadline
        assert house.receive(0.01) is None
    assert came == kept


def test_who_sleeps_until_its_answer_comes_is_rung_for_that_alone(house: House) -> None:
    lane = house.ring()
    lane.send([b"a"], soon())
    assert house.receive() is not None
    assert house.receive(0.05) is None  # the listener marks itself as sleeping
    assert lane._end.reader.sleeps()
    lane.send([b"b"], soon())
    received = house.receive()
    assert received is not None and received.frames == [b"b"]
    rung = select.poll()
    rung.register(lane.fileno(), select.POLLIN)
    assert not rung.poll(0)
    house.listener.reply(received.route, [b"answer"])
    assert rung.poll(10_000)


def test_a_request_that_takes_too_long_to_leave_leaves_nothing_behind(house: House) -> None:
    lane = house.ring()
    with pytest.raises(LaneTimeout):
        lane.send([bytes(4 * CAPACITY)], time.monotonic() + 0.05)
    assert house.receive(0.05) is None  # half a message is not delivered
    lane.send([b"next"], soon())
    received = house.receive()
    assert received is not None and received.frames == [b"next"]


def test_rubbish_in_a_ring_ends_it_alone(house: House, caplog: pytest.LogCaptureFixture) -> None:
    bad, good = house.ring(), house.ring()
    bad.send([b"a"], soon())
    good.send([b"b"], soon())
    came = [house.receive(), house.receive()]
    assert sorted(bytes(received.frames[0]) for received in came if received) == [b"a", b"b"]
    bad._end._memory[0:8] = b"\xff" * 8
    bad._end.bell.ring()
    assert house.receive(0.05) is None
    assert "no longer reading the ring of a caller" in caplog.text
    with pytest.raises(LaneInDoubt):
        bad.receive(soon())
    good.send([b"c"], soon())
    received = house.receive()
    assert received is not None and received.frames == [b"c"]


def test_many_messages_by_rings_let_others_come_in_between(house: House) -> None:
    lane = house.ring()
    other = house.context.connect("ipc", house.address, house.closed, "rank:1")
    house.things.append(other)
    for _ in range(200):
        lane.send([bytes(8)], soon())
    other.send([b"by ZeroMQ"], soon())
    deadline = soon()
    while not house.listener._socket.get(15) & 1:  # ZMQ_EVENTS: the message has arrived
        assert time.monotonic() < deadline
    came = [house.receive() for _ in range(100)]
    assert [b"by ZeroMQ"] in [received and received.frames for received in came]


def test_closing_gives_everything_back(house: House) -> None:
    lanes = [house.ring() for _ in range(3)]
    for lane in lanes:
        lane.send([b"a"], soon())
        received = house.receive()
        assert received is not None
        house.listener.reply(received.route, [b"answer"])
    house.listener.close()
    assert not os.path.exists(house.path)
    # Earlier answers can still be read, and then the lane reports its end.
    assert [lane.receive(soon()) for lane in lanes] == [[b"answer"]] * 3
    for lane in lanes:
        with pytest.raises(LaneInDoubt):
            lane.receive(soon())


def test_rubbish_where_an_answer_waits_for_room_ends_the_ring(house: House) -> None:
    lane = house.ring()
    lane.send([b"a"], soon())
    received = house.receive()
    assert received is not None
    assert house.listener.reply(received.route, [bytes(2 * CAPACITY)])
    read = 256 + 64  # READ in the answers' direction; see memory.py
    lane._end._memory[read : read + 8] = b"\xff" * 8
    lane._end.bell.ring()
    assert house.receive(0.05) is None
    assert not house.listener.reply(received.route, [b"more"])
    assert house.receive(0.05) is None
    assert house.num_callers() == 0
