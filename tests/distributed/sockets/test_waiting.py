"""Sleeping on ZeroMQ sockets and descriptors: a message that arrives always wakes the thread."""

from __future__ import annotations

import math
import select
import threading
import time
from collections.abc import Iterator

import pytest
import zmq

from fastdist.distributed.sockets import (
    Doorbell,
    Socket,
    Waiter,
    bind,
    connect,
    has_message,
    make_socket,
    poll_timeout_ms,
    unique_name,
)
from tests.standstill import Standstill


@pytest.fixture
def pair() -> Iterator[tuple[Socket, Socket]]:
    endpoint = f"inproc://{unique_name('waiting')}"
    one, two = make_socket(zmq.PAIR, "one"), make_socket(zmq.PAIR, "two")
    bind(one, endpoint)
    connect(two, endpoint)
    yield one, two
    one.close()
    two.close()


def test_a_message_whose_edge_a_send_took_is_still_found(pair: tuple[Socket, Socket]) -> None:
    one, two = pair
    for i in range(200):
        one.send(b"to two")
        # This send may consume the edge (the signal) of the message that has just arrived at `two`.
        two.send(b"to one")
        assert Waiter(two).wait(time.monotonic() + 10) == [two], i
        assert [two.recv(), one.recv()] == [b"to two", b"to one"]
        assert not has_message(two)


def test_the_trap_is_real_and_passing_the_edge_on_mends_it(pair: tuple[Socket, Socket]) -> None:
    one, two = pair
    bell, poller = Doorbell(), select.poll()
    poller.register(int(two.get(zmq.FD)), select.POLLIN)
    one.send(b"to two")
    assert has_message(two)  # consumes the edge, like another sender on `two` does under the lock
    assert poller.poll(0) == []
    bell.ring()
    waiter = Waiter(bell)
    assert waiter.wait(0) == [bell]
    assert two.recv() == b"to two"
    bell.close()


def test_ping_pong_between_threads_never_sleeps_through(pair: tuple[Socket, Socket]) -> None:
    one, two = pair
    rounds = 2_000

    def answer() -> None:
        waiter = Waiter(two)
        for _ in range(rounds):
            waiter.wait(None)
            two.send(two.recv())

    thread = threading.Thread(target=answer)
    thread.start()
    waiter = Waiter(one)
    for i in range(rounds):
        one.send(b"%d" % i)
        assert waiter.wait(time.monotonic() + 10) == [one]
        assert one.recv() == b"%d" % i
    thread.join()


def test_what_is_ready_is_told_apart(pair: tuple[Socket, Socket]) -> None:
    one, two = pair
    bell = Doorbell()
    waiter = Waiter(two, bell)
    bell.ring()
    assert waiter.wait(None) == [bell]
    one.send(b"")
    assert waiter.wait(None) == [two, bell]
    waiter.remove(bell)
    assert waiter.wait(None) == [two]
    waiter.remove(two)
    assert waiter.wait(0) == []
    bell.close()


def test_waiting_ends_at_the_deadline_and_not_before(pair: tuple[Socket, Socket]) -> None:
    with Standstill() as stood:
        started = time.monotonic()
        assert Waiter(pair[0]).wait(started + 0.05) == []
    waited_s = time.monotonic() - started
    assert waited_s >= 0.05 and waited_s - stood.seconds < 2


def test_poll_timeout_is_never_early_and_never_too_large_for_poll() -> None:
    now = time.monotonic()
    assert poll_timeout_ms(now - 1) == 0
    assert poll_timeout_ms(None) is None and poll_timeout_ms(math.inf) is None
    timeout_ms = poll_timeout_ms(now + 5.0101)
    assert timeout_ms is not None
    assert 1000 * (now + 5.0101 - time.monotonic()) <= timeout_ms <= 5011
    assert poll_timeout_ms(now + 1e12) == 2**31 - 1
