"""Lanes and listeners over ZeroMQ: one DEALER per lane, one ROUTER for incoming messages."""

from __future__ import annotations

import select
import threading
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

import zmq

from fastdist.distributed.pipe.frames import Buffer, is_alone
from fastdist.distributed.pipe.lane import (
    READABLE,
    WRITABLE,
    LaneClosed,
    LaneInDoubt,
    LaneTimeout,
)
from fastdist.distributed.pipe.listener import Received, Route
from fastdist.distributed.pipe.ring.acceptor import RingAcceptor, RingCaller
from fastdist.distributed.sockets import (
    UNREACHABLE_MS,
    Doorbell,
    Pulse,
    Security,
    Socket,
    SocketEvent,
    SocketMonitor,
    authenticated_rank,
    bind,
    connect,
    hang_up,
    make_socket,
    max_frame_bytes,
    monitor,
    poll_timeout_ms,
    reach_options,
)

# Every frame is copied into libzmq's memory when it is sent. Without the copy, frames from 256 KiB
# on would be a quarter faster. But then the caller's memory would have to stay unchanged for an
# unknown time, and pyzmq would start a thread to learn when the memory is free. Large tensors for
# the same machine use a shared-memory channel instead.

# The most routes to remember; a process does not have descriptors for more connections.
_MOST_ROUTES: Final = 1 << 17

# A connection may end and be replaced between two checks of its socket. So a long wait checks the
# socket, and queries the peer, in this interval.
_DOUBT_AFTER_MS: Final = 2000

_EVENTS: Final = int(zmq.EVENTS)
_NOBLOCK: Final = int(zmq.NOBLOCK)
_MORE: Final = int(zmq.NOBLOCK | zmq.SNDMORE)
_RCVMORE: Final = int(zmq.RCVMORE)


class ZmqLane:
    """A DEALER socket, and the bell that ends every wait on the lane; a watched lane has a pulse.

    Note    see Note [ZMQ_FD is edge triggered] in sockets/waiting.py: each wait queries the socket
            before it sleeps
    """

    def __init__(
        self,
        transport: str,
        address: str,
        closed: Doorbell,
        security: Security,
        peer: str,
        *,
        watched: bool = False,
        pulse: Pulse | None = None,
        instead: bool = False,
        unreachable_ms: int = UNREACHABLE_MS,
    ) -> None:
        self.transport = transport
        self.address = address
        self.socket: Socket = make_socket(
            zmq.DEALER, f"lane to {peer} by {transport}", options=reach_options(unreachable_ms)
        )
        try:
            # The monitor is created before `connect`, because a later one would miss the first
            # events.
            self.pulse = Pulse() if watched else pulse
            self.monitor = None if self.pulse is None else SocketMonitor(self.socket)
            connect(self.socket, address, security, peer)
        except BaseException:
            self.socket.close()
            raise
        self._closed = closed
        # Set if this lane, or the lane that it replaces, has sent a message and may wait for an
        # answer.
        self._has_sent = instead
        # The descriptor of the newest connection, during its handshake.
        self._descriptor = -1
        self._poller = select.poll()
        self._fd = int(self.socket.get(zmq.FD))
        self._closed_fd = closed.fileno()
        self._poller.register(self._fd, select.POLLIN)
        self._poller.register(self._closed_fd, select.POLLIN)

    @property
    def takes_edges(self) -> bool:
        """Return True: see Note [ZMQ_FD is edge triggered] in sockets/waiting.py."""
        return True

    def try_send(self, frames: Sequence[Buffer]) -> bool:
        """Send a message if that is possible without blocking, and return whether it was sent."""
        try:
            for frame in frames[:-1]:
                self.socket.send(frame, _MORE)
            self.socket.send(frames[-1], _NOBLOCK)
        except zmq.Again:
            return False
        return True

    def send(self, frames: Sequence[Buffer], deadline: float | None) -> None:
        """Send a message as soon as the connection accepts it."""
        while True:
            try:
                for frame in frames[:-1]:
                    self.socket.send(frame, _MORE)
                self.socket.send(frames[-1], _NOBLOCK)
                break
            except zmq.Again:
                if not _events(self.socket) & WRITABLE:
                    self._sleep(WRITABLE, deadline)
        self._has_sent = True

    def try_receive(self) -> list[Buffer] | None:
        """Return the frames of the next message, or None if none has arrived."""
        try:
            return _receive(self.socket)
        except zmq.Again:
            return None

    def receive(self, deadline: float | None) -> list[Buffer]:
        """Return the frames of the next message, waiting for it."""
        if not _events(self.socket) & READABLE:
            self._sleep(READABLE, deadline)
        while True:
            try:
                return _receive(self.socket)
            except zmq.Again:
                # There is no message, so perhaps the lane woke because a connection ended or began.
                if self._has_sent and _events(self.socket) & WRITABLE:
                    raise LaneInDoubt(f"the lane to {self.address} may have reconnected") from None
            self._sleep(READABLE, deadline)

    def events(self) -> int:
        """Return READABLE, WRITABLE, both or neither; ZeroMQ's flags have the same values."""
        return _events(self.socket)

    def fileno(self) -> int:
        """Return the socket's edge-triggered descriptor."""
        return self._fd

    def connection_fileno(self) -> int:
        """Return the descriptor of a watched lane's connection events; -1 if the lane is not
        watched.
        """
        return -1 if self.monitor is None else self.monitor.fileno()

    def next_connection_event(self) -> str | None:
        """Return the next event of the connection of a watched lane, or None."""
        event: SocketEvent | None = None if self.monitor is None else self.monitor.try_receive()
        if event is None:
            return None
        if self.pulse is not None and event.kind == monitor.CONNECTED:
            self._descriptor = event.value
        elif self.pulse is not None and event.kind == monitor.HANDSHAKE_SUCCEEDED:
            self.pulse.connected(self._descriptor)
        elif self.pulse is not None and event.kind == monitor.DISCONNECTED:
            self.pulse.disconnected()
        return event.kind

    def hang_up(self) -> None:
        """End the connection of a watched lane; ZeroMQ then tries to reconnect."""
        if self.pulse is not None and self.pulse.descriptor >= 0:
            hang_up(self.pulse.descriptor, self.address)

    def close(self, linger_s: float = 0.0) -> None:
        """Close the socket; a second call has no effect."""
        if self.pulse is not None:
            self.pulse.disconnected()
        self.socket.close(linger=linger_s * 1000)

    def _sleep(self, event: int, deadline: float | None) -> None:
        left_ms = poll_timeout_ms(deadline)
        is_last = left_ms is not None and left_ms <= _DOUBT_AFTER_MS
        ready = self._poller.poll(left_ms if is_last else _DOUBT_AFTER_MS)
        for fd, _ in ready:
            # A message that arrived before the lane was closed is still received.
            if fd == self._closed_fd and not _events(self.socket) & event:
                raise LaneClosed(f"the lane to {self.address} was closed")
        if not ready and is_last and not _events(self.socket) & event:
            raise LaneTimeout(f"nothing arrived in time on the lane to {self.address}")


