"""The sender to which a listener attributes a message, and the connections of one member."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq

from fastdist.core.errors import BackendNotViableError
from fastdist.distributed.pipe.context import Context
from fastdist.distributed.pipe.lane import Lane, LaneTimeout
from fastdist.distributed.pipe.transports.zeromq import ZmqListener
from fastdist.distributed.rpc.message.message import Message
from fastdist.distributed.sockets import (
    MAX_CONNECTIONS,
    CertificateFolder,
    CertificateSecurity,
    CurveSecurity,
    Doorbell,
    JobSecret,
    Security,
    connect,
    make_socket,
)
from tests.distributed.certificates import make_certificates

SECRET = JobSecret.generate()


def member(rank: int) -> Security:
    return CurveSecurity.for_rank(SECRET, "", rank, 3)


@pytest.fixture
def listener() -> Iterator[ZmqListener]:
    listener = Context(["uv"], security=member(0)).listen("listener of rank 0")
    yield listener
    listener.close()


@pytest.fixture
def closed() -> Iterator[Doorbell]:
    closed = Doorbell()
    yield closed
    closed.close()


def soon() -> float:
    return time.monotonic() + 10.0


def lane_of(rank: int, listener: ZmqListener, closed: Doorbell) -> Lane:
    return Context(["uv"], security=member(rank)).connect(
        "uv", listener.addresses["uv"], closed, "rank:0"
    )


def exchange(lane: Lane, listener: ZmqListener) -> int | None:
    """Send on a lane and receive the answer; return the sender that the listener saw."""
    lane.send(Message(0x102, 1).encode(), soon())
    received = listener.receive(soon())
    assert received is not None
    assert listener.reply(received.route, received.frames)
    lane.receive(soon())
    return received.rank


def test_a_member_gets_nine_connections_and_a_tenth_when_one_has_ended(
    listener: ZmqListener, closed: Doorbell
) -> None:
    lanes = [lane_of(1, listener, closed) for _ in range(MAX_CONNECTIONS)]
    assert {exchange(lane, listener) for lane in lanes} == {1}
    tenth, other = lane_of(1, listener, closed), lane_of(2, listener, closed)
    assert exchange(other, listener) == 2
    with pytest.raises(LaneTimeout):
        tenth.send(Message(0x102, 1).encode(), time.monotonic() + 0.5)
    lanes.pop().close()
    assert exchange(tenth, listener) == 1
    for lane in (tenth, other, *lanes):
        lane.close()


def test_what_is_known_of_a_connection_is_forgotten_when_it_ends(
    listener: ZmqListener, closed: Doorbell
) -> None:
    for _ in range(3 * MAX_CONNECTIONS):
        lane = lane_of(1, listener, closed)
        assert exchange(lane, listener) == 1
        lane.close()
    deadline = time.monotonic() + 10
    while listener.try_receive() is None and len(listener._ranks) > 0:
        assert time.monotonic() < deadline, listener._ranks


def test_with_certificates_each_message_is_asked_who_sent_it(
    tmp_path: Path, closed: Doorbell
) -> None:
    folder = CertificateFolder(make_certificates(tmp_path / "certificates", 3))
    securities = [CertificateSecurity.for_rank(folder, rank, 3) for rank in range(3)]
    listener = Context(["uv"], security=securities[0]).listen("listener of rank 0")
    # A routing id that the listener attributes to rank 1, and that rank 2 now uses.
    listener._ranks[b"taken"] = 1
    lane = make_socket(zmq.DEALER, "lane of rank 2", identity=b"taken")
    lane.set(zmq.SNDTIMEO, 10_000)
    connect(lane, listener.addresses["uv"], securities[2], "rank:0")
    lane.send_multipart([bytes(frame) for frame in Message(0x102, 1).encode()])
    received = listener.receive(soon())
    assert received is not None and received.route == b"taken"
    assert received.rank == 2
    lane.close()
    listener.close()


def test_certificates_and_unix_sockets_do_not_go_together(tmp_path: Path) -> None:
    folder = CertificateFolder(make_certificates(tmp_path / "certificates", 1))
    security = CertificateSecurity.for_rank(folder, 0, 1)
    listener = Context(security=security).listen("listener of rank 0")
    assert sorted(listener.addresses) == ["inproc", "uv"]
    listener.close()
    with pytest.raises(BackendNotViableError, match=r"^ipc: .*cannot tell processes of one user"):
        Context(["ipc"], security=security)
