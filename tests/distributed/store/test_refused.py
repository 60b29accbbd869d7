"""A store's host reports rejected clients: each once and immediately, and again at a timeout."""

from __future__ import annotations

import logging
import os
import queue
import re
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fastdist.core.errors import AuthenticationError, StoreTimeoutError
from fastdist.distributed.sockets import JobSecret, refusals
from fastdist.distributed.sockets.events import SocketEvent
from fastdist.distributed.store import TCPStore, connection, host_store
from tests.distributed.certificates import make_certificates
from tests.distributed.test_strangers import CURVE_HELLO, greeting
from tests.standstill import Standstill

# A host must notice a stranger within this time.
HEARD_S = 2.0
# The first message of a client with another secret.
OTHER_KEY = greeting(b"CURVE") + b"\4\xc8" + CURVE_HELLO[:200]
# A pattern for the number of a stranger's attempts, which is at least three.
TRIED = r"([3-9]|\d\d+)"


class Host:
    """A served store, and its log lines."""

    def __init__(self, **protection: str | JobSecret) -> None:
        self._lines: queue.SimpleQueue[tuple[int, str]] = queue.SimpleQueue()
        self.store, self.port = host_store(timeout=10, tell=self._take, **protection)  # type: ignore[arg-type]

    def _take(self, level: int, line: str) -> None:
        self._lines.put((level, line))

    def next_line(self) -> tuple[int, str]:
        """Return the level of the next line, and the line, which must arrive within HEARD_S."""
        began = time.monotonic()
        with Standstill() as stood:
            told = self._lines.get(timeout=30)
        assert time.monotonic() - began - stood.seconds < HEARD_S
        return told

    def is_silent(self) -> bool:
        return self._lines.empty()


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    # The tests of this file do not check how quickly a call gives up on a store that is stuck.
    monkeypatch.setattr(connection, "_GRACE_S", 10.0)
    host = Host(secret=JobSecret.generate())
    with host.store:
        yield host


def stranger(port: int, **protection: object) -> None:
    with pytest.raises(AuthenticationError):
        TCPStore("127.0.0.1", port, timeout=5, **{"secret": JobSecret.generate(), **protection})  # type: ignore[arg-type]


def other_secret(port: int, host: Host) -> None:
    stranger(port)


def other_job(port: int, host: Host) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FASTDIST_JOB_ID", "another")
        stranger(port, secret=host.store.job_secret)


def no_security(port: int, host: Host) -> None:
    stranger(port, security="none", secret=None)


@pytest.mark.parametrize(
    ("come", "why"),
    [
        (other_secret, "it has another job secret or FASTDIST_JOB_ID"),
        (other_job, "it has another job secret or FASTDIST_JOB_ID"),
        (no_security, "its security= differs from this end's"),
    ],
)
def test_the_host_hears_at_once_who_was_refused_from_where_and_why(
    host: Host, come: Callable[[int, Host], None], why: str
) -> None:
    come(host.port, host)
    level, line = host.next_line()
    assert level == logging.WARNING
    told = f"a connection from 127.0.0.1 was refused at tcp://127.0.0.1:{host.port}: {why}"
    assert line.startswith(told)


def test_a_member_without_a_certificate_is_named_to_the_host(tmp_path: Path) -> None:
    path = make_certificates(tmp_path / "mine", 1)
    other = make_certificates(tmp_path / "other", 1)
    shutil.copy(os.path.join(path, "store.key"), other)
    host = Host(security="certs", certificates=path)
    with host.store:
        stranger(host.port, secret=None, security="certs", certificates=other, rank=0)
        assert "its certificate is not in the folder here" in host.next_line()[1]


def test_a_member_with_a_secret_is_named_to_a_host_without_security() -> None:
    host = Host(security="none")
    with host.store:
        stranger(host.port)
        level, line = host.next_line()
        assert level == logging.WARNING and "its security= differs from this end's" in line


def wait_until_counted(host: Host, reason: refusals.Reason, count: int) -> None:
    """Wait until a thread of the host has counted `count` rejections for this reason.

    The test must not send a request to the host: a request ends the search for clients' addresses.
    """
    assert host.store._server is not None
    counts, found = host.store._server._refusals._counts, 0
    deadline = time.monotonic() + 30
    while found < count:
        assert time.monotonic() < deadline
        found = sum(number for (_, why), number in list(counts.items()) if why == reason)


def test_a_host_that_waits_in_vain_says_in_its_error_who_was_refused(host: Host) -> None:
    stranger(host.port)
    stranger(host.port, security="none", secret=None)
    wait_until_counted(host, refusals.OTHER_KEY, 3)
    wait_until_counted(host, refusals.OTHER_SECURITY, 1)
    with pytest.raises(StoreTimeoutError) as told:
        host.store.join("group", 0, b"", 2, 0.1)
    assert told.value.missing == ("1",)
    refused = str(told.value).partition("refused by the store meanwhile: ")[2]
    assert re.match(rf"{TRIED} from 127\.0\.0\.1: it has another job secret", refused)
    assert "; 1 from 127.0.0.1: its security= differs from this end's" in refused