class ZmqListener:
    """A ROUTER socket, and the rings of local callers; one thread reads, and any thread writes."""

    def __init__(self, name: str, unreachable_ms: int = UNREACHABLE_MS) -> None:
        self.addresses: dict[str, str] = {}
        # Guards the socket and the fields below, except _woken. A reader that sleeps does not hold
        # this lock.
        self._socket_lock = threading.RLock()
        self._socket = make_socket(zmq.ROUTER, name, options=reach_options(unreachable_ms))
        self._sleeping = False
        self._woken = False
        self._closed = False
        self._unsent: deque[tuple[bytes, Sequence[Buffer]]] = deque()
        self._ranks: dict[bytes, int | None] = {}
        # Routes whose connections have ended; filled only if the members' connections are counted.
        self._ended: deque[bytes] = deque()
        self._asks_always = False
        self._may_have_rest = False
        self._bell = Doorbell()
        self._poller = select.poll()
        self._fd = int(self._socket.get(zmq.FD))
        self._poller.register(self._fd, select.POLLIN)
        self._bell_fd = self._bell.fileno()
        self._poller.register(self._bell_fd, select.POLLIN)
        self._rings: RingAcceptor | None = None

    def open_rings(self, path: str) -> None:
        """Let callers on this machine request rings at `path`.

        Raises  OSError
        """
        self._rings = RingAcceptor(path, self._poller, max_frame_bytes())

    def bind(self, transport: str, endpoint: str, security: Security) -> None:
        """Listen on an additional address."""
        with self._socket_lock:
            self.addresses[transport] = bind(self._socket, endpoint, security)
            self._asks_always = self._asks_always or security.tells_members_apart
            if self._socket.connections is not None:
                self._ended = self._socket.connections.ended

    def receive(self, deadline: float | None = None) -> Received | None:
        """Wait for a message, and return it; None after wake() or at the deadline."""
        rings = self._rings
        while True:
            if rings is not None:
                received = rings.take()
                if received is None and rings.look():
                    received = rings.take()
                if received is not None:
                    return received
            with self._socket_lock:
                if self._closed:
                    return None
                self._drop_rest()
                if _events(self._socket) & READABLE:
                    return self._receive()
                # While this is True, a thread that sends also checks for arrived messages, because
                # its send may consume the event that would wake the reader.
                self._sleeping = True
            timeout_ms = poll_timeout_ms(deadline)
            may_sleep = rings is None or rings.fall_asleep()
            ready = self._poller.poll(timeout_ms if may_sleep else 0)
            fds = [fd for fd, _ in ready]
            # A receive that finds no message is expensive. So if only a ring woke the thread, the
            # socket is checked in the next iteration.
            by_socket = not fds or self._fd in fds or self._bell_fd in fds
            with self._socket_lock:
                self._sleeping = False
                received = self._receive() if by_socket and may_sleep else None
            if rings is not None:
                rings.on_readable(ready)
            if received is not None:
                return received
            if not may_sleep:
                continue
            if self._bell_fd in fds:
                self._bell.clear()
                # Senders ring this bell too, to pass on an event that they consumed.
                if self._woken:
                    self._woken = False
                    return None
            elif not fds and timeout_ms == 0:
                return None

    def try_receive(self) -> Received | None:
        """Return the next message, or None if none has arrived."""
        if self._rings is not None and (received := self._rings.take()) is not None:
            return received
        with self._socket_lock:
            if not self._closed:
                self._drop_rest()
            return self._receive()

    def reply(self, route: Route, frames: Sequence[Buffer]) -> bool:
        """Send a message on an incoming connection without blocking; return False if the
        connection is gone.
        """
        if isinstance(route, RingCaller):
            return route.reply(frames)
        assert isinstance(route, bytes)
        with self._socket_lock:
            if self._closed:
                return False
            try:
                is_there = self._send_to(route, frames)
            except zmq.Again:
                self._unsent.append((route, frames))
                is_there = True
            # A send that finds no connection consumes the event as well.
            if self._sleeping and _events(self._socket) & READABLE:
                self._bell.ring()
        return is_there

    def knows(self, route: Route) -> bool:
        """Return whether the connection of a received message may still exist."""
        if isinstance(route, RingCaller):
            return not route.end.bell.has_ended
        return route in self._ranks

    def wake(self) -> None:
        """Make `receive` return None soon."""
        self._woken = True
        self._bell.ring()

    def fileno(self) -> int:
        """Return the socket's edge-triggered descriptor."""
        return self._fd

    def close(self, linger_s: float = 0.0) -> None:
        """Close the socket; a second call has no effect. No thread may be in `receive`."""
        with self._socket_lock:
            self._closed = True
            self._socket.close(linger=linger_s * 1000)
        if self._rings is not None:
            self._rings.close(linger_s)
        self._bell.close()

    def _receive(self) -> Received | None:
        if self._closed:
            return None
        if self._unsent:
            self._flush()
        while self._ended:
            self._ranks.pop(self._ended.popleft(), None)
        try:
            route = self._socket.recv(_NOBLOCK)
            self._may_have_rest = True
            if route in self._ranks and not self._asks_always:
                return Received(route, _receive(self._socket), self._ranks[route])
            parts = self._socket.recv_multipart(_NOBLOCK, copy=False)
        except zmq.Again:
            return None
        rank = authenticated_rank(parts[0])
        if route not in self._ranks:
            if len(self._ranks) >= _MOST_ROUTES:
                self._forget_routes()
            self._ranks[route] = rank
            self._count(route, rank, parts[0])
        # Frames that may contain tensors must be writable, and are not copied: see _receive.
        return Received(route, [parts[0].bytes, *(part.buffer for part in parts[1:])], rank)

    def _forget_routes(self) -> None:
        # The end of an unauthenticated connection is not reported, so this may forget the route of
        # a connection that still exists. The caller at its other end is then queried again, and
        # sends the greeting again if necessary.
        unproved = [route for route, rank in self._ranks.items() if rank is None]
        for route in unproved[: len(unproved) // 2]:
            del self._ranks[route]

    def _drop_rest(self) -> None:
        # Drop the rest of a message with more frames than its first frame announces. Otherwise the
        # next frame would be read as a route, and a sender could choose its own route.
        if self._may_have_rest:
            while self._socket.get(_RCVMORE):
                self._socket.recv(_NOBLOCK)
            self._may_have_rest = False

    def _count(self, route: bytes, rank: int | None, first: zmq.Frame) -> None:
        connections = self._socket.connections
        if connections is not None and rank is not None:
            connections.spoke(str(rank), route, int(first.get(zmq.SRCFD)))

    def _flush(self) -> None:
        while self._unsent:
            try:
                self._send_to(*self._unsent[0])
            except zmq.Again:
                return
            self._unsent.popleft()

    def _send_to(self, route: bytes, frames: Sequence[Buffer]) -> bool:
        """Send a message; return False if the connection is gone. Raise zmq.Again if the queue is
        full.
        """
        try:
            self._socket.send(route, _MORE)
            _send(self._socket, frames)
        except zmq.ZMQError as error:
            if error.errno != zmq.EHOSTUNREACH:
                raise
            return False
        return True


def _events(socket: Socket) -> int:
    return socket.get(_EVENTS)  # type: ignore[return-value]


def _send(socket: Socket, frames: Sequence[Buffer]) -> None:
    for frame in frames[:-1]:
        socket.send(frame, _MORE)
    socket.send(frames[-1], _NOBLOCK)


def _receive(socket: Socket) -> list[Buffer]:
    first = socket.recv(_NOBLOCK)
    frames: list[Any] = [first]
    # RCVMORE is only queried if the first frame says that other frames follow, because a query
    # costs as much as a receive. If the first frame is wrong about that, the lane reads the other
    # frames as the peer's next answer, which is then invalid.
    if not is_alone(first):
        while socket.get(_RCVMORE):
            # The frame's memory belongs to this process and is writable, unlike that of a bytes
            # object.
            frames.append(socket.recv(_NOBLOCK, copy=False).buffer)
    return frames
