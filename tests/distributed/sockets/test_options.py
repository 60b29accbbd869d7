"""The socket options that fastdist sets, and the errors of bind and connect."""

from __future__ import annotations

import os

import pytest
import zmq

from fastdist.core.errors import AuthenticationError
from fastdist.distributed.sockets import (
    MAX_FRAME_BYTES,
    CurveSecurity,
    JobSecret,
    NoSecurity,
    SocketMonitor,
    bind,
    connect,
    ipc_endpoint,
    make_socket,
    monitor,
    reach_options,
    split_tcp_endpoint,
    tcp_endpoint,
    unique_name,
)
from tests.distributed.sockets.test_monitor import kinds_until
from tests.ports import ipv6_loopback

PLAIN = NoSecurity()
IPV6 = [f"[{host}]" for host in ipv6_loopback()]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        (zmq.LINGER, 0),
        (zmq.IMMEDIATE, 1),
        (zmq.SNDHWM, 0),
        (zmq.RCVHWM, 0),
        (zmq.HANDSHAKE_IVL, 5_000),
        (zmq.MAXMSGSIZE, MAX_FRAME_BYTES),
        # See Note [No heartbeats of libzmq's].
        (zmq.HEARTBEAT_IVL, 0),
        (zmq.TCP_KEEPALIVE, 1),
        (zmq.TCP_KEEPALIVE_IDLE, 1),
        (zmq.TCP_KEEPALIVE_INTVL, 1),
        (zmq.TCP_MAXRT, 2_000),
    ],
)
def test_every_socket_has_the_house_options(option: int, value: int) -> None:
    socket = make_socket(zmq.DEALER, "lane")
    assert socket.get(option) == value
    socket.close()


def test_options_that_are_given_win() -> None:
    options = {zmq.RCVHWM: 5}
    socket = make_socket(zmq.DEALER, "lane", identity=b"me", options=options)
    assert [socket.get(zmq.RCVHWM), socket.get(zmq.ROUTING_ID)] == [5, b"me"]
    socket.close()


def test_a_router_says_that_a_peer_is_not_there() -> None:
    router = make_socket(zmq.ROUTER, "router")
    with pytest.raises(zmq.ZMQError) as info:
        router.send_multipart([b"nobody", b"message"])
    assert info.value.errno == zmq.EHOSTUNREACH
    router.close()


def test_a_lane_does_not_queue_for_a_peer_that_is_not_there() -> None:
    lane = make_socket(zmq.DEALER, "lane")
    connect(lane, ipc_endpoint(unique_name("nobody")))
    with pytest.raises(zmq.Again):
        lane.send(b"message", zmq.NOBLOCK)
    lane.close()


@pytest.mark.parametrize("act", [bind, connect])
def test_tcp_without_a_decision_about_security_is_refused(act: object) -> None:
    socket = make_socket(zmq.DEALER, "lane")
    with pytest.raises(ValueError, match="tcp needs security=, a CurveSecurity or NoSecurity"):
        act(socket, "tcp://127.0.0.1:4410")  # type: ignore[operator]
    socket.close()


def test_one_router_serves_ipc_inproc_and_secured_tcp() -> None:
    secret = JobSecret.generate()
    router = make_socket(zmq.ROUTER, "router")
    router.set(zmq.RCVTIMEO, 10_000)
    endpoints = [
        bind(router, ipc_endpoint(unique_name("router"))),
        bind(router, f"inproc://{unique_name('router')}"),
        bind(router, "tcp://127.0.0.1:0", CurveSecurity.for_rank(secret, "", 0, 2)),
    ]
    for endpoint in endpoints:
        lane = make_socket(zmq.DEALER, f"lane to {endpoint}")
        lane.set(zmq.SNDTIMEO, 10_000)
        connect(lane, endpoint, CurveSecurity.for_rank(secret, "", 1, 2), peer="rank:0")
        lane.send(endpoint.encode())
        assert router.recv_multipart()[1] == endpoint.encode()
        lane.close()
    router.close()


