"""Bulk connections: TCP between leaders that follow each other in a ring, sealed by AES-GCM."""

# Note [Bulk connections]
# A large sum between machines does not go through ZeroMQ, which copies each message three times and
# hands it from thread to thread. Each leader listens at a port for the one before it in the ring,
# and sends it the port, a token and a fresh key through the hub, whose connections are
# authenticated and encrypted by CURVE. The other connects and shows the token; who shows another is
# hung up on. Each record carries a tag that only holders of the key can make, over its head, its
# data and its number: a record that is changed, repeated or left out ends the group.
# The thread that sums does all the work: it seals and sends pieces as the socket takes them, and
# receives, opens and adds others meanwhile, so that no two leaders wait for each other.

from __future__ import annotations

import hmac
import ipaddress
import itertools
import os
import select
import socket
import struct
import time
from collections import deque
from contextlib import suppress
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastdist.core.errors import (
    AuthenticationError,
    CollectiveError,
    CollectiveLostError,
    MessageError,
)
from fastdist.distributed.sockets import Doorbell

from .alarm import REPORT_S, Alarm, Waiting
from .cipher import TAG_BYTES, Cipher, CipherError, why_not_viable
from .reductions import combine

# How records are sealed. Plain ones are for jobs whose security is 'none'.
ENCRYPTED: Final = "encrypted"
AUTHENTICATED: Final = "authenticated"
PLAIN: Final = "plain"
_VARIABLE: Final = "FASTDIST_COLLECTIVES_ENCRYPT"

# Larger ones leave the processor's caches; smaller ones cost more calls. Among 64 KB to 1 MB this
# is the fastest for sums of 1 and 16 MB (2 cores of an AMD EPYC, Zen 5).
PIECE_BYTES: Final = 512 << 10
TOKEN_BYTES: Final = 16
# Turn, number in the ring, bytes, offset.
_HEAD: Final = struct.Struct("<QIIQ")
# Pieces of this machine that wait to be sent, besides those that are passed on.
_MOST_QUEUED: Final = 4
_MOST_CALLERS: Final = 16
# How long one that connects may take to show its token.
_TOKEN_S: Final = 5.0
# A member that broke off a connection has a reason, which is on its way.
_REASON_S: Final = 0.1

Bytes = NDArray[np.uint8]
Array = NDArray[Any]


def choose_seal(security: str, host: str, *, encrypts: bool | None) -> str:
    """Return how a member at an address seals records; empty if it cannot.

    Raises  AuthenticationError where records are not to be encrypted, and the address is public
    """
    if encrypts is None:
        text = os.environ.get(_VARIABLE, "1")
        if text not in ("0", "1"):
            raise AuthenticationError(f"{_VARIABLE} is {text!r}; expected 0 or 1")
        encrypts = text == "1"
    if security == "none":
        return PLAIN
    if not encrypts and not _is_private(host):
        raise AuthenticationError(
            f"{_VARIABLE}=0: {host!r} is not a private address, so collectives must be encrypted "
            "there; unset it, or give a private address (FASTDIST_ADDRESS)"
        )
    if why_not_viable() is not None:
        return ""
    return ENCRYPTED if encrypts else AUTHENTICATED


