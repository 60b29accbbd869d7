"""Dead, frozen, foreign and late workers are detected in time by everyone concerned."""

from __future__ import annotations

import http.client
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from fastdist.core.errors import (
    RpcError,
    StaleIncarnationError,
    WorkerLostError,
)
from fastdist.distributed import rpc
from tests.distributed.members import init, leave_without
from tests.distributed.workers import Group, wait_at
from tests.standstill import Standstill


def init_tcp() -> None:
    init(_transports=["uv"])


def leave() -> None:
    rpc.shutdown()


def leave_at_once() -> None:
    rpc.shutdown(graceful=False)


def who() -> str:
    return rpc.get_worker_info().name


def hold(seconds: float) -> str:
    threading.Event().wait(seconds)
    return "held"


@pytest.fixture
def group() -> Iterator[Group]:
    group = Group(__file__, 3)
    try:
        yield group
    finally:
        group.kill()


class Waiters:
    """Pending calls of every kind to w1, which is then killed, frozen or cut off."""

    def __init__(self) -> None:
        self.ended: list[tuple[float, BaseException]] = []
        self.threads: list[threading.Thread] = []
        self.stood = Standstill()
        self.waiting = ExitStack()

    def begin(self) -> None:
        never = ("a gate that nobody opens",)
        rref = rpc.remote("w1", wait_at, never)
        for call in (
            lambda: rpc.rpc_sync("w1", wait_at, never),
            lambda: rpc.rpc_sync("w1", wait_at, never, timeout=0),
            lambda: rpc.rpc_async("w1", wait_at, never, timeout=0).wait(),
            lambda: rref.to_here(timeout=0),
        ):
            self.threads.append(threading.Thread(target=self._wait_for, args=(call,)))
            self.threads[-1].start()
        deadline = time.monotonic() + 10
        while int(rpc.rpc_sync("w1", rpc._get_debug_info)["agent.server_active_calls"]) < 6:
            assert time.monotonic() < deadline
        self.waiting.enter_context(self.stood)

    def _wait_for(self, call: Callable[[], object]) -> None:
        try:
            call()
        except BaseException as error:
            self.ended.append((time.monotonic(), error))

    def end(self) -> list[tuple[float, str, str]]:
        """Return each call's outcome and end time, without the time this worker was stopped."""
        with self.waiting:
            for thread in self.threads:
                thread.join(30)
        return [
            (when - self.stood.seconds, type(error).__name__, str(error))
            for when, error in self.ended
        ]


waiters = Waiters()


def begin_waiting() -> None:
    waiters.begin()


def end_waiting() -> list[tuple[float, str, str]]:
    return waiters.end()


def call_the_dead() -> None:
    for call in (
        lambda: rpc.rpc_sync("w1", who),
        lambda: rpc.rpc_async("w1", who).wait(),
        lambda: rpc.remote("w1", who).to_here(),
    ):
        with Standstill() as stood:
            began = time.monotonic()
            with pytest.raises(WorkerLostError, match="worker 'w1'"):
                call()
            took_s = time.monotonic() - began
        assert took_s - stood.seconds < 0.5
    assert rpc.rpc_sync("w2", who) == "w2"
    assert rpc._get_debug_info()["agent.client_active_calls"] == "0"


@pytest.mark.seed("T15")
@pytest.mark.parametrize("prepare", [init, init_tcp], ids=["ipc", "tcp"])
def test_all_calls_to_a_killed_worker_end_with_its_name(
    group: Group, prepare: Callable[[], None]
) -> None:
    group.run_all(prepare)
    group[0].run(begin_waiting)
    group[1].kill()
    # Measure from the end of the process: this test may be delayed before the kill, and each thread
    # of the killed process needs a core to end. Nothing can detect the death earlier.
    group[1].process.wait(20)
    killed = time.monotonic()
    ended = group[0].run(end_waiting)
    assert len(ended) == 4
    for when, kind, text in ended:
        assert kind == "WorkerLostError" and "worker 'w1' (rank 1) was lost" in text
        assert when - killed < 0.2, f"{when - killed:.3f} s"
    group[0].run(call_the_dead)
    # The survivors leave without w1, and report that as an error.
    for rank in (0, 2):
        group[rank].start(leave_without, "w1")
    for rank in (0, 2):
        group[rank].result()
        assert group[rank].end() == 0


@pytest.mark.one_in(8)
def test_a_frozen_worker_is_lost_after_ten_seconds_whatever_the_timeout(group: Group) -> None:
    group.run_all(init)
    group[0].run(begin_waiting)
    group[1].kill(signal.SIGSTOP)
    frozen = time.monotonic()
    ended = group[0].run(end_waiting)
    assert len(ended) == 4
    for when, kind, text in ended:
        assert kind == "WorkerLostError" and "no sign of life" in text
        assert 5 < when - frozen < 11, f"{when - frozen:.3f} s"
    # The worker wakes, and is notified that it was removed.
    group[1].kill(signal.SIGCONT)
    group[1].run(find_out_that_we_are_lost)
    group[0].run(call_the_dead)
    group[0].run(leave_at_once)
    group[2].run(leave_at_once)


def find_out_that_we_are_lost() -> None:
    deadline = time.monotonic() + 10
    while True:
        try:
            rpc.rpc_sync("w0", who, timeout=1)
        except (StaleIncarnationError, WorkerLostError) as error:
            if "declared lost" in str(error) or "was lost" in str(error):
                return
        except RpcError:
            pass
        assert time.monotonic() < deadline


def ping(worker: str) -> str:
    return rpc.rpc_sync(worker, who, timeout=5)


