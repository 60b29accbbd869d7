"""A pulse shows whether a connection's process runs: libzmq answers without keys or Python."""

from __future__ import annotations

import errno
import os
import select
import signal
import socket as standard_socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import zmq

from fastdist.distributed.sockets import (
    Beat,
    CurveSecurity,
    JobSecret,
    NoSecurity,
    Pulse,
    SocketMonitor,
    bind,
    connect,
    hang_up,
    make_socket,
    monitor,
)
from fastdist.distributed.sockets import pulse as pulse_module
from fastdist.distributed.sockets.pulse import Knock
from tests.standstill import freeze

SECRET = JobSecret.parse("5a" * 32, "test")
PLAIN = NoSecurity()

_LISTEN = """
import signal, sys, zmq
from fastdist.distributed.sockets import CurveSecurity, JobSecret, bind, make_socket
security = CurveSecurity.for_rank(JobSecret.parse("5a" * 32, "test"), "job", 0, 2)
print(bind(make_socket(zmq.ROUTER, "router"), sys.argv[1], security), flush=True)
signal.pause()
"""


@pytest.fixture(params=["ipc", "tcp"])
def far(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, subprocess.Popen]]:
    """Yield the address at which another process listens, and this process."""
    endpoint = f"ipc://{tmp_path}/s" if request.param == "ipc" else "tcp://127.0.0.1:0"
    command = [sys.executable, "-c", _LISTEN, endpoint]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip(), process
        process.kill()


def join(endpoint: str) -> standard_socket.socket:
    """Return a plain connection, over which the test sends nothing."""
    if endpoint.startswith("ipc://"):
        connection = standard_socket.socket(standard_socket.AF_UNIX)
        connection.connect(endpoint.removeprefix("ipc://"))
        return connection
    return standard_socket.create_connection(("127.0.0.1", int(endpoint.rpartition(":")[2])))


def wait_for_answer(pulse: Pulse) -> None:
    assert pulse.knock is not None and pulse.knock.fileno() >= 0
    poller = select.poll()
    poller.register(pulse.knock.fileno(), select.POLLIN)
    assert poller.poll(20_000)


@pytest.mark.one_in(2)
def test_a_process_that_runs_answers_and_one_that_stands_still_does_not(
    far: tuple[str, subprocess.Popen[str]],
) -> None:
    endpoint, process = far
    pulse = Pulse()
    with join(endpoint) as connection:
        pulse.connected(connection.fileno())
        for _ in range(3):
            assert pulse.beat() is Beat.FINE
            wait_for_answer(pulse)
        assert pulse.beat() is Beat.FINE
        wait_for_answer(pulse)
        freeze(process.pid)
        # The first beat has the answer to the knock before it; the next two beats find no answer.
        assert pulse.beat() is Beat.FINE
        assert [pulse.beat() for _ in range(2)] == [Beat.LATE, Beat.FROZEN]
        process.send_signal(signal.SIGCONT)
        wait_for_answer(pulse)
        assert pulse.beat() is Beat.FINE
        pulse.disconnected()
        assert pulse.knock is None


@pytest.mark.one_in(2)
def test_a_sign_of_life_by_any_other_way_counts(far: tuple[str, subprocess.Popen[str]]) -> None:
    endpoint, process = far
    closed: list[int] = []
    pulse = Pulse()
    pulse.before_close = lambda knock: closed.append(knock.fileno())
    with join(endpoint) as connection:
        freeze(process.pid)
        pulse.connected(connection.fileno())
        assert [pulse.beat() for _ in range(2)] == [Beat.FINE, Beat.LATE]
        assert pulse.knock is not None
        asked = pulse.knock.fileno()
        pulse.heard()
        assert pulse.knock is None and closed == [asked]
        assert [pulse.beat() for _ in range(3)] == [Beat.FINE, Beat.LATE, Beat.FROZEN]
        pulse.disconnected()


