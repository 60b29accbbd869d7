"""Bulk connections: the members that get one, their data, and their end."""

from __future__ import annotations

import select
import socket
import threading
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fastdist.core.errors import AuthenticationError, CollectiveError, CollectiveLostError
from fastdist.distributed.links import aegis, bulk, cipher, records
from fastdist.distributed.links.alarm import REPORT_S, Alarm
from fastdist.distributed.sockets import Doorbell
from tests.distributed.links.members import Member, together

LARGE = 300_001


class Patience:
    """A stand-in for a waiting call that gives up after a timeout."""

    def __init__(self, timeout_s: float = 5.0) -> None:
        self._until = time.monotonic() + timeout_s

    def look(self, missing: list[int], grace_s: float = 0.0, *, awaits_left: bool = False) -> float:
        del missing, grace_s, awaits_left
        if time.monotonic() > self._until:
            raise TimeoutError("nobody came")
        return self._until - time.monotonic()

    def name(self, member: int) -> str:
        return f"rank {member}"


def test_strangers_are_hung_up_on_and_the_one_with_the_token_gets_in() -> None:
    token, patience, bell = bulk.new_token(), Patience(), Doorbell()
    strangers = []
    with bulk.listen("127.0.0.1") as listener:
        address = listener.getsockname()
        for shown in (b"", b"short", bytes(bulk.TOKEN_BYTES), b"x" * 100):
            stranger = socket.create_connection(address)
            stranger.sendall(shown)
            strangers.append(stranger)
        strangers[0].shutdown(socket.SHUT_WR)
        mine = bulk.call(*address, token, patience, 1)  # type: ignore[arg-type]
        found = bulk.accept(listener, token, patience, 0, Alarm(), bell)  # type: ignore[arg-type]
    mine.send(b"hello")
    found.setblocking(True)
    assert found.recv(5) == b"hello"
    for one in (*strangers, mine, found):
        one.close()
    bell.close()


def test_nobody_that_connects_and_a_group_that_ends_end_the_wait() -> None:
    alarm, bell = Alarm(), Doorbell()
    alarm.wakers.append(bell.ring)
    with bulk.listen("127.0.0.1") as listener:
        late = Patience(0.02)
        with pytest.raises(TimeoutError):
            bulk.accept(listener, bulk.new_token(), late, 0, alarm, bell)  # type: ignore[arg-type]
        timer = threading.Timer(0.02, alarm.set, [CollectiveError("it ended")])
        timer.start()
        patience = Patience()
        with pytest.raises(CollectiveError, match="it ended"):
            bulk.accept(
                listener,
                bulk.new_token(),
                patience,  # type: ignore[arg-type]
                0,
                alarm,
                bell,
            )
        timer.join()
        port = listener.getsockname()[1]
    with pytest.raises(CollectiveLostError, match="rank 1 was lost"):
        bulk.call("127.0.0.1", port, b"", Patience(), 1)  # type: ignore[arg-type]
    bell.close()


def test_how_records_are_sealed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert bulk.choose_seal("curve", "8.8.8.8", encrypts=None) == bulk.ENCRYPTED
    assert bulk.choose_seal("certs", "10.0.0.7", encrypts=False) == bulk.AUTHENTICATED
    assert bulk.choose_seal("none", "127.0.0.1", encrypts=None) == bulk.PLAIN
    for public in ("8.8.8.8", "2001:4860:4860::8888", "host.example"):
        with pytest.raises(AuthenticationError, match="is not a private address"):
            bulk.choose_seal("curve", public, encrypts=False)
    monkeypatch.setenv("FASTDIST_COLLECTIVES_ENCRYPT", "0")
    assert bulk.choose_seal("curve", "fd00::1", encrypts=None) == bulk.AUTHENTICATED
    monkeypatch.setenv("FASTDIST_COLLECTIVES_ENCRYPT", "no")
    with pytest.raises(AuthenticationError, match="expected 0 or 1"):
        bulk.choose_seal("curve", "127.0.0.1", encrypts=None)
    monkeypatch.setattr(bulk, "why_not_viable", lambda: "no libcrypto")
    assert bulk.choose_seal("curve", "127.0.0.1", encrypts=True) == ""


SEALS = (bulk.ENCRYPTED, bulk.AUTHENTICATED, bulk.PLAIN, "")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seal", SEALS)
def test_sums_have_the_same_bits_however_they_are_sealed(
    monkeypatch: pytest.MonkeyPatch, seal: str
) -> None:
    monkeypatch.setattr("fastdist.distributed.links.joining.choose_seal", lambda *_, **__: seal)

    def play(member: Member) -> bytes:
        found = b""
        for size in (LARGE, 3 * LARGE):
            numbers = np.random.default_rng(member.rank).standard_normal(size)
            array = numbers.astype(np.float32)
            member.transport.all_reduce(member.call(), array, "sum")
            found += array.tobytes()
        assert member.transport._post.seal == seal
        has_bulk = member.transport._meeting.between._ring is not None
        assert has_bulk == (bool(seal) and member.rank < 3)
        return found

    first, *others = together("abca", play)
    assert all(one == first for one in others)
    _first_bits.setdefault("bits", first)
    assert first == _first_bits["bits"]