def test_a_member_that_waits_in_vain_hears_it_from_the_host(host: Host) -> None:
    stranger(host.port)
    wait_until_counted(host, refusals.OTHER_KEY, 3)
    with TCPStore("127.0.0.1", host.port, secret=host.store.job_secret) as member:
        told = f"2 of 3 ranks did not join.*meanwhile: {TRIED} from .*: it has another job secret"
        with pytest.raises(StoreTimeoutError, match=told):
            member.join("group", 1, b"", 3, 0.1, who="'w1' (rank 1)")


def knock(port: int, words: bytes, host: str = "127.0.0.1") -> None:
    """Send bytes from `host`, an address of this machine, and wait until the store disconnects."""
    with socket.create_connection(("127.0.0.1", port), 10, source_address=(host, 0)) as scanner:
        try:
            scanner.sendall(words)
            while scanner.recv(4096):
                pass
        except ConnectionError:
            pass


def refused_by(host: Host, count: int) -> list[str]:
    """Return the reports of rejected clients, as soon as the reports cover `count` clients."""
    deadline = time.monotonic() + 30
    while True:
        _, *lines = host.store.query_host()
        found = sum(int(line.split()[0]) for line in lines)
        if found == count:
            return lines
        assert found < count and time.monotonic() < deadline


def test_a_scanner_that_comes_again_and_again_gives_one_line_and_no_alarm(host: Host) -> None:
    for _ in range(20):
        knock(host.port, b"GET / HTTP/1.1\r\n\r\n" * 10)
    level, line = host.next_line()
    assert level == logging.INFO and "it does not run fastdist" in line
    lines = refused_by(host, 20)
    # A connection may be closed before its address can be read, which adds a second line.
    assert all("it does not run fastdist" in line for line in lines) and len(lines) <= 2


def test_a_flood_from_many_addresses_gives_a_bounded_number_of_lines(host: Host) -> None:
    many = refusals.MAX_HOSTS + 10
    for number in range(many):
        knock(host.port, OTHER_KEY, f"127.0.1.{number + 1}")
    assert len(refused_by(host, many)) <= refusals.MAX_HOSTS + 1
    told = [host.next_line()[1] for _ in range(refusals.MAX_LINES + 1)]
    assert "no more are reported" in told[-1] and host.is_silent()


def test_a_host_that_stood_still_knows_from_where_they_came(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Events of libzmq are read only after the kernel has forgotten the closed connections."""
    happened, is_awake = refusals.Refusals.happened, threading.Event()

    def once_awake(told: refusals.Refusals, event: SocketEvent) -> None:
        assert is_awake.wait(60)
        happened(told, event)

    monkeypatch.setattr(refusals.Refusals, "happened", once_awake)
    for number in range(20):
        knock(host.port, OTHER_KEY, f"127.0.1.{number + 1}")
    is_awake.wait(refusals._RECENT_S + 0.5)
    is_awake.set()
    assert len(refused_by(host, 20)) == 20


def test_members_that_come_and_go_are_no_refusals(host: Host) -> None:
    secret = host.store.job_secret
    for number in range(10):
        with TCPStore("127.0.0.1", host.port, secret=secret, timeout=10) as member:
            if number % 2:
                member.set("key", "value")
    knock(host.port, OTHER_KEY, "127.0.1.1")
    assert refused_by(host, 1) == [f"1 from 127.0.1.1: {refusals.OTHER_KEY.text}"]


def test_a_master_that_waits_for_its_members_says_in_its_error_who_was_refused(port: int) -> None:
    came = False

    def tell(level: int, line: str) -> None:
        nonlocal came
        came = came or "another job secret" in line

    with ThreadPoolExecutor(1) as pool:
        waits = pool.submit(
            TCPStore,
            *("127.0.0.1", port, 2, True, 6.0),
            secret=JobSecret.generate(),
            tell=tell,
        )
        stranger(port)
        with pytest.raises(StoreTimeoutError, match=f"did not join.*{TRIED} from .*: it has an"):
            waits.result(20)
    assert came


def test_members_that_wait_for_long_are_not_told_of_as_refused(host: Host) -> None:
    """Each second, members check by a connection to the store's port whether its process runs."""
    with TCPStore("127.0.0.1", host.port, timeout=3.5, secret=host.store.job_secret) as member:
        with pytest.raises(StoreTimeoutError):
            member.wait(["what nobody sets"])
        assert member.query_host()[1:] == [] and host.is_silent()