def test_a_queue_at_the_door_that_is_full_is_no_answer(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    with standard_socket.socket(standard_socket.AF_UNIX) as door:
        door.bind(path)
        door.listen(0)
        with join(f"ipc://{path}") as connection:
            knock = Knock(connection.fileno())
            assert not knock.is_answered() and knock.fileno() == -1
            knock.close()


def test_where_nobody_can_be_asked_nobody_is_taken_for_frozen(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    pulse = Pulse()
    with standard_socket.socket(standard_socket.AF_UNIX) as door:
        door.bind(path)
        door.listen()
        with join(f"ipc://{path}") as connection:
            os.unlink(path)
            pulse.connected(connection.fileno())
            assert [pulse.beat() for _ in range(4)] == [Beat.FINE] * 4
        # The connection has ended, but a pulse does not report that.
        assert [pulse.beat() for _ in range(4)] == [Beat.FINE] * 4
    pulse.disconnected()
    assert [pulse.beat() for _ in range(4)] == [Beat.FINE] * 4


@pytest.mark.parametrize("transport", ["ipc", "tcp"])
def test_a_connection_that_was_made_here_can_be_hung_up_on(transport: str, tmp_path: Path) -> None:
    router = make_socket(zmq.ROUTER, "router")
    endpoint = bind(
        router, f"ipc://{tmp_path}/s" if transport == "ipc" else "tcp://127.0.0.1:0", PLAIN
    )
    lane = make_socket(zmq.DEALER, "lane")
    events = SocketMonitor(lane)
    connect(lane, endpoint, PLAIN)
    descriptor = -1
    kinds: list[str] = []
    while monitor.DISCONNECTED not in kinds:
        event = events.receive(None)
        assert event is not None
        kinds.append(event.kind)
        if event.kind == monitor.CONNECTED:
            descriptor = event.value
        elif event.kind == monitor.HANDSHAKE_SUCCEEDED:
            assert not hang_up(descriptor, "ipc:///nowhere")
            assert hang_up(descriptor, endpoint)
    lane.close()
    router.close()


def test_knocks_at_a_secured_door_leave_nothing_behind() -> None:
    router = make_socket(zmq.ROUTER, "router")
    endpoint = bind(
        router, "tcp://127.0.0.1:0", CurveSecurity.for_rank(SECRET, "job", 0, 2, max_connections=2)
    )
    pulse = Pulse()
    with join(endpoint) as connection:
        pulse.connected(connection.fileno())
        for _ in range(20):
            assert pulse.beat() is Beat.FINE
            wait_for_answer(pulse)
        pulse.disconnected()
    lanes = [make_socket(zmq.DEALER, "lane") for _ in range(2)]
    for lane in lanes:
        lane.set(zmq.SNDTIMEO, 10_000)
        connect(lane, endpoint, CurveSecurity.for_rank(SECRET, "job", 1, 2), peer="rank:0")
        lane.send(b"hello")
        router.recv_multipart()
        lane.close()
    router.close()


def test_on_a_crowded_machine_more_knocks_may_stay_unanswered(tmp_path: Path) -> None:
    with standard_socket.socket(standard_socket.AF_UNIX) as door:
        door.bind(str(tmp_path / "door"))
        door.listen(8)  # the test never accepts a connection
        with standard_socket.socket(standard_socket.AF_UNIX) as connection:
            connection.connect(str(tmp_path / "door"))
            pulse = Pulse()
            pulse.most_missed_beats = 5
            pulse.connected(connection.fileno())
            try:
                found = [pulse.beat() for _ in range(6)]
            finally:
                pulse.disconnected()
    assert found == [Beat.FINE, *[Beat.LATE] * 4, Beat.FROZEN]


_CONSTANTS = ("SOCK_STREAM", "SOL_SOCKET", "SO_ERROR")


class NoWay(standard_socket.socket):
    """A connection attempt that the kernel rejects, immediately (`at_once`) or later."""

    at_once = True
    there_is_one = False

    def connect_ex(self, address: Any) -> int:
        if self.there_is_one:
            return super().connect_ex(address)
        return errno.ENETUNREACH if self.at_once else errno.EINPROGRESS

    def getsockopt(self, level: int, option: int, *more: int) -> int:  # type: ignore[override]
        assert (level, option) == (standard_socket.SOL_SOCKET, standard_socket.SO_ERROR)
        return 0 if self.there_is_one else errno.EHOSTUNREACH


@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "later"])
def test_a_host_to_which_no_way_leads_is_silent(
    at_once: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NoWay, "at_once", at_once)
    constants = {name: getattr(standard_socket, name) for name in _CONSTANTS}
    with_no_way = SimpleNamespace(socket=NoWay, **constants)
    pulse = Pulse()
    pulse.most_missed_beats = 3
    with (
        standard_socket.create_server(("127.0.0.1", 0)) as door,
        join(f"tcp://127.0.0.1:{door.getsockname()[1]}") as connection,
    ):
        monkeypatch.setattr(pulse_module, "standard_socket", with_no_way)
        pulse.connected(connection.fileno())
        # The operating system reports an unconnected socket as readable, like a failed attempt.
        found = [pulse.beat() for _ in range(4)]
        assert found == [Beat.FINE, Beat.LATE, Beat.LATE, Beat.FROZEN]
        # A reader has seen the failure between two beats, but the silence continues.
        pulse.look()
        assert pulse.knock is None and pulse.awaits_answer
        monkeypatch.setattr(NoWay, "there_is_one", True)
        assert pulse.beat() is Beat.FROZEN
        # The cable is connected again. The knock of that beat arrives after the first connection.
        for _ in range(2):
            door.accept()[0].close()
        wait_for_answer(pulse)
        assert pulse.beat() is Beat.FINE
        pulse.disconnected()
    assert not pulse.awaits_answer
