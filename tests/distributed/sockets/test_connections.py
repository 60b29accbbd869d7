"""A member's connections are counted and limited; a closed connection no longer counts."""

from __future__ import annotations

import logging
import math
import os
import socket as standard_socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest
import zmq

from fastdist.distributed.sockets import (
    MAX_CONNECTIONS,
    Connections,
    CurveSecurity,
    JobSecret,
    Socket,
    SocketEvent,
    SocketMonitor,
    authenticated_rank,
    bind,
    connect,
    make_socket,
    monitor,
    open_socket_names,
)
from fastdist.distributed.sockets.connections import SPEAKS_WITHIN_S, hang_up, silence_s
from tests.distributed.sockets.test_monitor import kinds_until
from tests.standstill import freeze

SECRET = JobSecret.parse("5a" * 32, "test")
AT = "tcp://127.0.0.1:4410"


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def accepted(descriptor: int) -> SocketEvent:
    return SocketEvent(monitor.ACCEPTED, AT, descriptor)


def ended(descriptor: int) -> SocketEvent:
    return SocketEvent(monitor.DISCONNECTED, AT, descriptor)


def test_the_oldest_strangers_go_when_descriptors_become_few() -> None:
    connections = Connections(9, descriptor_limit=lambda: 100)
    for descriptor in range(20, 75):
        connections.happened(accepted(descriptor))
    assert connections.take_overdue() == []
    connections.spoke("3", b"route", 25)
    connections.happened(accepted(75))
    overdue = connections.take_overdue()
    # The connections that have sent a message stay open, and so do the newest eight.
    assert overdue == [(fd, AT) for fd in range(20, 68) if fd != 25]
    for descriptor, _ in overdue:
        connections.happened(ended(descriptor))
    assert connections.held_by("3") == 1


def come(connections: Connections, member: str, descriptor: int) -> bool:
    """Connect a member with the events that libzmq reports; return whether it was admitted."""
    connections.happened(accepted(descriptor))
    return connections.admit(member)


@pytest.fixture
def full() -> Connections:
    """Return the connections of member 1: as many as allowed, each of which has sent a message."""
    connections = Connections(3, clock=Clock())
    for descriptor in range(3):
        assert come(connections, "1", descriptor)
        connections.spoke("1", b"route %d" % descriptor, descriptor)
    return connections


def test_one_more_than_allowed_is_refused_and_other_members_are_not(full: Connections) -> None:
    assert not come(full, "1", 3)
    assert come(full, "2", 4)
    assert (full.held_by("1"), full.held_by("2"), full.num_refused) == (3, 1, 1)


def test_the_end_of_a_connection_gives_its_slot_back_and_names_its_route(
    full: Connections,
) -> None:
    full.happened(ended(1))
    assert list(full.ended) == [b"route 1"]
    assert come(full, "1", 3)


def test_admissions_that_have_not_spoken_count() -> None:
    connections = Connections(2, clock=Clock())
    assert [come(connections, "1", descriptor) for descriptor in range(3)] == [True, True, False]


def test_connections_that_ended_before_they_spoke_do_not_lock_their_member_out() -> None:
    # All lanes of a peer break and connect again. The peer closes these connections before it sends
    # a message.
    connections = Connections(3, clock=Clock())
    for descriptor in range(3):
        come(connections, "1", descriptor)
        connections.happened(ended(descriptor))
    assert come(connections, "1", 9)
    assert connections.held_by("1") == 1


def test_a_member_gains_no_more_than_what_others_have_lost() -> None:
    # If an admission is not used, it is unknown which member had it. The member that requests one
    # more therefore loses an admission.
    connections = Connections(2, clock=Clock())
    for descriptor in range(2):
        come(connections, "1", descriptor)
    come(connections, "2", 2)
    connections.happened(ended(2))
    assert [come(connections, "1", descriptor) for descriptor in (3, 4, 5)] == [True, False, False]


def test_a_member_refused_again_and_again_takes_the_place_of_its_own_silent_connections() -> None:
    clock, silences = Clock(), {0: 60.0, 1: 0.5, 2: 4.0, 3: 60.0}
    connections = Connections(3, clock=clock, silence_of=silences.__getitem__)
    for descriptor in range(3):
        come(connections, "1", descriptor)
        connections.spoke("1", b"route %d" % descriptor, descriptor)
    come(connections, "2", 3)
    connections.spoke("2", b"route 3", 3)
    for _ in range(6):
        assert not connections.admit("1") and connections.take_overdue() == []
        clock.now += 0.5
    assert come(connections, "1", 4) and connections.take_overdue() == [(0, AT), (2, AT)]
    connections.happened(ended(0))
    connections.happened(ended(2))
    assert connections.held_by("1") == 2


def test_a_member_that_is_refused_now_and_then_takes_nobodys_place() -> None:
    clock = Clock()
    connections = Connections(1, clock=clock, silence_of=lambda _: 60.0)
    come(connections, "1", 0)
    connections.spoke("1", b"route", 0)
    for _ in range(5):
        assert not connections.admit("1")
        clock.now += SPEAKS_WITHIN_S + 1
    assert connections.take_overdue() == []


