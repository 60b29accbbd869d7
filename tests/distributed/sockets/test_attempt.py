"""The result of an attempt to connect to an address."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from fastdist.distributed.sockets import Attempt, free_port, tcp_endpoint


@pytest.fixture
def full() -> Iterator[int]:
    """Yield a port that accepts no more connections and never answers, as behind a pulled cable."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        port = server.getsockname()[1]
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", port))
        yield port
        for one in waiting:
            one.close()


def concluded(attempt: Attempt) -> None:
    """Wait until an attempt ends: as for the progress thread, its descriptor becomes readable."""
    poll = select.poll()
    poll.register(attempt.fileno(), select.POLLIN)
    assert poll.poll(5000)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_port_at_which_nobody_listens_refuses(host: str) -> None:
    with closing(Attempt(tcp_endpoint(host, free_port(host)))) as attempt:
        concluded(attempt)
        assert attempt.was_refused and attempt.why_not() == "Connection refused"


def test_a_port_at_which_somebody_listens_is_no_reason() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        closing(Attempt(tcp_endpoint("127.0.0.1", server.getsockname()[1]))) as attempt,
    ):
        server.accept()[0].close()
        assert attempt.why_not() == "" and not attempt.was_refused


def test_a_port_that_does_not_answer_has_refused_nobody(full: int) -> None:
    with closing(Attempt(tcp_endpoint("127.0.0.1", full))) as attempt:
        assert attempt.why_not() == "no answer" and not attempt.was_refused


def test_an_address_without_a_way_there_says_so() -> None:
    # A loopback address has no route to the IPv6 network that is reserved for documentation.
    with closing(Attempt("tcp://[2001:db8::1]:9")) as attempt:
        assert not attempt.was_refused
        assert attempt.why_not() in ("Network is unreachable", "No route to host", "no answer")
