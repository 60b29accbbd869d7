"""One client's connection to the served store: the handshake, requests and answers."""

from __future__ import annotations

import itertools
import time

import zmq

from fastdist.core.errors import (
    AuthenticationError,
    MessageError,
    StoreError,
    StoreLostError,
    StoreTimeoutError,
)
from fastdist.distributed.sockets import (
    Beat,
    Doorbell,
    Pulse,
    Security,
    SocketMonitor,
    Waiter,
    connect,
    has_message,
    make_socket,
    monitor,
    next_beat,
    split_tcp_endpoint,
)
from fastdist.distributed.sockets.liveness_timeouts import crowding
from fastdist.distributed.sockets.pulse import MOST_MISSED_BEATS

from .environment import num_workers_here
from .requests import Op, Status
from .wire import Question, Reply, pack_question, unpack_reply

# How much longer than the request's timeout a client waits: the server answers at the timeout,
# unless the server is stuck.
_GRACE_S = 0.5
# A server that ends during a handshake looks like one that closes the connection for a wrong key.
# So only three failures in a row count as a refusal. libzmq tries again after _RECONNECT_MS to
# _RECONNECT_MAX_MS, so three attempts take under 1 s.
_HANDSHAKE_TRIES = 3
_RECONNECT_MS, _RECONNECT_MAX_MS = 50, 200

_request_ids = itertools.count(1)


def is_name(host: str) -> bool:
    """Return whether `host` is a name rather than an address."""
    return ":" not in host and not host.replace(".", "").isdecimal()


