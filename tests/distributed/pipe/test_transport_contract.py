"""The contract of every transport: messages arrive in order and complete, and every wait ends."""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fastdist.core.errors import BackendNotViableError, RpcError
from fastdist.distributed.pipe.batch import split
from fastdist.distributed.pipe.context import Context
from fastdist.distributed.pipe.frames import Buffer
from fastdist.distributed.pipe.lane import READABLE, Lane, LaneClosed, LaneTimeout
from fastdist.distributed.pipe.listener import Received
from fastdist.distributed.pipe.registry import transports
from fastdist.distributed.pipe.shared_lane import SharedLane
from fastdist.distributed.pipe.transports.zeromq import ZmqListener
from fastdist.distributed.rpc.message.layout import FRAME_BYTES
from fastdist.distributed.rpc.message.message import Message, decode
from fastdist.distributed.rpc.options import channels
from fastdist.distributed.sockets import (
    CertificateFolder,
    CertificateSecurity,
    CurveSecurity,
    Doorbell,
    JobSecret,
    Security,
)
from tests.distributed.certificates import make_certificates
from tests.standstill import Standstill

VIABLE = [entry.name for entry in transports.by_priority() if entry.member.why_not_viable() is None]
CURVE, CERTS = "uv, curve", "uv, certs"


class Ends:
    """A listener, and lanes to it, of one transport."""

    def __init__(self, transport: str, security: Security | None = None) -> None:
        self.transport = transport
        self.context = Context([transport], security=security)
        self.listener: ZmqListener = self.context.listen("listener of a test")
        self.closed = Doorbell()
        self.lanes: list[Lane] = []

    def connect(self, *, watched: bool = False) -> Lane:
        address = self.listener.addresses[self.transport]
        lane = self.context.connect(self.transport, address, self.closed, "rank:0", watched=watched)
        self.lanes.append(lane)
        return lane

    def by_zeromq(self) -> Lane:
        """Connect by the ZeroMQ transport that accompanies rings."""
        name = "ipc" if self.transport == "shm" else self.transport
        lane = self.context.connect(name, self.listener.addresses[name], self.closed, "rank:0")
        self.lanes.append(lane)
        return lane

    def end(self) -> None:
        for lane in self.lanes:
            lane.close()
        self.listener.close()
        self.closed.close()


@pytest.fixture(params=[*VIABLE, CURVE, CERTS])
def ends(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ends]:
    if request.param == CURVE:
        ends = Ends("uv", CurveSecurity.for_rank(JobSecret.generate(), "", 0, 1))
    elif request.param == CERTS:
        folder = CertificateFolder(make_certificates(tmp_path / "certificates", 1))
        ends = Ends("uv", CertificateSecurity.for_rank(folder, 0, 1))
    else:
        ends = Ends(request.param)
    yield ends
    ends.end()


def soon() -> float:
    return time.monotonic() + 10.0


def test_frames_that_nobody_announced_are_no_route_of_the_next_message(ends: Ends) -> None:
    liar, other = ends.connect(), ends.connect()
    other.send(Message(0x102, 1).encode(), soon())
    known = ends.listener.receive(soon())
    assert known is not None
    # The route of a ring is an object, which no peer could send.
    route = known.route if isinstance(known.route, bytes) else bytes(5)
    forged = [route, *Message(0x102, 666).encode()]
    liar.send([*Message(0x102, 2).encode(), *forged], soon())
    liar.send(Message(0x102, 3).encode(), soon())
    came = [ends.listener.receive(soon()), ends.listener.receive(soon())]
    ids = [decode(received.frames[:1]).message_id for received in came if received is not None]
    assert ids == [2, 3]
    assert all(received is not None and received.route != known.route for received in came)


def test_a_request_arrives_and_its_answer_comes_back(ends: Ends) -> None:
    lane = ends.connect()
    lane.send(Message(0x102, 7, body=b"question", encoding=1).encode(), soon())
    received = ends.listener.receive(soon())
    assert received is not None
    assert bytes(decode(received.frames).body) == b"question"
    assert ends.listener.reply(received.route, Message(0x203, 7, body=b"a", encoding=1).encode())
    answer = decode(lane.receive(soon()))
    assert (answer.message_id, bytes(answer.body)) == (7, b"a")


def test_messages_of_a_lane_keep_their_order(ends: Ends) -> None:
    lane = ends.connect()
    for i in range(300):
        lane.send(Message(0x102, i).encode(), soon())
    came = [ends.listener.receive(soon()) for _ in range(300)]
    assert [decode(received.frames).message_id for received in came if received] == list(range(300))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("size", [0, 1, 20_000, 300_000, 2 * FRAME_BYTES + 5])