def ping_until_it_answers(worker: str) -> str:
    deadline = time.monotonic() + 10
    while True:
        try:
            return rpc.rpc_async(worker, who, timeout=5).wait()
        except RpcError:
            assert time.monotonic() < deadline


@pytest.mark.one_in(8)
def test_a_worker_that_was_frozen_for_a_moment_comes_back(group: Group) -> None:
    group.run_all(init)
    assert group[0].run(ping, "w1") == "w1"
    group[1].kill(signal.SIGSTOP)
    threading.Timer(4.0, group[1].kill, (signal.SIGCONT,)).start()
    assert group[0].run(hold, 3.0) == "held"
    assert group[0].run(ping_until_it_answers, "w1") == "w1"
    assert group[0].run(ping, "w1") == "w1"
    assert group[1].run(ping_until_it_answers, "w0") == "w0"
    group.run_all(leave)


def listener_ports() -> dict[str, str]:
    return dict(rpc._get_current_rpc_agent().me.addresses)  # type: ignore[attr-defined]


def rubbish_dropped() -> int:
    return int(rpc._get_debug_info()["agent.messages_dropped_as_rubbish"])


def wait_for_rubbish() -> None:
    # A rejected peer gets the rejection before its remaining messages are read.
    deadline = time.monotonic() + 10
    while not rubbish_dropped():
        assert time.monotonic() < deadline


def post(host: str, port: int) -> None:
    connection = http.client.HTTPConnection(host, port, timeout=0.2)
    try:
        connection.request("POST", "/", body=b"x" * 1_000)
        connection.getresponse()
    finally:
        connection.close()


@pytest.mark.one_in(7, each=True)
@pytest.mark.parametrize("security", [None, "none"])
def test_strangers_on_the_port_reach_nobody(group: Group, security: str | None) -> None:
    group.run_all(init_with_security, security)
    address = group[1].run(listener_ports)["uv"].removeprefix("tcp://")
    host, _, port = address.rpartition(":")
    strangers: list[socket.socket] = []
    for payload in (
        b"",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 10,
        os.urandom(4096),
        b"\xff\0\0\0\0\0\0\0\1\x7f" + b"\0" * 200,
        b"\xff\0\0\0\0\0\0\0\1\x7f\3\0NULL" + b"\0" * 200,
        b"\1\0" * 500,
    ):
        stranger = socket.create_connection((host, int(port)), timeout=5)
        strangers.append(stranger)
        try:
            stranger.sendall(payload)
        except ConnectionError:
            pass  # the peer closed the connection first
    with pytest.raises((OSError, http.client.HTTPException)):
        post(host, int(port))
    assert group[0].run(ping, "w1") == "w1"
    assert group[2].run(ping, "w1") == "w1"
    for stranger in strangers:
        stranger.close()
    assert group[0].run(ping, "w1") == "w1"
    group.run_all(leave)


def init_with_security(security: str | None) -> None:
    init(_transports=["uv"], security=security)


def speak_plainly(address: str, rank: int, incarnation: int, patience_ms: int) -> str:
    """Send a member's messages without the member's key, as any process at the port could."""
    import zmq

    from fastdist.distributed.rpc.message.message import Message

    context = zmq.Context()
    try:
        dealer = context.socket(zmq.DEALER)
        dealer.set(zmq.LINGER, 0)
        dealer.set(zmq.SNDTIMEO, patience_ms)
        dealer.set(zmq.RCVTIMEO, patience_ms)
        dealer.connect(address)
        try:
            for _ in range(3):
                dealer.send(Message(0x181, source=rank, incarnation=incarnation).encode()[0])
                dealer.send(Message(0x102, 5, source=rank, incarnation=incarnation).encode()[0])
                dealer.send(os.urandom(200))
            return f"answered {dealer.recv()!r}"
        except zmq.Again:
            return "nothing"
        finally:
            dealer.close()
    finally:
        context.term()


@pytest.mark.one_in(8)
def test_a_stranger_without_the_secret_is_not_heard(group: Group) -> None:
    group.run_all(init_tcp)
    address = group[1].run(listener_ports)["uv"]
    assert speak_plainly(address, 0, 1, patience_ms=500) == "nothing"
    assert group[1].run(rubbish_dropped) == 0
    assert group[0].run(ping, "w1") == "w1"
    group.run_all(leave)


@pytest.mark.one_in(8)
def test_a_worker_of_an_earlier_life_is_refused(group: Group) -> None:
    group.run_all(init)
    address = group[1].run(listener_ports)["ipc"]
    # Only this user can open the socket file; a peer with an old incarnation gets a rejection.
    answer = speak_plainly(address, 0, 12345, patience_ms=10_000)
    assert "was replaced" in answer and "StaleIncarnationError" in answer
    group[1].run(wait_for_rubbish)
    assert group[0].run(ping, "w1") == "w1"
    group.run_all(leave)


def leave_and_listen() -> list[str]:
    records = logging.getLogger("fastdist.distributed.rpc.leaving")
    lines: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    records.addHandler(handler)
    leave_without("w1")
    return lines


@pytest.mark.one_in(8)
def test_a_shutdown_without_a_worker_that_was_lost_says_so(group: Group) -> None:
    group.run_all(init)
    group[0].run(begin_waiting)
    group[1].kill()
    group[0].run(end_waiting)
    group[2].start(leave_and_listen)
    (line,) = group[0].run(leave_and_listen)
    assert line.startswith(
        "worker 'w0' shuts down without worker 'w1' (rank 1): its process has ended"
    )
    # w2 never communicated with w1: the leader of the shutdown reports the loss.
    (line,) = group[2].result()
    assert line.startswith(
        "worker 'w2' shuts down without worker 'w1' (rank 1): its process has ended"
    )