def test_how_long_a_connection_has_brought_nothing_is_known() -> None:
    with standard_socket.create_server(("127.0.0.1", 0)) as server:
        theirs = standard_socket.create_connection(server.getsockname())
        ours, _ = server.accept()
        with theirs, ours:
            began = time.monotonic()
            theirs.sendall(b"a word")
            assert ours.recv(6) == b"a word"
            threading.Event().wait(0.1)
            assert 0.05 <= silence_s(ours.fileno()) <= time.monotonic() - began + 0.5
    assert silence_s(10_000) == math.inf


def test_who_stays_silent_is_hung_up_on_once_its_member_wants_more() -> None:
    clock = Clock()
    connections = Connections(2, speaks_within_s=10, clock=clock)
    for descriptor in range(2):
        come(connections, "1", descriptor)
    assert not come(connections, "1", 2)
    assert connections.take_overdue() == []
    connections.happened(ended(2))
    clock.now += 11
    assert come(connections, "1", 3)
    assert connections.take_overdue() == [(0, AT), (1, AT)]
    assert connections.take_overdue() == []


def test_a_message_of_a_connection_that_has_ended_is_not_counted(full: Connections) -> None:
    connections = Connections(2, clock=Clock())
    come(connections, "1", 7)
    connections.happened(ended(7))
    connections.spoke("1", b"late", 7)
    assert connections.held_by("1") == 0 and list(connections.ended) == [b"late"]


def test_a_descriptor_that_is_given_again_belongs_to_who_speaks_last() -> None:
    connections = Connections(2, clock=Clock())
    come(connections, "1", 7)
    connections.happened(ended(7))
    come(connections, "2", 7)
    connections.spoke("1", b"late", 7)
    connections.spoke("2", b"now", 7)
    assert (connections.held_by("1"), connections.held_by("2")) == (0, 1)


def test_who_comes_by_ipc_is_not_counted() -> None:
    connections = Connections(1, clock=Clock())
    connections.happened(SocketEvent(monitor.ACCEPTED, "ipc:///run/x", 5))
    come(connections, "1", 6)
    connections.happened(SocketEvent(monitor.DISCONNECTED, "ipc:///run/x", 6))
    assert connections.held_by("1") == 1