def test_buffers_of_every_size_arrive_whole_and_writable(ends: Ends, size: int) -> None:
    lane = ends.connect()
    payload = bytes(range(256)) * (size // 256) + b"\7" * (size % 256)
    # Send in a thread, since a large message needs a concurrent reader.
    sender = threading.Thread(
        target=lane.send, args=(Message(1, buffers=[payload]).encode(), soon())
    )
    sender.start()
    received = ends.listener.receive(soon())
    sender.join()
    assert received is not None
    (buffer,) = decode(received.frames).buffers
    assert buffer == payload
    assert not memoryview(buffer).readonly


def test_each_lane_has_a_route_of_its_own(ends: Ends) -> None:
    lanes = [ends.connect() for _ in range(3)]
    for i, lane in enumerate(lanes):
        lane.send(Message(0x102, i).encode(), soon())
    for _ in lanes:
        received = ends.listener.receive(soon())
        assert received is not None
        ends.listener.reply(received.route, received.frames)
    assert [decode(lane.receive(soon())).message_id for lane in lanes] == [0, 1, 2]


def test_receive_stops_at_its_deadline(ends: Ends) -> None:
    lane = ends.connect()
    with Standstill() as stood:
        began = time.monotonic()
        with pytest.raises(LaneTimeout):
            lane.receive(began + 0.05)
    waited_s = time.monotonic() - began
    assert waited_s >= 0.049 and waited_s - stood.seconds < 1.0
    assert ends.listener.receive(time.monotonic() + 0.02) is None


def test_wake_ends_the_listeners_wait(ends: Ends) -> None:
    threading.Timer(0.02, ends.listener.wake).start()
    assert ends.listener.receive(soon()) is None


def test_the_bell_ends_every_wait_on_a_lane(ends: Ends) -> None:
    lane = ends.connect()
    threading.Timer(0.02, ends.closed.ring).start()
    with pytest.raises(LaneClosed):
        lane.receive(None)


def test_a_reply_to_a_connection_that_is_gone_is_refused(ends: Ends) -> None:
    lane = ends.connect()
    lane.send(Message(0x102).encode(), soon())
    received = ends.listener.receive(soon())
    assert received is not None
    lane.close()
    wait_until_gone(ends, received)


def wait_until_gone(ends: Ends, received: Received) -> None:
    deadline = soon()
    while ends.listener.reply(received.route, received.frames):
        assert time.monotonic() < deadline
        ends.listener.receive(time.monotonic() + 0.01)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("is_there", [True, False], ids=["to one there", "to one gone"])
def test_replies_from_other_threads_do_not_hide_messages_from_the_reader(
    ends: Ends, is_there: bool
) -> None:
    # Each send on a socket may consume the edge that would have woken its sleeping reader.
    lane, other = ends.connect(), ends.connect()
    other.send(Message(0x102, 1).encode(), soon())
    first = ends.listener.receive(soon())
    assert first is not None
    if not is_there:
        other.close()
        wait_until_gone(ends, first)
    stop = threading.Event()

    def chatter() -> None:
        while not stop.is_set():
            ends.listener.reply(first.route, first.frames)

    thread = threading.Thread(target=chatter)
    thread.start()
    try:
        for i in range(200):
            lane.send(Message(0x102, i).encode(), soon())
            began = time.monotonic()
            received = ends.listener.receive(soon())
            assert received is not None and decode(received.frames).message_id == i
            assert time.monotonic() - began < 5, "found at the deadline alone"
            ends.listener.reply(received.route, received.frames)
            assert decode(lane.receive(soon())).message_id == i
    finally:
        stop.set()
        thread.join(10)


def test_a_reply_to_one_gone_wakes_the_reader_whose_edge_it_took(ends: Ends) -> None:
    lane, other = ends.by_zeromq(), ends.by_zeromq()
    lane.send(Message(0x102, 1).encode(), soon())
    assert ends.listener.receive(soon()) is not None
    other.send(Message(0x102, 2).encode(), soon())
    gone = ends.listener.receive(soon())
    assert gone is not None
    other.close()
    wait_until_gone(ends, gone)
    # Events of the closed connection may still wake the reader without a message.
    if not is_woken_by_a_refused_reply(ends, lane, gone, 3):
        assert is_woken_by_a_refused_reply(ends, lane, gone, 4)


def is_woken_by_a_refused_reply(ends: Ends, lane: Lane, gone: Received, number: int) -> bool:
    """Return whether a refused reply rings the doorbell of a listener with an unread message.

    The reply to the closed connection consumes the edge of the socket's edge-triggered descriptor.
    """
    assert ends.listener.receive(time.monotonic() + 0.01) is None
    ends.listener._sleeping = True  # as in receive, which would consume the edge itself
    lane.send(Message(0x102, number).encode(), soon())
    assert select.select([ends.listener.fileno()], [], [], 10)[0]
    assert not ends.listener.reply(gone.route, gone.frames)
    is_woken = bool(select.select([ends.listener._bell.fileno()], [], [], 0)[0])
    received = ends.listener.receive(soon())
    assert received is not None and decode(received.frames).message_id == number
    return is_woken


def test_a_shared_lane_queues_until_connected_and_wakes_its_reader(ends: Ends) -> None:
    attended = threading.Event()
    shared = SharedLane(ends.connect(), attended.set)
    for i in range(50):
        shared.send(Message(0x102, i).encode())
    got: list[int] = []
    deadline = soon()
    while len(got) < 50:
        assert time.monotonic() < deadline
        assert shared.receive() is None
        received = ends.listener.receive(time.monotonic() + 0.01)
        if received is not None:
            got += [decode(frames).message_id for frames in split(received.frames)]
    assert got == list(range(50))
    assert shared.num_unsent() == 0


def test_a_shared_lane_that_is_held_sends_its_first_message_first(ends: Ends) -> None:
    shared = SharedLane(ends.connect(), lambda: None)
    shared.hold()
    shared.send(Message(0x102, 2).encode())
    shared.resume(Message(0x102, 1).encode())
    got: list[int] = []
    deadline = soon()
    while len(got) < 2:
        assert time.monotonic() < deadline
        shared.receive()
        received = ends.listener.receive(time.monotonic() + 0.01)
        if received is not None:
            got += [decode(frames).message_id for frames in split(received.frames)]
    assert got == [1, 2]


def test_events_tell_whether_a_message_is_there(ends: Ends) -> None:
    lane = ends.connect()
    lane.send(Message(0x102, 1).encode(), soon())
    received = ends.listener.receive(soon())
    assert received is not None
    assert not lane.events() & READABLE and lane.try_receive() is None
    ends.listener.reply(received.route, received.frames)
    deadline = soon()
    while not lane.events() & READABLE:
        assert time.monotonic() < deadline
    assert lane.try_receive() is not None


@pytest.mark.seed("T1", "T2")
def test_names_and_priorities_are_pytorchs_and_ours() -> None:
    expected = {"inproc": 300, "shm": 200, "ipc": 150, "ibv": 100, "uv": 0}
    assert {entry.name: entry.priority for entry in transports.by_priority()} == expected
    expected = {"arena": 1300, "cma": 1200, "mpt_uv": 1100, "basic": 1000}
    expected |= {"cuda_xth": 400, "cuda_ipc": 300, "cuda_gdr": 200, "cuda_basic": 0}
    assert {entry.name: entry.priority for entry in channels.by_priority()} == expected


@pytest.mark.seed("T3")
def test_a_transport_that_is_registered_can_be_named_and_takes_part() -> None:
    tcp = next(entry.member for entry in transports.by_priority() if entry.name == "uv")
    transports.register("mine", 999, tcp)
    try:
        assert Context().transports[0].name == "mine"
    finally:
        transports.unregister("mine")
    with pytest.raises(RpcError, match=r"^Unknown transport: mine; known, fastest first: inproc"):
        Context(["mine"])


@pytest.mark.seed("T4")
def test_a_users_list_is_the_order_and_what_is_not_viable_is_left_out() -> None:
    chosen = Context(["uv", "ibv", "ipc"]).transports
    assert [entry.name for entry in chosen] == ["uv", "ipc"]
    assert chosen[0].priority > chosen[1].priority
    assert [entry.name for entry in Context(["tcp"]).transports] == ["uv"]


def test_a_user_who_asks_only_for_what_cannot_be_had_is_told_why() -> None:
    with pytest.raises(BackendNotViableError, match="ibv: InfiniBand verbs cannot be reached"):
        Context(["ibv"])
    with pytest.raises(BackendNotViableError, match="cma: process_vm_readv is not part"):
        channels.choose(["cma"])


@pytest.mark.seed("T37")
def test_the_fastest_way_that_reaches_is_chosen() -> None:
    context = Context()
    listener = context.listen("listener of a test")
    try:
        addresses = listener.addresses
        assert context.choose(addresses, same_host=True, same_process=True) == "inproc"
        assert context.choose(addresses, same_host=True) == "shm"
        without = {name: address for name, address in addresses.items() if name != "shm"}
        assert context.choose(without, same_host=True) == "ipc"
        assert context.choose(addresses, same_host=False) == "uv"
        gone = {**addresses, "ipc": "ipc:///nowhere/at/all", "shm": "ipc:///nowhere"}
        assert context.choose(gone, same_host=True) == "uv"
        with pytest.raises(BackendNotViableError, match="no transport reaches the peer"):
            context.choose({"shm": "x"}, same_host=True)
    finally:
        listener.close()


def test_a_batch_that_cannot_be_read_is_handed_on_as_it_came(ends: Ends) -> None:
    shared = SharedLane(ends.connect(), lambda: None)
    shared.send(Message(0x102, 1).encode())
    deadline, asked = soon(), None
    while asked is None and time.monotonic() < deadline:
        assert shared.receive() is None  # sends messages that had to wait
        asked = ends.listener.receive(time.monotonic() + 0.02)
    assert asked is not None
    broken, whole = [b"\xb1 no batch"], Message(0x203, 2).encode()
    assert ends.listener.reply(asked.route, broken) and ends.listener.reply(asked.route, whole)
    came: list[list[Buffer]] = []
    while len(came) < 2 and time.monotonic() < deadline:
        frames = shared.receive()
        if frames is not None:
            came.append(frames)
    assert [bytes(frame) for (frame,) in came] == [bytes(*broken), bytes(*whole)]
    shared.close()
