"""Queues, clones, barriers and key lists of stores, and stores that a program implements."""

from __future__ import annotations

import socket
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from fastdist import distributed as dist
from fastdist.core.errors import StoreError, StoreTimeoutError
from fastdist.distributed.store import (
    FileStore,
    HashStore,
    PrefixStore,
    Store,
    TCPStore,
    host_store,
)


@pytest.fixture(params=["hash", "tcp", "prefix", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    made: Store = HashStore(10)
    if request.param == "tcp":
        made = host_store(timeout=10)[0]
    elif request.param == "file":
        made = FileStore(str(tmp_path / "store"), timeout=10)
    yield PrefixStore("p", made) if request.param == "prefix" else made
    made.close()


def test_queues_keep_the_order_and_wait_for_values(store: Any) -> None:
    assert store.queue_len("q") == 0 and not store.check(["q"])
    with pytest.raises(dist.QueueEmptyError, match="queue is empty"):
        store.queue_pop("q", block=False)
    store.queue_push("q", "1")
    store.queue_push("q", b"2")
    store.wait(["q"])
    assert store.check(["q"]) and store.queue_len("q") == 2
    assert [store.queue_pop("q"), store.queue_pop("q", block=False)] == [b"1", b"2"]
    assert not store.check(["q"]) and store.queue_len("q") == 0
    other, found = store.clone(), []
    threads = [threading.Thread(target=lambda: found.append(other.queue_pop("q"))) for _ in "ab"]
    for thread in threads:
        thread.start()
    store.queue_push("q", "3")
    store.queue_push("q", "4")
    for thread in threads:
        thread.join(10)
    assert sorted(found) == [b"3", b"4"] and store.queue_len("q") == 0
    store.set_timeout(0.01)
    with pytest.raises(StoreTimeoutError, match=r"after 10ms, keys: /(p/)?q: .* 1 of 1 keys"):
        store.queue_pop("q")
    other.close()


def test_keys_are_listed_and_clones_share_them(store: Any) -> None:
    store.set("a", "1")
    other = store.clone()
    other.set("b", "2")
    assert sorted(store.list_keys()) == ["a", "b"] and store.get("b") == b"2"
    store.barrier("done", 1)
    with pytest.raises(StoreTimeoutError):
        store.barrier("late", 2, timedelta(milliseconds=1))
    other.close()
    assert store.get("a") == b"1"


class Minimal(Store):
    """A store with only the methods that a program must implement."""

    def __init__(self) -> None:
        super().__init__()
        self.values: dict[str, bytes] = {}

    def get(self, key: str) -> bytes:
        return self.values[key]

    def set(self, key: str, value: Any) -> None:
        self.values[key] = value if isinstance(value, bytes) else value.encode()

    def compare_set(self, key: str, expected_value: Any, desired_value: Any) -> bytes:
        held = self.values.get(key, b"")
        if held == expected_value:
            self.values[key] = held = desired_value
        return held

    def wait(self, keys: Any, timeout: Any = None) -> None:
        assert timeout == timedelta(seconds=300) and all(key in self.values for key in keys)


def test_a_store_of_a_program_needs_only_the_methods_that_are_called() -> None:
    own = Minimal()
    view = PrefixStore("p", own)
    assert not own.has_extended_api() and not view.has_extended_api()
    view.append("k", "po")
    view.append("k", "tato")
    view.multi_set(["a", "b"], ["1", "2"])
    view.wait(["a"])
    assert view.multi_get(["k", "a", "b"]) == [b"potato", b"1", b"2"]
    assert own.values["p/k"] == b"potato"
    with pytest.raises(RuntimeError, match=r"Not implemented\. Minimal does not have num_keys\(\)"):
        view.num_keys()
    with pytest.raises(NotImplementedError, match="watch"):
        own.watch("p")
    with pytest.raises(ValueError, match="cannot be None"):
        PrefixStore("p", None)  # type: ignore[arg-type]
    assert PrefixStore("q", view)._underlying_non_prefix_store is own


def test_a_second_master_of_a_process_shares_the_store_and_a_third_is_refused() -> None:
    first = TCPStore("localhost", 0, 1, True, timeout=10, use_libuv=False)
    second = TCPStore("localhost", first.port, 1, True, timeout=10, multi_tenant=True)
    second.set("k", "v")
    assert first.get("k") == b"v" and not first.libuvBackend and second.libuvBackend
    with pytest.raises(dist.DistNetworkError, match="EADDRINUSE: address already in use"):
        TCPStore("localhost", first.port, is_master=True, timeout=1)
    first.close()
    assert second.get("k") == b"v"
    second.close()
    with pytest.raises(ValueError, match="world size cannot be 0"):
        TCPStore("localhost", 0, 0, True)


def test_a_master_alone_waits_for_workers_and_says_how_many_came() -> None:
    with pytest.raises(dist.DistStoreError, match=r"waiting for clients\. 1/2 clients joined"):
        TCPStore("localhost", 0, 2, True, timeout=0.01)
    first = TCPStore("localhost", 0, 3, True, timeout=10, wait_for_workers=False)
    others = [TCPStore("localhost", first.port, 3, timeout=10) for _ in range(2)]
    for one in (*others, first):
        one.close()


def test_a_listening_socket_of_a_launcher_becomes_the_store() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = listening.getsockname()[1]
        with pytest.raises(StoreError, match="port mismatch"):
            TCPStore("127.0.0.1", 1, is_master=True, master_listen_fd=dup(listening))
        descriptor = dup(listening)
    store = TCPStore("127.0.0.1", port, is_master=True, timeout=10, master_listen_fd=descriptor)
    assert store.port == port
    store.close()


def dup(listening: socket.socket) -> int:
    return listening.dup().detach()


def test_a_file_stays_until_all_that_opened_it_have_closed(tmp_path: Path) -> None:
    path = tmp_path / "store"
    process_groups, rpc = FileStore(str(path), 1), FileStore(str(path), 1)
    process_groups.close()
    assert path.exists()
    with rpc.clone() as other:
        other.set("k", "v")
        assert rpc.get("k") == b"v"
    rpc.close()
    assert not path.exists()