def test_a_refusal_is_told_once_for_each_member(
    full: Connections, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert not full.admit("1", "10.0.0.7")
    (record,) = caplog.records
    assert record.getMessage() == (
        "member 1 holds 3 connections to this process, all that it may; one more, from 10.0.0.7, "
        "was refused, and will be until one of them ends"
    )


def test_only_a_connection_of_that_endpoint_is_hung_up_on() -> None:
    server = standard_socket.create_server(("127.0.0.1", 0))
    client = standard_socket.create_connection(server.getsockname())
    mine, _ = server.accept()
    read, write = os.pipe()
    endpoint = f"tcp://127.0.0.1:{server.getsockname()[1]}"
    descriptors = len(os.listdir("/proc/self/fd"))
    assert not hang_up(read, endpoint)
    assert not hang_up(server.fileno(), endpoint)
    assert not hang_up(mine.fileno(), "tcp://127.0.0.1:1")
    assert not hang_up(10_000, endpoint)
    assert hang_up(mine.fileno(), endpoint)
    # In the meantime libzmq may have closed connections of earlier tests, so the number may be
    # lower.
    assert len(os.listdir("/proc/self/fd")) <= descriptors
    client.settimeout(10)
    assert client.recv(1) == b""
    for one in (server, client, mine):
        one.close()
    os.close(read), os.close(write)


# ---- with libzmq -------------------------------------------------------------------------------


@pytest.fixture
def router() -> Iterator[Socket]:
    router = make_socket(zmq.ROUTER, "router of rank 0")
    router.set(zmq.RCVTIMEO, 10_000)
    bind(router, "tcp://127.0.0.1:0", CurveSecurity.for_rank(SECRET, "job", 0, 3))
    yield router
    router.close()


def endpoint_of(router: Socket) -> str:
    return router.get_string(zmq.LAST_ENDPOINT).rstrip("\0")


def lane_of(rank: int, router: Socket) -> tuple[Socket, SocketMonitor]:
    lane = make_socket(zmq.DEALER, f"lane of rank {rank}")
    events = SocketMonitor(lane)
    connect(lane, endpoint_of(router), CurveSecurity.for_rank(SECRET, "job", rank, 3), "rank:0")
    return lane, events


def speak(lane: Socket, events: SocketMonitor, router: Socket) -> None:
    """Send a first message, and let the router record the connection as a listener does."""
    kinds_until(events, monitor.HANDSHAKE_SUCCEEDED)
    lane.send(b"hello")
    route, word = router.recv_multipart(copy=False)
    assert router.connections is not None and word.bytes == b"hello"
    rank = authenticated_rank(word)
    router.connections.spoke(str(rank), route.bytes, int(word.get(zmq.SRCFD)))


def held(router: Socket, rank: int) -> int:
    assert router.connections is not None
    return router.connections.held_by(str(rank))


def wait_until_held(router: Socket, rank: int, count: int) -> None:
    deadline = time.monotonic() + 10
    while held(router, rank) != count:
        assert time.monotonic() < deadline, held(router, rank)


def test_the_tenth_connection_waits_until_one_of_nine_ends(router: Socket) -> None:
    lanes = [lane_of(1, router) for _ in range(MAX_CONNECTIONS)]
    for lane, events in lanes:
        speak(lane, events, router)
    tenth, events = lane_of(1, router)
    kinds = kinds_until(events, monitor.HANDSHAKE_FAILED)
    assert monitor.HANDSHAKE_SUCCEEDED not in kinds
    other, other_events = lane_of(2, router)
    speak(other, other_events, router)
    assert (held(router, 1), held(router, 2)) == (MAX_CONNECTIONS, 1)
    lanes[0][0].close()
    speak(tenth, events, router)
    assert held(router, 1) == MAX_CONNECTIONS
    for lane in (tenth, other, *(lane for lane, _ in lanes)):
        lane.close()
    wait_until_held(router, 1, 0)


def test_who_is_admitted_and_says_nothing_makes_room_for_who_speaks(router: Socket) -> None:
    assert router.connections is not None
    silent = [lane_of(1, router) for _ in range(MAX_CONNECTIONS)]
    for _, events in silent:
        kinds_until(events, monitor.HANDSHAKE_SUCCEEDED)
    lane, events = lane_of(1, router)
    kinds_until(events, monitor.HANDSHAKE_FAILED)
    router.connections._clock = lambda: time.monotonic() + SPEAKS_WITHIN_S
    speak(lane, events, router)
    for _, silent_events in silent:
        kinds_until(silent_events, monitor.DISCONNECTED)
    for one in (lane, *(lane for lane, _ in silent)):
        one.close()


def test_only_what_is_counted_is_listened_for(router: Socket) -> None:
    # When descriptors run out, libzmq would report failed accepts continuously.
    from fastdist.distributed.sockets import authenticator

    (zap_domain,) = authenticator._zap_domains.values()
    assert zap_domain.events is not None
    lane, events = lane_of(1, router)
    speak(lane, events, router)
    kinds = set()
    while (event := zap_domain.events.try_receive()) is not None:
        kinds.add(event.kind)
    assert kinds <= {monitor.ACCEPTED, monitor.DISCONNECTED}
    lane.close()


def test_a_member_that_comes_and_goes_is_never_locked_out(router: Socket) -> None:
    for _ in range(3 * MAX_CONNECTIONS):
        lane, events = lane_of(1, router)
        kinds_until(events, monitor.HANDSHAKE_SUCCEEDED)
        lane.close()
    for _ in range(3 * MAX_CONNECTIONS):
        lane, events = lane_of(1, router)
        speak(lane, events, router)
        lane.close()


_HOLD_NINE = """
import sys, zmq
from fastdist.distributed.sockets import CurveSecurity, JobSecret, connect, make_socket
security = CurveSecurity.for_rank(JobSecret.parse("5a" * 32, "test"), "job", 1, 3)
lanes = [make_socket(zmq.DEALER, "lane") for _ in range(9)]
for lane in lanes:
    lane.set(zmq.SNDTIMEO, 10_000)
    connect(lane, sys.argv[1], security, "rank:0")
    lane.send(b"hello")
print("there", flush=True)
sys.stdin.read()
"""


def test_a_member_that_comes_back_while_its_earlier_life_is_frozen_gets_in(router: Socket) -> None:
    command = [sys.executable, "-c", _HOLD_NINE, endpoint_of(router)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as frozen:
        assert frozen.stdout is not None and frozen.stdout.readline() == b"there\n"
        assert router.connections is not None
        for _ in range(MAX_CONNECTIONS):
            route, word = router.recv_multipart(copy=False)
            router.connections.spoke("1", route.bytes, int(word.get(zmq.SRCFD)))
        freeze(frozen.pid)
        lane, events = lane_of(1, router)
        # The member is rejected until the connections of its frozen process are closed.
        kinds_until(events, monitor.HANDSHAKE_FAILED)
        speak(lane, events, router)
        lane.close()
        frozen.kill()


def test_closing_the_socket_closes_what_watched_it() -> None:
    router = make_socket(zmq.ROUTER, "router that goes")
    other = make_socket(zmq.ROUTER, "router that stays")
    for one in (router, other):
        bind(one, "tcp://127.0.0.1:0", CurveSecurity.for_rank(SECRET, "job", 0, 3))
    router.close()
    assert sorted(open_socket_names()) == [
        "monitor of router that stays",
        "router that stays",
        "zap",
    ]
    other.close()
    assert open_socket_names() == ()
