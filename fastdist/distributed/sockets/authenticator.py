"""The ZAP handler: the one thread that decides, by CURVE keys, which peers libzmq admits."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import NamedTuple

import zmq

from fastdist.core.errors import FastdistError

from .connections import Connections, hang_up
from .context import Socket, open_socket, unique_name
from .doorbell import Doorbell
from .monitor import SocketMonitor
from .refusals import Refusals
from .waiting import Waiter, has_message

# Maps a public key (32 bytes) to the User-Id of messages from its owner; None refuses the owner.
Lookup = Callable[[bytes], str | None]

ZAP_ENDPOINT = "inproc://zeromq.zap.01"
THREAD_NAME = "fastdist-zap"
_JOIN_S = 5.0
# The pause after an error in counting a domain's connections.
_AFTER_FAILURE_S = 1.0

_logger = logging.getLogger(__name__)


class ZapDomain(NamedTuple):
    """One bound socket: its key look-up, and the counters of connections and refusals, if any."""

    lookup: Lookup
    connections: Connections | None = None
    refusals: Refusals | None = None
    events: SocketMonitor | None = None

    def take_note(self) -> float | None:
        """Process the new events of the monitor; on the handler's thread.

        Return the time of the next call if no event comes before that time; None for never.
        """
        began = time.monotonic()
        while self.events is not None and (event := self.events.try_receive()) is not None:
            if self.connections is not None:
                self.connections.happened(event)
            if self.refusals is not None:
                self.refusals.happened(event)
        if self.connections is not None:
            for descriptor, endpoint in self.connections.take_overdue():
                hang_up(descriptor, endpoint)
        return None if self.refusals is None else self.refusals.look(began)


class Verdict(NamedTuple):
    """The reply to libzmq; `user` names the admitted peer."""

    status: bytes
    text: bytes
    user: str = ""


_STRANGER = Verdict(b"400", b"not a member of this job")
# Temporary refusals: libzmq closes the peer's connection, and the peer tries again. The next
# attempt succeeds if a connection has become free, or fails because nobody listens any more. libzmq
# may still send a request for a socket that was just closed; the peer in this request is not a
# stranger.
_TOO_MANY = Verdict(b"300", b"this member holds all the connections that it may")
_CLOSED = Verdict(b"300", b"this socket has just been closed")

# Guards the two names below; held while the thread starts or ends. The thread itself never takes
# this lock.
_handler_lock = threading.Lock()
_handler: _Handler | None = None
# The thread reads this without the lock, as each insertion or removal is atomic.
_zap_domains: dict[str, ZapDomain] = {}


def admit(
    lookup: Lookup,
    connections: Connections | None = None,
    refusals: Refusals | None = None,
    events: SocketMonitor | None = None,
) -> str:
    """Return a new ZAP domain, whose peers `lookup` admits; the first domain starts the thread.

    With `connections`, a member is admitted only below its limit; `refusals` records refused peers.
    `events` is the socket's monitor, created with reader_closes; the thread reads it.
    """
    global _handler
    domain = unique_name("fastdist")
    zap_domain = ZapDomain(lookup, connections, refusals, events)
    with _handler_lock:
        if _handler is None:
            _handler = _Handler()
        _zap_domains[domain] = zap_domain
        if events is not None:
            _handler.watch(zap_domain)
    return domain


def dismiss(domain: str) -> None:
    """Answer no more requests for `domain`; the last domain ends the thread. A repeat does nothing.

    Note    call this after the socket of the domain has been closed
    """
    global _handler
    with _handler_lock:
        zap_domain = _zap_domains.pop(domain, None)
        handler = _handler
        if zap_domain is None or handler is None:
            return
        if not _zap_domains:
            _handler = None
            handler.stop()
        if zap_domain.events is not None:
            handler.let_go(zap_domain.events)


class _Handler:
    """The thread and its socket.

    There is one handler per context, so one per process: libzmq finds the handler by its inproc
    address. If the thread died, no new peer would be admitted, because each socket sets
    ZAP_ENFORCE_DOMAIN.
    """

    def __init__(self) -> None:
        self._bell = Doorbell()
        # Functions for the thread to run when the bell rings.
        self._orders: SimpleQueue[Callable[[Waiter], None]] = SimpleQueue()
        self._is_stopping = False
        self._watched: list[ZapDomain] = []
        self._socket = open_socket(zmq.ROUTER, "zap")
        self._socket.set(zmq.LINGER, 0)
        self._socket.bind(ZAP_ENDPOINT)
        self._thread = threading.Thread(target=self._run, name=THREAD_NAME, daemon=True)
        self._thread.start()

    def watch(self, zap_domain: ZapDomain) -> None:
        """Read the events of a domain from now on."""

        def begin(waiter: Waiter) -> None:
            assert zap_domain.events is not None
            self._watched.append(zap_domain)
            waiter.add(zap_domain.events.socket)

        self._order(begin)

    def let_go(self, events: SocketMonitor) -> None:
        """Stop reading these events, and close them; wait until that is done."""
        if not self._thread.is_alive():
            events.let_go()
            return
        is_done = threading.Event()

        def end(waiter: Waiter) -> None:
            self._watched = [
                zap_domain for zap_domain in self._watched if zap_domain.events is not events
            ]
            waiter.remove(events.socket)
            events.let_go()
            is_done.set()

        self._order(end)
        if not is_done.wait(_JOIN_S):
            raise FastdistError(f"the thread {THREAD_NAME!r} did not answer within {_JOIN_S:g} s")

    def stop(self) -> None:
        """End the thread and wait for it."""
        self._is_stopping = True
        self._bell.ring()
        self._thread.join(_JOIN_S)
        if self._thread.is_alive():
            raise FastdistError(f"the thread {THREAD_NAME!r} did not end within {_JOIN_S:g} s")
        self._bell.close()

    def _order(self, order: Callable[[Waiter], None]) -> None:
        self._orders.put(order)
        self._bell.ring()

    def _run(self) -> None:
        waiter = Waiter(self._socket, self._bell)
        look_at: float | None = None
        try:
            while not self._is_stopping:
                if self._bell in waiter.wait(look_at):
                    self._bell.clear()
                    self._obey(waiter)
                looks = [_look_at(zap_domain) for zap_domain in self._watched]
                look_at = min((look for look in looks if look is not None), default=None)
                while has_message(self._socket):
                    answer(self._socket)
        finally:
            # close() alone would free the address later, on a thread of libzmq, and the next
            # handler could not bind it.
            self._socket.unbind(ZAP_ENDPOINT)
            self._socket.close()

    def _obey(self, waiter: Waiter) -> None:
        while True:
            try:
                order = self._orders.get_nowait()
            except Empty:
                return
            order(waiter)


def _look_at(zap_domain: ZapDomain) -> float | None:
    """Call take_note of a domain; return when to call it again, also after an error."""
    try:
        return zap_domain.take_note()
    except Exception:  # the thread serves all domains
        _logger.exception("connections of members could not be counted")
        return time.monotonic() + _AFTER_FAILURE_S


def answer(socket: Socket) -> None:
    """Receive one request of libzmq and send the verdict.

    Source  ZeroMQ RFC 27, ZAP 1.0
    """
    route, empty, *question = socket.recv_multipart()
    request_id = question[1] if len(question) > 1 else b""
    try:
        status, text, user = _judge(question)
    except Exception:  # this peer is refused; later ones are not affected
        _logger.exception("could not check whether a connection is allowed")
        status, text, user = _STRANGER
    socket.send_multipart([route, empty, b"1.0", request_id, status, text, user.encode(), b""])


def _judge(question: list[bytes]) -> Verdict:
    """Return whether a peer is admitted, and as which member."""
    if len(question) != 7:
        return _STRANGER
    version, _, domain, address, _, mechanism, public_key = question
    zap_domain = _zap_domains.get(domain.decode(errors="replace"))
    if version != b"1.0" or mechanism != b"CURVE":
        return _STRANGER
    if zap_domain is None:
        return _CLOSED
    user, host = zap_domain.lookup(public_key), address.decode(errors="replace")
    # Process ended connections first: a peer that comes back must not be counted twice.
    zap_domain.take_note()
    if zap_domain.refusals is not None:
        zap_domain.refusals.judged(host, may_enter=user is not None)
    if user is None:
        return _STRANGER
    connections = zap_domain.connections
    if connections is not None:
        may_enter = connections.admit(user, host)
        for descriptor, endpoint in connections.take_overdue():
            hang_up(descriptor, endpoint)
        if not may_enter:
            return _TOO_MANY
    return Verdict(b"200", b"OK", user)