class Connection:
    """A DEALER, its monitor, and the bell that ends a wait when the store is closed.

    Thread  one at a time
    """

    def __init__(self, endpoint: str, security: Security | None, closing: Doorbell) -> None:
        self.endpoint = endpoint
        self._closing = closing
        self._events: SocketMonitor | None = None
        self._pulse = Pulse()
        # With many workers per core, the process that hosts the store may also have to wait for a
        # core.
        self._pulse.most_missed_beats = round(MOST_MISSED_BEATS * crowding(num_workers_here()))
        options: dict[int, int | bytes] = {
            # With IMMEDIATE, libzmq drops messages that arrive just before the other end closes the
            # connection, such as the answer with the reason of the close. IMMEDIATE is not needed
            # here, because nothing is sent before the handshake.
            zmq.IMMEDIATE: 0,
            zmq.RECONNECT_IVL: _RECONNECT_MS,
            zmq.RECONNECT_IVL_MAX: _RECONNECT_MAX_MS,
        }
        self._socket = make_socket(
            zmq.DEALER, f"client of the store at {endpoint}", options=options
        )
        try:
            if not endpoint.startswith("inproc://"):
                self._events = SocketMonitor(self._socket)
            connect(self._socket, endpoint, security, peer="store")
        except BaseException:
            self._socket.close()
            raise

    def establish(self, deadline: float) -> None:
        """Wait until both ends are authenticated.

        Raises  AuthenticationError if the other end refuses; StoreTimeoutError if there is no
                answer until `deadline`; StoreError if the store is closed meanwhile
        """
        if self._events is None:
            return  # inproc: there is no handshake
        waiter = Waiter(self._events.socket, self._closing)
        failures, state, descriptor = 0, "nothing answers there", -1
        if is_name(split_tcp_endpoint(self.endpoint)[0]):
            state = "its name cannot be resolved, or " + state
        while True:
            event = self._events.try_receive()
            if event is None:
                ready = waiter.wait(deadline)
                if self._closing in ready:
                    raise StoreError(f"the store at {self.endpoint} was closed here")
                if not ready:
                    raise StoreTimeoutError(
                        f"no store at {self.endpoint} in time: {state}; is rank 0 or the launcher "
                        "that hosts it running, and do the address and port belong to it?"
                    )
            elif event.kind == monitor.HANDSHAKE_SUCCEEDED:
                self._pulse.connected(descriptor)
                return
            elif event.kind == monitor.CONNECTED:
                descriptor = event.value
                state = (
                    "something listens there, but does not answer like a store, or does not "
                    "accept more connections for now"
                )
            elif event.kind == monitor.HANDSHAKE_FAILED:
                failures += 1
                state = (
                    "the process that listens there hangs up, or does not accept more "
                    "connections for now"
                )
                if failures == _HANDSHAKE_TRIES:
                    raise self._refused()
            elif event.kind in (monitor.MISMATCHED, monitor.REFUSED) or (
                # DISCONNECTED without HANDSHAKE_FAILED: the other end does not use ZMTP. After each
                # of these three events libzmq does not try again.
                event.kind == monitor.DISCONNECTED and failures == 0
            ):
                raise self._refused()

    def _refused(self) -> AuthenticationError:
        return AuthenticationError(
            f"the store at {self.endpoint} refused the handshake: the job secret, "
            "FASTDIST_JOB_ID or certificate given here is not one of the store's job, the ends "
            "differ in security= (one may have security='none'), or what listens there is not a "
            "fastdist store"
        )

    def is_whole(self) -> bool:
        """Return whether the connection that was established still holds."""
        while self._events is not None and (event := self._events.try_receive()):
            if event.kind == monitor.DISCONNECTED:
                return False
        return True

    def ask(self, op: Op, arguments: list[bytes], timeout_s: float) -> Reply:
        """Send one request and return its answer.

        Raises  StoreLostError if the connection ends first; StoreError if the store is closed here;
                StoreTimeoutError if the server is stuck
        """
        request_id = self.send(op, arguments, timeout_s)
        deadline = time.monotonic() + timeout_s + _GRACE_S
        while True:
            reply = self.receive(deadline)
            if reply is None:
                raise StoreTimeoutError(
                    f"the store at {self.endpoint} did not answer {op.name.lower()} within "
                    f"{timeout_s + _GRACE_S:g} s: its host is stuck or overloaded"
                )
            if reply.request_id == request_id:
                return reply
            if reply.request_id == 0 and reply.status is Status.REFUSED:
                told = b" ".join(reply.frames).decode(errors="replace")
                raise StoreError(f"the store at {self.endpoint}: {told}")

    def send(self, op: Op, arguments: list[bytes], timeout_s: float) -> int:
        """Send one request and return its id."""
        request_id = next(_request_ids)
        frames = pack_question(Question(op, request_id, timeout_s, arguments))
        try:
            self._socket.send_multipart(frames, zmq.NOBLOCK)
        except zmq.Again as error:
            raise self._lost() from error
        return request_id

    def receive(self, deadline: float | None) -> Reply | None:
        """Return the next answer, or None once time.monotonic() has passed `deadline`.

        Raises  StoreLostError if the connection has ended; StoreError if the store is closed here
        """
        waiter = Waiter(self._socket, self._closing)
        if self._events is not None:
            waiter.add(self._events.socket)
        beat_at = next_beat()
        while True:
            if has_message(self._socket):
                return self._take()
            while self._events is not None and (event := self._events.try_receive()):
                if event.kind == monitor.DISCONNECTED:
                    # The last answer may have come between these two checks.
                    if has_message(self._socket):
                        return self._take()
                    raise self._lost()
            ready = waiter.wait(beat_at if deadline is None else min(beat_at, deadline))
            if self._closing in ready:
                raise StoreError(f"the store at {self.endpoint} was closed here")
            if not ready and deadline is not None and time.monotonic() >= deadline:
                return None
            if not ready:
                beat_at = next_beat()
                if self._pulse.beat() is Beat.FROZEN:
                    raise self._lost()

    def _take(self) -> Reply:
        self._pulse.heard()
        try:
            return unpack_reply(self._socket.recv_multipart())
        except MessageError as error:
            raise StoreError(
                f"the store at {self.endpoint} sent an invalid answer: {error}"
            ) from error

    def fileno(self) -> int:
        """Return the edge-triggered descriptor. See Note [ZMQ_FD is edge triggered]."""
        return int(self._socket.get(zmq.FD))

    def close(self) -> None:
        """Close the connection; a second call does nothing."""
        self._pulse.disconnected()
        self._socket.close()

    def _lost(self) -> StoreLostError:
        return StoreLostError(
            f"the connection to the store at {self.endpoint} is lost: its host ended, froze or "
            "was cut off; the last request may or may not have been carried out"
        )