def test_ipc_after_secured_tcp_is_refused() -> None:
    router = make_socket(zmq.ROUTER, "router")
    bind(router, "tcp://127.0.0.1:0", CurveSecurity.for_rank(JobSecret.generate(), "", 0, 2))
    with pytest.raises(ValueError, match="bind ipc before tcp"):
        bind(router, ipc_endpoint(unique_name("router")))
    router.close()


def test_a_file_where_a_socket_should_be_is_refused() -> None:
    endpoint = ipc_endpoint(unique_name("file"))
    path = endpoint.removeprefix("ipc://")
    with open(path, "w"):
        pass
    lane = make_socket(zmq.DEALER, "lane")
    with pytest.raises(AuthenticationError, match="is not a socket of this user"):
        connect(lane, endpoint)
    lane.close()
    os.unlink(path)


def test_a_socket_of_another_user_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    router, lane = make_socket(zmq.ROUTER, "router"), make_socket(zmq.DEALER, "lane")
    endpoint = bind(router, ipc_endpoint(unique_name("router")))
    monkeypatch.setattr(os, "getuid", lambda: 12_345)
    with pytest.raises(AuthenticationError, match=r"expected 12345"):
        connect(lane, endpoint)
    lane.close()
    router.close()


def test_a_frame_above_the_limit_ends_the_connection_that_brought_it() -> None:
    router = make_socket(zmq.ROUTER, "router", options={zmq.MAXMSGSIZE: 1_000})
    lane = make_socket(zmq.DEALER, "lane")
    events = SocketMonitor(lane)
    connect(lane, bind(router, "tcp://127.0.0.1:0", PLAIN), PLAIN)
    kinds_until(events, monitor.HANDSHAKE_SUCCEEDED)
    lane.send(b"x" * 1_001)
    kinds_until(events, monitor.DISCONNECTED)
    lane.close()
    router.close()


@pytest.mark.parametrize("host", ["127.0.0.1", *IPV6])
def test_each_loopback_address_is_bound_and_reached(host: str) -> None:
    router, lane = make_socket(zmq.ROUTER, "router"), make_socket(zmq.DEALER, "lane")
    router.set(zmq.RCVTIMEO, 10_000)
    lane.set(zmq.SNDTIMEO, 10_000)
    connect(lane, bind(router, f"tcp://{host}:0", PLAIN), PLAIN)
    lane.send(b"message")
    assert router.recv_multipart()[1] == b"message"
    lane.close()
    router.close()


@pytest.mark.parametrize(
    ("endpoint", "host", "port"),
    [
        ("tcp://10.0.0.7:4410", "10.0.0.7", 4410),
        ("tcp://[fe80::1]:80", "fe80::1", 80),
        ("tcp://node7:*", "node7", 0),
    ],
)
def test_an_endpoint_is_split_and_joined(endpoint: str, host: str, port: int) -> None:
    assert split_tcp_endpoint(endpoint) == (host, port)
    assert port == 0 or tcp_endpoint(host, port) == endpoint


@pytest.mark.parametrize("endpoint", ["tcp://node7", "tcp://:80", "tcp://node7:http", "tcp://"])
def test_an_endpoint_that_is_none_is_named(endpoint: str) -> None:
    with pytest.raises(ValueError, match="expected tcp://HOST:PORT"):
        split_tcp_endpoint(endpoint)


@pytest.mark.parametrize(("unreachable_ms", "count"), [(2_000, 2), (10_000, 10), (600_000, 127)])
def test_connections_outlast_as_long_as_they_are_to(unreachable_ms: int, count: int) -> None:
    socket = make_socket(zmq.DEALER, "lasting", options=reach_options(unreachable_ms))
    assert socket.get(zmq.TCP_KEEPALIVE_CNT) == count
    assert socket.get(zmq.TCP_MAXRT) == unreachable_ms
    socket.close()
