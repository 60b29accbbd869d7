"""A client of a served store with a wrong or missing secret is rejected quickly."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from fastdist.core.errors import AuthenticationError
from fastdist.distributed.sockets import JobSecret
from fastdist.distributed.sockets.published_secret import publish_secret, withdraw_secret
from fastdist.distributed.store import TCPStore, host_store, tcp_store
from tests.distributed.store.conftest import assert_serves
from tests.standstill import Standstill


@pytest.fixture
def keyed() -> Iterator[TCPStore]:
    """Yield a store that was given a secret, and therefore publishes none."""
    store, _ = host_store(timeout=10, secret=JobSecret.generate())
    yield store
    store.close()


def refused_within_3_s(port: int, **protection: object) -> str:
    """Start a long search for a store; return its error, which must be raised within 3 s."""
    began = time.monotonic()
    with Standstill() as stood, pytest.raises(AuthenticationError) as told:
        TCPStore("127.0.0.1", port, timeout=60, **protection)  # type: ignore[arg-type]
    assert time.monotonic() - began - stood.seconds < 3.0
    return str(told.value)


def test_who_has_no_secret_is_told_soon_that_the_store_needs_one(keyed: TCPStore) -> None:
    told = refused_within_3_s(keyed.port)
    assert "left no secret" in told and "FASTDIST_JOB_SECRET_FILE" in told
    assert_serves(keyed)


@pytest.mark.one_in(3)
def test_who_finds_a_secret_of_an_earlier_owner_is_told_soon(keyed: TCPStore) -> None:
    left = publish_secret("127.0.0.1", keyed.port, JobSecret.generate())
    try:
        assert "left no secret for this user that opens it" in refused_within_3_s(keyed.port)
    finally:
        withdraw_secret("127.0.0.1", keyed.port, left)


def test_who_has_a_secret_is_told_soon_by_a_store_that_made_its_own() -> None:
    with host_store()[0] as store:
        assert "job secret" in refused_within_3_s(store.port, secret=JobSecret.generate())


@pytest.mark.one_in(3)
def test_who_has_no_secret_is_told_soon_that_the_store_has_no_security() -> None:
    with host_store(security="none")[0] as store:
        assert "security='none'" in refused_within_3_s(store.port)


@pytest.mark.one_in(3)
def test_a_secret_that_is_left_late_is_waited_for_and_nobody_is_warned() -> None:
    """The owner has bound the port, but publishes its secret only later."""
    told: list[tuple[int, str]] = []
    secret = JobSecret.generate()
    store, port = host_store(secret=secret, tell=lambda *line: told.append(line))
    with store, ThreadPoolExecutor() as pool:
        coming = pool.submit(TCPStore, "127.0.0.1", port, timeout=20)
        while ("127.0.0.1", port) not in tcp_store._locked_since:
            assert not coming.done()
        left = publish_secret("127.0.0.1", port, secret)
        try:
            coming.result(20).close()
        finally:
            withdraw_secret("127.0.0.1", port, left)
    # The probes that check whether the port is open may be logged, but below WARNING.
    assert [line for level, line in told if level >= logging.WARNING] == []
