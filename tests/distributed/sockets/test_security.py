"""Admission over TCP, all known ways in which libzmq would admit strangers, and the reports."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
import zmq

from fastdist.distributed.sockets import (
    CurveSecurity,
    JobSecret,
    NoSecurity,
    Roster,
    Security,
    Socket,
    SocketMonitor,
    authenticated_rank,
    authenticator,
    bind,
    connect,
    is_loopback,
    make_socket,
    monitor,
)
from fastdist.distributed.sockets.security import derive_secret_key
from tests.distributed.sockets.test_monitor import kinds_until

SECRET = JobSecret.parse("5a" * 32, "test")
FAILED = {monitor.HANDSHAKE_FAILED, monitor.REFUSED, monitor.MISMATCHED}


@pytest.fixture
def router() -> Iterator[Socket]:
    router = make_socket(zmq.ROUTER, "router of rank 0")
    router.set(zmq.RCVTIMEO, 10_000)
    bind(router, "tcp://127.0.0.1:0", CurveSecurity.for_rank(SECRET, "job", 0, 3))
    yield router
    router.close()


def endpoint_of(router: Socket) -> str:
    return router.get_string(zmq.LAST_ENDPOINT).rstrip("\0")


def first_verdict(endpoint: str, security: Security, peer: str = "rank:0") -> str:
    """Connect once, and return the outcome of the handshake."""
    lane = make_socket(zmq.DEALER, "lane that is judged")
    events = SocketMonitor(lane)
    connect(lane, endpoint, security, peer)
    deadline = time.monotonic() + 10
    while (event := events.receive(deadline)) is not None:
        if event.kind in {monitor.HANDSHAKE_SUCCEEDED, *FAILED}:
            break
    lane.close()
    assert event is not None
    return event.kind


def member(rank: int, secret: JobSecret = SECRET, job: str = "job", world: int = 3) -> Security:
    return CurveSecurity.for_rank(secret, job, rank, world)


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_a_member_is_let_in_and_its_rank_is_known(router: Socket, rank: int) -> None:
    # The peer chooses its routing id freely, but its rank is derived from its key.
    lane = make_socket(zmq.DEALER, "lane", identity=b"I am rank 7")
    lane.set(zmq.SNDTIMEO, 10_000)
    connect(lane, endpoint_of(router), member(rank), peer="rank:0")
    lane.send_multipart([b"one", b"two"])
    frames = router.recv_multipart(copy=False)
    assert [authenticated_rank(frame) for frame in frames] == [rank] * 3
    lane.close()


@pytest.mark.parametrize(
    ("security", "peer"),
    [
        (member(1, secret=JobSecret.generate()), "rank:0"),
        (member(1, job="another job"), "rank:0"),
        (member(3, world=4), "rank:0"),
        (member(1), "rank:2"),
        (CurveSecurity(SECRET, "job", "client:0", Roster(SECRET, "job", "x", 0)), "rank:0"),
        (NoSecurity(), "rank:0"),
    ],
    ids=["secret", "job", "rank", "server-key", "role", "plain"],
)
def test_whoever_does_not_hold_the_right_key_is_refused(
    router: Socket, security: Security, peer: str
) -> None:
    assert first_verdict(endpoint_of(router), security, peer) in FAILED


def test_a_public_key_without_its_secret_is_refused(router: Socket) -> None:
    """An attacker knows all unencrypted traffic, and a member's public key."""
    lane = make_socket(zmq.DEALER, "thief")
    events = SocketMonitor(lane)
    lane.set(zmq.CURVE_SERVERKEY, zmq.curve_public(derive_secret_key(SECRET, "job", "rank:0")))
    lane.set(zmq.CURVE_PUBLICKEY, zmq.curve_public(derive_secret_key(SECRET, "job", "rank:1")))
    lane.set(zmq.CURVE_SECRETKEY, zmq.curve_keypair()[1])
    lane.connect(endpoint_of(router))
    assert FAILED & set(kinds_until(events, monitor.HANDSHAKE_FAILED))
    lane.close()


