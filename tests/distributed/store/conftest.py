"""A store that this process serves, checks that it still works, and a client that does not wait."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import zmq

from fastdist.distributed.sockets import SocketEvent, SocketMonitor, Waiter, monitor
from fastdist.distributed.sockets.waiting import HasFileno
from fastdist.distributed.store import TCPStore, connection, host_store


@pytest.fixture
def served() -> Iterator[TCPStore]:
    store, _ = host_store(timeout=10)
    yield store
    store.close()


def end_waits_once_connected(monkeypatch: pytest.MonkeyPatch) -> None:
    """End the wait of a client that searches for a store as soon as the client has connected."""
    is_seen = False

    class Monitor(SocketMonitor):
        def try_receive(self) -> SocketEvent | None:
            nonlocal is_seen
            event = super().try_receive()
            is_seen = is_seen or (event is not None and event.kind == monitor.CONNECTED)
            return event

    class ImpatientWaiter(Waiter):
        def wait(self, deadline: float | None) -> list[zmq.Socket[bytes] | HasFileno]:
            return [] if is_seen else super().wait(deadline)

    monkeypatch.setattr(connection, "SocketMonitor", Monitor)
    monkeypatch.setattr(connection, "Waiter", ImpatientWaiter)


def assert_serves(store: TCPStore) -> None:
    with TCPStore("127.0.0.1", store.port, timeout=10, secret=store.job_secret) as client:
        client.set("alive", "yes")
        assert client.get("alive") == b"yes"
