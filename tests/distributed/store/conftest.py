"""A store that is served by this process, and the question whether it still serves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fastdist.distributed.store import TCPStore, host_store


@pytest.fixture
def served() -> Iterator[TCPStore]:
    store, _ = host_store(timeout=10)
    yield store
    store.close()


def assert_serves(store: TCPStore) -> None:
    with TCPStore("127.0.0.1", store.port, timeout=10, secret=store.job_secret) as client:
        client.set("alive", "yes")
        assert client.get("alive") == b"yes"