_first_bits: dict[str, bytes] = {}


def test_a_record_that_was_tampered_with_ends_the_group(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in (cipher.Cipher, aegis.Aegis):

        def sealed_wrongly(
            self: Any, head: bytes, data: Any, out: Any, seal: Any = kind.seal
        ) -> bytes:
            tag: bytes = seal(self, head, data, out)
            out[len(out) // 2] ^= 1
            return tag

        monkeypatch.setattr(kind, "seal", sealed_wrongly)

    def play(member: Member) -> str:
        array = np.ones(LARGE)
        with pytest.raises(CollectiveLostError) as raised:
            member.transport.all_reduce(member.call(), array, "sum")
        assert (array == 1).all()
        return str(raised.value)

    assert any("not what its sender sealed" in one for one in together("ab", play))


def test_a_piece_that_belongs_nowhere_ends_the_group(monkeypatch: pytest.MonkeyPatch) -> None:
    enqueue = records.Records.enqueue

    def shifted(self: Any, turn: int, number: int, data: Any, offset: int) -> None:
        enqueue(self, turn, number, data[:-8] if data.nbytes > 1000 else data, offset)

    monkeypatch.setattr(records.Records, "enqueue", shifted)

    def play(member: Member) -> None:
        array = np.ones(LARGE)
        with pytest.raises((CollectiveError, ValueError)):
            member.transport.all_reduce(member.call(), array, "sum")
        assert (array == 1).all()

    together("ab", play)


class Poller:
    """A replacement for select.poll: records its calls, and reports no events."""

    def __init__(self) -> None:
        self.did: list[tuple[object, ...]] = []

    def register(self, fd: int, mask: int) -> None:
        self.did.append(("register", fd, mask))

    def unregister(self, fd: int) -> None:
        self.did.append(("unregister", fd))

    def modify(self, fd: int, mask: int) -> None:
        self.did.append(("modify", fd, mask))

    def poll(self, timeout_ms: float) -> list[tuple[int, int]]:
        self.did.append(("poll", timeout_ms))
        return []


@pytest.mark.parametrize(("left_s", "slept_ms"), [(0.25, 250.0), (60.0, 5000.0)])
def test_who_waits_for_a_connection_looks_again_in_time(
    monkeypatch: pytest.MonkeyPatch, left_s: float, slept_ms: float
) -> None:
    poller, bell, looked = Poller(), Doorbell(), []
    select_of = SimpleNamespace(poll=lambda: poller, POLLIN=select.POLLIN)
    monkeypatch.setattr(bulk, "select", select_of)

    def look(missing: list[int], grace_s: float = 0.0) -> float:
        looked.append((missing, grace_s))
        if len(looked) == 2:
            raise TimeoutError
        return left_s

    with bulk.listen("127.0.0.1") as listener:
        with pytest.raises(TimeoutError):
            bulk.accept(listener, b"", SimpleNamespace(look=look), 7, Alarm(), bell)  # type: ignore[arg-type]
        registered = [("register", fd, select.POLLIN) for fd in (listener.fileno(), bell.fileno())]
    assert poller.did == [*registered, ("poll", slept_ms)]
    assert looked == [([7], REPORT_S)] * 2
    bell.close()


def accepting(listener: socket.socket, token: bytes) -> tuple[threading.Thread, list[Any]]:
    """Return a thread that accepts the connection with the token, and the list of its result."""
    found: list[Any] = []
    bell = Doorbell()

    def run() -> None:
        found.append(bulk.accept(listener, token, Patience(), 0, Alarm(), bell))  # type: ignore[arg-type]
        bell.close()

    thread = threading.Thread(target=run)
    thread.start()
    return thread, found


def test_those_that_show_nothing_are_hung_up_on_after_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bulk, "_TOKEN_S", 0.01)
    token = bulk.new_token()
    with bulk.listen("127.0.0.1") as listener:
        thread, found = accepting(listener, token)
        address = listener.getsockname()
        with socket.create_connection(address, 5.0) as silent:
            silent.sendall(b"part")
            assert silent.recv(1) == b""
        mine = bulk.call(*address, token, Patience(), 1)  # type: ignore[arg-type]
        thread.join()
    mine.close()
    found[0].close()


def test_of_many_that_connect_the_earliest_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "_MOST_CALLERS", 2)
    token = bulk.new_token()
    with bulk.listen("127.0.0.1") as listener:
        thread, found = accepting(listener, token)
        address = listener.getsockname()
        silent = []
        for _ in range(3):
            silent.append(socket.create_connection(address, 5.0))
        assert silent[0].recv(1) == b""
        silent[1].setblocking(False)
        with pytest.raises(BlockingIOError):
            silent[1].recv(1)
        mine = bulk.call(*address, token, Patience(), 1)  # type: ignore[arg-type]
        thread.join()
    for one in (*silent, mine, *found):
        one.close()
