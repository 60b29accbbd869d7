"""Malformed data, silence and strangers on its port do not affect the served store."""

from __future__ import annotations

import os
import resource
import socket
import time
from contextlib import ExitStack

import pytest
import zmq

from fastdist.core.errors import StoreError, StoreTimeoutError
from fastdist.distributed.sockets import NoSecurity, connect, make_socket, tcp_endpoint
from fastdist.distributed.store import TCPStore, access, host_store, server
from fastdist.distributed.store.access import client_security
from fastdist.distributed.store.requests import Op, Status
from fastdist.distributed.store.wire import Question, pack_question, unpack_reply
from tests.distributed.store.conftest import assert_serves, end_waits_once_connected


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "rubbish",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\xff\0\0\0\0\0\0\0\1\x7f\3\0NULL" + b"\0" * 60,
        b"\xff" * 1000,
        b"\0" * 1000,
        b"\1\0",
        os.urandom(4096),
        b"",
    ],
    ids=["http", "null-greeting", "ones", "zeros", "zmtp1", "random", "silence"],
)
def test_rubbish_on_the_port_leaves_the_store_serving(served: TCPStore, rubbish: bytes) -> None:
    peers = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(20)]
    for peer in peers:
        peer.sendall(rubbish)
    assert_serves(served)
    for peer in peers:
        peer.close()
    assert_serves(served)
    assert served.num_keys() == 1


def test_half_open_connections_are_closed_by_the_store(served: TCPStore) -> None:
    peers = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(50)]
    assert_serves(served)
    for peer in peers:
        peer.settimeout(15)
        # libzmq sends its greeting, receives none within HANDSHAKE_IVL, and closes the connection.
        while peer.recv(4096):
            pass
        peer.close()


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "frames",
    [
        [b""],
        [b"short"],
        [os.urandom(18)],
        [pack_question(Question(Op.SET, 1, 1.0, []))[0].replace(b"\1\1", b"\7\1", 1)],
        [pack_question(Question(Op.SET, 1, 1.0, []))[0].replace(b"\1\1", b"\1\x63", 1)],
        pack_question(Question(Op.SET, 7, 1.0, [b"key without value"])),
        pack_question(Question(Op.ADD, 7, 1.0, [b"key"])),
        pack_question(Question(Op.JOIN, 7, 1.0, [b"group", b"x", b"y", b"z"])),
        pack_question(Question(Op.NUM_KEYS, 7, 1.0, [])) + [b"more"] * 70_000,
    ],
)
def test_a_member_that_sends_rubbish_is_told_so(served: TCPStore, frames: list[bytes]) -> None:
    lane = make_socket(zmq.DEALER, "a member that sends rubbish")
    endpoint = tcp_endpoint("127.0.0.1", served.port)
    connect(lane, endpoint, client_security(served.job_secret), peer="store")
    lane.set(zmq.SNDTIMEO, 10_000)
    lane.set(zmq.RCVTIMEO, 10_000)
    lane.send_multipart(frames)
    assert unpack_reply(lane.recv_multipart()).status is Status.REFUSED
    lane.close()
    assert_serves(served)


def test_a_key_makes_no_more_connections_than_the_host_can_spare(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(access, "most_connections", lambda: 3)
    store, port = host_store(timeout=10)
    with store, ExitStack() as clients:
        first = clients.enter_context(TCPStore("127.0.0.1", port, timeout=10))
        first.set("first", "came")
        for _ in range(2):
            clients.enter_context(TCPStore("127.0.0.1", port, timeout=10)).num_keys()
        with monkeypatch.context() as patch:
            end_waits_once_connected(patch)
            with pytest.raises(StoreTimeoutError, match="does not accept more connections for now"):
                TCPStore("127.0.0.1", port, timeout=10)
        store.set("kept", "serving")
        first.close()
        with TCPStore("127.0.0.1", port, timeout=20) as late:
            assert late.get("kept") == b"serving"


@pytest.mark.parametrize(
    ("soft", "hard", "expected"),
    [(1024, 4096, 3072), (100, 100, 75), (1, 1, 1), (1024, resource.RLIM_INFINITY, 49_152)],
)
def test_the_bound_leaves_a_quarter_of_the_descriptors_that_can_be_had(
    soft: int, hard: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = [(soft, hard)]
    monkeypatch.setattr(resource, "getrlimit", lambda which: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda which, wanted: limits.append(wanted))
    assert access.most_connections() == expected


def test_a_watch_goes_with_its_connection(served: TCPStore) -> None:
    service = served._server
    assert service is not None
    with TCPStore("127.0.0.1", served.port, timeout=10) as client:
        client.watch("nothing that changes").close()
        deadline = time.monotonic() + 10
        while service._state.watchers():
            client.num_keys()
            assert time.monotonic() < deadline


def test_plain_strangers_do_not_stop_a_store_that_wants_no_proof() -> None:
    store, port = host_store(security="none")
    with store:
        stranger = make_socket(zmq.DEALER, "stranger")
        connect(stranger, tcp_endpoint("127.0.0.1", port), NoSecurity())
        stranger.set(zmq.SNDTIMEO, 10_000)
        for _ in range(100):
            stranger.send_multipart([b"", os.urandom(20), b"x"])
        with TCPStore("127.0.0.1", port, security="none", timeout=10) as client:
            client.set("key", "value")
        stranger.close()


def test_a_request_that_cannot_even_be_read_is_answered_and_the_store_goes_on(
    served: TCPStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def break_down(frames: list[bytes]) -> Question:
        raise RuntimeError("a mistake of ours")

    lane = make_socket(zmq.DEALER, "a member")
    connect(
        lane,
        tcp_endpoint("127.0.0.1", served.port),
        client_security(served.job_secret),
        peer="store",
    )
    lane.set(zmq.RCVTIMEO, 10_000)
    with monkeypatch.context() as patch:
        patch.setattr(server, "unpack_question", break_down)
        for _ in range(3):
            lane.send_multipart(pack_question(Question(Op.NUM_KEYS, 7, 1.0, [])))
            reply = unpack_reply(lane.recv_multipart())
            assert reply.status is Status.REFUSED and b"a mistake of ours" in reply.frames[0]
    lane.close()
    assert len(caplog.records) == 1
    assert_serves(served)


def test_a_mistake_outside_of_requests_ends_the_service_and_is_told_to_all(
    served: TCPStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_down(*_: object) -> None:
        raise RuntimeError("a mistake of ours")

    with TCPStore("127.0.0.1", served.port, timeout=10) as client:
        monkeypatch.setattr(server, "has_message", break_down)
        with pytest.raises(StoreError, match="is lost"):
            client.set("key", "value")
    with pytest.raises(
        StoreError, match=r"ended because of a bug: RuntimeError\('a mistake of ours'"
    ):
        served.close()