def test_nobody_new_is_let_in_when_the_handler_has_died(router: Socket) -> None:
    """If the handler has died, libzmq without ZAP_ENFORCE_DOMAIN admits all peers (issue 2711)."""
    handler = authenticator._handler
    assert handler is not None
    handler.stop()
    stranger = CurveSecurity.for_rank(JobSecret.generate(), "job", 1, 3)
    stranger._secret = SECRET  # as if the stranger knew the server's public key
    assert first_verdict(endpoint_of(router), stranger) in FAILED
    assert first_verdict(endpoint_of(router), member(1)) in FAILED


def test_a_key_that_the_roster_does_not_know_is_refused_in_so_many_words(router: Socket) -> None:
    stranger = CurveSecurity.for_rank(JobSecret.generate(), "job", 1, 3)
    stranger._secret = SECRET
    assert first_verdict(endpoint_of(router), stranger) == monitor.REFUSED


def test_each_router_of_a_process_has_its_own_members(router: Socket) -> None:
    other = make_socket(zmq.ROUTER, "router of another job")
    security = CurveSecurity.for_rank(SECRET, "other", 0, 3)
    endpoint = bind(other, "tcp://127.0.0.1:0", security)
    assert first_verdict(endpoint, member(1, job="other")) == monitor.HANDSHAKE_SUCCEEDED
    assert first_verdict(endpoint, member(1)) in FAILED
    assert first_verdict(endpoint_of(router), member(1)) == monitor.HANDSHAKE_SUCCEEDED
    other.close()
    assert first_verdict(endpoint_of(router), member(1)) == monitor.HANDSHAKE_SUCCEEDED


def test_nothing_from_a_stranger_reaches_the_application(router: Socket) -> None:
    for security in (NoSecurity(), member(1, secret=JobSecret.generate())):
        lane = make_socket(zmq.DEALER, "stranger", options={zmq.IMMEDIATE: 0})
        connect(lane, endpoint_of(router), security, "rank:0")
        lane.send(b"let me in")
        lane.close()
    router.set(zmq.RCVTIMEO, 100)
    with pytest.raises(zmq.Again):
        router.recv()


def test_a_dynamic_group_admits_ranks_beyond_any_world_size() -> None:
    roster = Roster(SECRET, "job", "rank", 64)
    key = zmq.utils.z85.decode(zmq.curve_public(derive_secret_key(SECRET, "job", "rank:63")))
    assert roster.rank_of(key) == "63"
    assert roster.rank_of(bytes(32)) is None


def test_a_client_must_say_whom_it_expects() -> None:
    lane = make_socket(zmq.DEALER, "lane")
    with pytest.raises(ValueError, match="CURVE needs peer="):
        connect(lane, "tcp://127.0.0.1:4410", member(1))
    lane.close()


def test_no_rank_is_known_where_nobody_asked_for_proof() -> None:
    router, lane = make_socket(zmq.ROUTER, "router"), make_socket(zmq.DEALER, "lane")
    router.set(zmq.RCVTIMEO, 10_000)
    lane.set(zmq.SNDTIMEO, 10_000)
    connect(lane, bind(router, "tcp://127.0.0.1:0", NoSecurity()), NoSecurity())
    lane.send(b"message")
    assert [authenticated_rank(f) for f in router.recv_multipart(copy=False)] == [None, None]
    lane.close()
    router.close()


def test_keys_are_shown_nowhere() -> None:
    security = CurveSecurity.for_rank(SECRET, "job", 1, 3)
    shown = repr(security) + repr(NoSecurity())
    assert "5a5a" not in shown and security._secret_key.decode() not in shown


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("::ffff:10.0.0.7", False),
        ("7f00::1", False),
        ("localhost", True),
        ("0.0.0.0", False),
        ("10.0.0.7", False),
        ("localhost.example.org", False),
    ],
)
def test_loopback_is_told_from_the_network(host: str, loopback: bool) -> None:
    assert is_loopback(host) == loopback