def _is_private(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return host == "localhost"


def listen(host: str) -> socket.socket:
    """Return a socket that listens at a free port of host."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.bind((host, 0))
        listener.listen(_MOST_CALLERS)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener


def call(host: str, port: int, token: bytes, waiting: Waiting, member: int) -> socket.socket:
    """Return a connection to a leader that listens, and show it the token.

    Raises  CollectiveLostError if it cannot be reached
    """
    timeout_s = max(0.01, waiting.look([member]))
    try:
        connection = socket.create_connection((host, port), timeout_s)
    except OSError as error:
        raise CollectiveLostError(f"{waiting.name(member)} was lost: {error}") from error
    try:
        connection.sendall(token)
        _prepare(connection)
    except OSError as error:
        connection.close()
        raise CollectiveLostError(f"{waiting.name(member)} was lost: {error}") from error
    return connection


def accept(
    listener: socket.socket,
    token: bytes,
    waiting: Waiting,
    member: int,
    alarm: Alarm,
    bell: Doorbell,
) -> socket.socket:
    """Return the connection of the one that shows the token; hang up on all others."""
    callers: dict[int, tuple[socket.socket, float, bytearray]] = {}
    try:
        while True:
            alarm.require_none()
            left_s = waiting.look([member], REPORT_S)
            poller = select.poll()
            for fd in (listener.fileno(), bell.fileno(), *callers):
                poller.register(fd, select.POLLIN)
            for fd, _ in poller.poll(min(left_s, _TOKEN_S) * 1000):
                if fd == bell.fileno():
                    bell.clear()
                elif fd == listener.fileno():
                    with suppress(OSError):
                        caller, _ = listener.accept()
                        caller.setblocking(False)
                        if len(callers) == _MOST_CALLERS:
                            callers.pop(next(iter(callers)))[0].close()
                        until = time.monotonic() + _TOKEN_S
                        callers[caller.fileno()] = (caller, until, bytearray())
                elif fd in callers and _shows_token(callers[fd], token):
                    found = callers.pop(fd)[0]
                    _prepare(found)
                    return found
            for fd, (caller, until, shown) in list(callers.items()):
                if len(shown) == TOKEN_BYTES or time.monotonic() > until:
                    callers.pop(fd)
                    caller.close()
    finally:
        for caller, _, _ in callers.values():
            caller.close()


def _shows_token(caller: tuple[socket.socket, float, bytearray], token: bytes) -> bool:
    connection, _, shown = caller
    try:
        part = connection.recv(TOKEN_BYTES - len(shown))
    except OSError:
        part = b""
    # One that hangs up has shown a wrong one.
    shown += part or bytes(TOKEN_BYTES - len(shown))
    return len(shown) == TOKEN_BYTES and hmac.compare_digest(bytes(shown), token)


def _prepare(connection: socket.socket) -> None:
    connection.setblocking(False)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def new_token() -> bytes:
    """Return a token, which nobody guesses."""
    return os.urandom(TOKEN_BYTES)


class _Sum(NamedTuple):
    """One sum around the ring: its source, its result, and how many steps it has."""

    turn: int
    op: str
    # The parts of what this machine has, and of the result; the same where it is replaced.
    sources: list[Array]
    results: list[Array]
    mine: int
    last: int

    def part_of(self, number: int) -> int:
        """Return which part arrives in a step."""
        return (self.mine - number - 1) % len(self.sources)

    def adds(self, number: int) -> bool:
        """Return whether a step adds what arrives; the later ones bring results."""
        return number < len(self.sources) - 1


class Bulk:
    """A leader's connections to the leaders after and before it.

    Thread  the one that carries out the group's collective; close from any, after it
    """

    def __init__(
        self,
        to_next: socket.socket,
        from_previous: socket.socket,
        sealing: Cipher | None,
        opening: Cipher | None,
        neighbours: tuple[int, int],
        alarm: Alarm,
        bell: Doorbell,
    ) -> None:
        self._to_next = to_next
        self._from_previous = from_previous
        self._sealing = sealing
        self._opening = opening
        # The members at the far ends.
        self._next, self._previous = neighbours
        self._alarm = alarm
        self._bell = bell
        # Pieces that leave: head, data and tag; and the buffer of this one that the data is in.
        self._queue: deque[tuple[list[memoryview], Bytes | None]] = deque()
        self._buffers: list[Bytes] = []
        self._head = np.empty(_HEAD.size, np.uint8)
        self._piece = np.empty(PIECE_BYTES, np.uint8)
        self._sealed = np.empty(PIECE_BYTES, np.uint8)
        self._tag = np.empty(0 if opening is None else TAG_BYTES, np.uint8)
        self._has = 0  # bytes of the record that is being received

    def ring_reduce(
        self,
        turn: int,
        source: Array,
        result: Array,
        op: str,
        mine: int,
        count: int,
        waiting: Waiting,
    ) -> None:
        """Write the reduction of what all machines have into result, which may be the source.

        `mine` of `count` is this machine's number. Reduce-scatter, then all-gather. Each piece goes
        on as soon as it is added.
        """
        bounds = [source.size * part // count for part in range(count + 1)]
        pairs = list(itertools.pairwise(bounds))
        sources = [source[low:high] for low, high in pairs]
        results = [result[low:high] for low, high in pairs]
        its = _Sum(turn, op, sources, results, mine, 2 * (count - 1) - 1)
        incoming = (sources[its.part_of(number)] for number in range(its.last + 1))
        expected = sum(len(pieces_of(part)) for part in incoming)
        own = deque(pieces_of(sources[mine]))
        poller = select.poll()
        poller.register(self._bell.fileno(), select.POLLIN)
        poller.register(self._from_previous.fileno(), select.POLLIN)
        while expected or own or self._queue:
            while own and len(self._queue) < _MOST_QUEUED:
                self._enqueue(turn, 0, sources[mine], *own.popleft())
            has_sent = self._send_some(waiting)
            if expected and self._receive(its, waiting):
                expected -= 1
            elif not has_sent:
                self._sleep(poller, waiting, reads=expected > 0)

    def close(self) -> None:
        """Hang up."""
        for connection in (self._to_next, self._from_previous):
            connection.close()
        for cipher in (self._sealing, self._opening):
            if cipher is not None:
                cipher.close()

    def _enqueue(self, turn: int, number: int, part: Array, start: int, stop: int) -> None:
        data = part[start:stop].view(np.uint8)
        head = _HEAD.pack(turn, number, data.nbytes, start * part.itemsize)
        buffer = None
        views = [memoryview(head), data.data]
        if self._sealing is not None:
            sealed = data
            if self._sealing.encrypts:
                buffer = self._buffers.pop() if self._buffers else np.empty(PIECE_BYTES, np.uint8)
                sealed = buffer[: data.nbytes]
            tag = self._sealing.seal(head, data, sealed)
            views = [memoryview(head), sealed.data, memoryview(tag)]
        self._queue.append((views, buffer))

    def _send_some(self, waiting: Waiting) -> bool:
        """Send as much as the socket takes now; return whether anything left."""
        has_sent = False
        while self._queue:
            views, buffer = self._queue[0]
            try:
                sent = self._to_next.sendmsg(views)
            except BlockingIOError:
                break
            except OSError as error:
                raise self._broken(self._next, f"its connection broke: {error}", waiting) from error
            has_sent = True
            while views and sent >= len(views[0]):
                sent -= len(views.pop(0))
            if views:
                views[0] = views[0][sent:]
                continue
            self._queue.popleft()
            if buffer is not None:
                self._buffers.append(buffer)
        return has_sent

    def _receive(self, its: _Sum, waiting: Waiting) -> bool:
        """Receive the next piece, add it or place it, and pass it on; False if it is not here."""
        if not self._fill(self._head, 0, waiting):
            return False
        head = self._head.tobytes()
        turn, number, nbytes, offset = _HEAD.unpack(head)
        index = its.part_of(number)
        source, result = its.sources[index], its.results[index]
        start, stop = offset // source.itemsize, (offset + nbytes) // source.itemsize
        if turn != its.turn or number > its.last or not _is_piece(source, start, stop, offset):
            raise MessageError(f"{nbytes} bytes at {offset} of step {number} of sum {turn}")
        out = self._piece[:nbytes] if its.adds(number) else result[start:stop].view(np.uint8)
        is_encrypted = self._opening is not None and self._opening.encrypts
        data = self._sealed[:nbytes] if is_encrypted else out
        if not (
            self._fill(data, _HEAD.size, waiting)
            and self._fill(self._tag, _HEAD.size + nbytes, waiting)
        ):
            return False
        self._has = 0
        if self._opening is not None:
            try:
                self._opening.open(head, data, self._tag.tobytes(), out)
            except CipherError as error:
                raise self._broken(self._previous, str(error), waiting) from error
        if its.adds(number):
            arrays = (out.view(source.dtype), source[start:stop])
            combine(its.op, arrays, result[start:stop])
        if number < its.last:
            self._enqueue(turn, number + 1, result, start, stop)
        return True

    def _fill(self, memory: Bytes, before: int, waiting: Waiting) -> bool:
        """Receive into memory, which follows so many bytes of a record; return if it is full."""
        while self._has < before + memory.nbytes:
            try:
                received = self._from_previous.recv_into(memory[self._has - before :].data)
            except BlockingIOError:
                return False
            except OSError as error:
                raise self._broken(
                    self._previous, f"its connection broke: {error}", waiting
                ) from error
            if not received:
                raise self._broken(self._previous, "its connection has ended", waiting)
            self._has += received
        return True

    def _sleep(self, poller: select.poll, waiting: Waiting, *, reads: bool) -> None:
        self._alarm.require_none()
        # Its goodbye, on another connection, may come before the last that it has sent on this one.
        left_s = waiting.look([self._previous], REPORT_S, may_have_left=True)
        poller.modify(self._from_previous.fileno(), select.POLLIN if reads else 0)
        if self._queue:
            poller.register(self._to_next.fileno(), select.POLLOUT)
        ready = poller.poll(left_s * 1000)
        if self._queue:
            poller.unregister(self._to_next.fileno())
        if any(fd == self._bell.fileno() for fd, _ in ready):
            self._bell.clear()

    def _broken(self, member: int, why: str, waiting: Waiting) -> CollectiveError:
        self._bell.wait(time.monotonic() + _REASON_S)
        self._alarm.require_none()
        return CollectiveLostError(f"{waiting.name(member)} was lost: {why}")


def pieces_of(part: Array) -> list[tuple[int, int]]:
    """Return where the pieces of a part begin and end."""
    step = max(1, PIECE_BYTES // part.itemsize)
    return [(start, min(start + step, part.size)) for start in range(0, part.size, step)]


def _is_piece(part: Array, start: int, stop: int, offset: int) -> bool:
    step = max(1, PIECE_BYTES // part.itemsize)
    is_aligned = start % step == 0 and offset == start * part.itemsize
    return is_aligned and start < part.size and stop == min(start + step, part.size)
