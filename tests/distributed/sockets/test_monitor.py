"""Events of connections, and a monitor that never stalls libzmq's I/O thread."""

from __future__ import annotations

import socket as standard_socket
import time

import zmq

from fastdist.distributed.sockets import (
    CurveSecurity,
    JobSecret,
    NoSecurity,
    Socket,
    SocketMonitor,
    bind,
    connect,
    make_socket,
    monitor,
    open_socket_count,
)

PLAIN = NoSecurity()


def kinds_until(events: SocketMonitor, last: str) -> list[str]:
    """Return the kinds of events until an event of the kind `last`, which must occur."""
    kinds: list[str] = []
    deadline = time.monotonic() + 10
    while last not in kinds:
        event = events.receive(deadline)
        assert event is not None, kinds
        kinds.append(event.kind)
    return kinds


def test_a_connection_tells_its_life() -> None:
    router, lane = make_socket(zmq.ROUTER, "router"), make_socket(zmq.DEALER, "lane")
    events = SocketMonitor(lane)
    connect(lane, bind(router, "tcp://127.0.0.1:0", PLAIN), PLAIN)
    kinds = kinds_until(events, monitor.HANDSHAKE_SUCCEEDED)
    router.close()
    kinds += kinds_until(events, monitor.DISCONNECTED)
    assert kinds == [monitor.CONNECTED, monitor.HANDSHAKE_SUCCEEDED, monitor.DISCONNECTED]
    lane.close()


def test_closing_a_socket_closes_its_monitor() -> None:
    before = open_socket_count()
    lane = make_socket(zmq.DEALER, "lane")
    events = SocketMonitor(lane)
    lane.close()
    assert open_socket_count() == before
    assert events.try_receive() is None


def test_a_monitor_may_end_before_its_socket() -> None:
    router, lane = make_socket(zmq.ROUTER, "router"), make_socket(zmq.DEALER, "lane")
    events = SocketMonitor(lane)
    events.close()
    connect(lane, bind(router, "tcp://127.0.0.1:0", PLAIN), PLAIN)
    assert_carries(router, lane)
    router.close()
    lane.close()


def test_closing_in_the_middle_of_events_does_not_stall_the_other_connections() -> None:
    router, lane = make_socket(zmq.ROUTER, "router"), make_socket(zmq.DEALER, "lane")
    secret = JobSecret.generate()
    endpoint = bind(router, "tcp://127.0.0.1:0", CurveSecurity.for_rank(secret, "", 0, 2))
    connect(lane, endpoint, CurveSecurity.for_rank(secret, "", 1, 2), peer="rank:0")
    stranger = CurveSecurity.for_rank(JobSecret.generate(), "", 1, 2)
    for _ in range(30):
        refused = make_socket(
            zmq.DEALER, "refused", options={zmq.RECONNECT_IVL: 1, zmq.RECONNECT_IVL_MAX: 1}
        )
        events = SocketMonitor(refused)
        connect(refused, endpoint, stranger, peer="rank:0")
        kinds_until(events, monitor.HANDSHAKE_FAILED)
        # At this time libzmq is about to report that it retries, has connected, was rejected, and
        # so on.
        refused.close()
    assert_carries(router, lane)
    router.close()
    lane.close()


def test_thousands_of_events_that_nobody_reads_do_not_stall_the_connections() -> None:
    router, lane = make_socket(zmq.ROUTER, "router"), make_socket(zmq.DEALER, "lane")
    events = SocketMonitor(router)
    endpoint = bind(router, "tcp://127.0.0.1:0", PLAIN)
    port = int(endpoint.rpartition(":")[2])
    for _ in range(400):
        standard_socket.create_connection(("127.0.0.1", port)).close()
    connect(lane, endpoint, PLAIN)
    assert_carries(router, lane)
    assert events.try_receive() is not None
    router.close()
    lane.close()


def assert_carries(router: Socket, lane: Socket) -> None:
    lane.set(zmq.SNDTIMEO, 10_000)
    router.set(zmq.RCVTIMEO, 10_000)
    lane.send(b"message")
    assert router.recv_multipart()[1] == b"message"
