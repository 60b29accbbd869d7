"""Hub: this process's connections to other members, which all of its groups share."""

from __future__ import annotations

import atexit
import logging
import os
import select
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, Protocol

from fastdist.core.errors import (
    CollectiveError,
    CollectiveLostError,
    CollectiveTimeoutError,
    MessageError,
)
from fastdist.distributed.pipe.context import Context
from fastdist.distributed.pipe.frames import Buffer
from fastdist.distributed.pipe.host import boot_id, network_namespace, pid_namespace, process_start
from fastdist.distributed.pipe.lane import Lane, LaneClosed, LaneTimeout
from fastdist.distributed.pipe.listener import Received
from fastdist.distributed.pipe.registry import names_of
from fastdist.distributed.sockets import Doorbell, Security, knock, monitor
from fastdist.distributed.sockets.pulse import BEAT_S, Beat
from fastdist.system.foreign_text import one_line

from .members import Members, Record
from .wire import Head, decode

# After a peer's end is detected, messages that the peer sent before are awaited for this long:
# connections end in no fixed order.
_READ_ON_S: Final = 0.03
# The time in which the last messages of a closing hub must be sent.
_LINGER_S: Final = 2.0
# TCP retransmits for frozen_s times this number. After an interruption of the network, the first
# retransmission may come only after twice the length of the interruption plus the first interval,
# which is longer on a slow link.
_TRIES_LONGER: Final = 3

# The timeout of a connection attempt that checks whether an address still has a listener.
_KNOCKS_S: Final = 0.3

# The longest timeout of Python's locks.
_LONGEST_S: Final = threading.TIMEOUT_MAX

_logger = logging.getLogger(__name__)


class Receiver(Protocol):
    """The methods of a group that the hub calls."""

    def receive(self, head: Head, body: list[Buffer], rank: int | None) -> None:
        """Handle a message; `rank` is the authenticated rank of the message's sender, if any."""

    def peer_left(self, peer: Record) -> None:
        """Record that another process has left all groups, so that its end is no failure."""

    def peer_lost(self, peer: Record, why: str) -> None:
        """Record that another process has ended or cannot be reached."""

    def close(self) -> None:
        """Leave the group."""


class _Peer:
    """Another process, and the lane on which the hub sends to it."""

    def __init__(self, record: Record) -> None:
        self.record = record
        # Held while a thread sends on the lane. The watcher never acquires this lock, because a
        # send may take long.
        self.lock = threading.Lock()
        # Guards the lane's monitor and pulse, and the creation and the closing of the lane.
        self.watch_lock = threading.Lock()
        self.lane: Lane | None = None
        # Whether the lane reports events when its connection is made and when it ends.
        self.has_events = False
        # Rung when the peer is lost, to end every wait on its lane.
        self.closed = Doorbell()
        self.pidfd = -1
        self.groups: set[int] = set()
        self.was_connected = False
        self.is_released = False
        self.why_lost = ""
        # Whether the peer has closed all its groups in an orderly way; `why_lost` is set as well.
        self.has_left = False

    def awaits_connection(self) -> bool:
        """Return whether the peer's end would be detected by a connection that is not made yet."""
        is_watched = self.lane is not None and self.has_events
        return is_watched and not (self.was_connected or self.why_lost)


class Hub:
    """The connections of one process, as a member with one global rank.

    Two threads run while there are groups: one reads messages, the other checks whether peers are
    alive. Neither thread runs users' code.

    Thread  any, unless a method says otherwise
    """

    def __init__(self, rank: int, host: str, security: Security, frozen_s: float) -> None:
        self.rank = rank
        self.host = host
        self.incarnation = int.from_bytes(os.urandom(8), "little") >> 1
        self.security_kind = security.kind
        # A broken connection loses messages on their way, so the pulse, and not TCP, decides when a
        # connection ends. TCP retransmits lost data at intervals that double. For example, after an
        # interruption of 2 s, with attempts at 1.4 s and 4.2 s, a limit of 4 s would end the
        # connection.
        unreachable_ms = max(1, round(frozen_s)) * _TRIES_LONGER * 1_000
        self._context = Context(host=host, security=security, unreachable_ms=unreachable_ms)
        self._are_chosen = names_of("FASTDIST_TRANSPORTS") is not None
        self._frozen_beats = max(1, round(frozen_s / BEAT_S))
        self._listener = self._context.listen(f"links of rank {rank}")
        self.addresses = dict(self._listener.addresses)
        # Guards the four fields below.
        self._lock = threading.RLock()
        self._receivers: dict[int, Receiver] = {}
        self._peers: dict[int, _Peer] = {}
        self._lost: deque[tuple[float, _Peer, str]] = deque()
        self._is_closed = False
        # Notified when a connection is made or a peer is lost.
        self._connected = threading.Condition()
        self._watch_bell = Doorbell()
        self._threads = [
            threading.Thread(target=self._read, name="fastdist links reader", daemon=True),
            threading.Thread(target=self._watch, name="fastdist links watcher", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def attach(self, group: int, receiver: Receiver) -> None:
        """Pass messages of a group to `receiver` from now on."""
        with self._lock:
            if self._is_closed:
                raise CollectiveError("the connections of this process were closed")
            if group in self._receivers:
                raise CollectiveError(f"this process has a group {group:#x} already")
            self._receivers[group] = receiver

    def watch(self, group: int, record: Record, *, by_connection: bool) -> None:
        """Notify a group when another process ends. With `by_connection`, connect to the process,
        because only the connection shows its end.
        """
        with self._lock:
            peer = self._peers.get(record.incarnation)
            if peer is None:
                peer = self._peers[record.incarnation] = _Peer(record)
            peer.groups.add(group)
            if peer.why_lost:
                self._lost.append((0.0, peer, peer.why_lost))
                self._listener.wake()
        with peer.watch_lock:
            self._open_pidfd(peer)
        if _is_in_this_process(record) and record.incarnation not in _live:
            self._declare_left(peer)
        if by_connection:
            with peer.lock:
                self._lane_to(peer)
        self._watch_bell.ring()

    def await_connections(self, group: int, deadline: float) -> None:
        """Wait until the connections by which a group detects the end of peers are made.

        If a peer ended before its connection is made, its end would not be detected.

        Raises  CollectiveLostError or CollectiveTimeoutError with the name of a peer
        """
        with self._lock:
            peers = [peer for peer in self._peers.values() if group in peer.groups]
        for peer in peers:
            with self._connected:
                while peer.awaits_connection() and (left_s := deadline - time.monotonic()) > 0:
                    if not self._connected.wait(min(left_s, _KNOCKS_S)):
                        self.knock(peer.record)
            if peer.why_lost or peer.awaits_connection():
                name = Members([peer.record]).name(0)
                if peer.why_lost:
                    raise CollectiveLostError(f"{name} was lost: {peer.why_lost}")
                raise CollectiveTimeoutError(f"{name} could not be connected to in time")

    def knock(self, record: Record) -> None:
        """Check why the connection to a peer is not made: if nothing listens at the peer's address,
        the peer has ended.
        """
        with self._lock:
            peer = self._peers.get(record.incarnation)
        if peer is None or not peer.awaits_connection():
            return
        if knock(record.addresses["uv"], time.monotonic() + _KNOCKS_S) is False:
            self._declare_lost(peer, "nothing listens at its address any more")

    def require_there(self, ranks: Sequence[int]) -> None:
        """Check that no process with these global ranks was lost, except processes that were
        replaced.

        Raises  CollectiveLostError with the name of a lost process
        """
        with self._lock:
            peers = [one for one in self._peers.values() if one.record.rank in ranks]
        there = {one.record.rank for one in peers if not one.why_lost}
        for peer in peers:
            if peer.record.rank not in there:
                name = Members([peer.record]).name(0)
                raise CollectiveLostError(f"{name} was lost: {peer.why_lost}")

    def has_only(self, group: int) -> bool:
        """Return whether this process is in no other group."""
        return list(self._receivers) == [group]

    def peer_left(self, record: Record) -> None:
        """Notify all groups that a process has left them; its connections will end soon."""
        with self._lock:
            peer = self._peers.get(record.incarnation)
            groups = [] if peer is None else [self._receivers.get(one) for one in peer.groups]
        for group in groups:
            if group is not None:
                group.peer_left(record)

    def hub_closed(self, incarnation: int) -> None:
        """Notify all groups that another hub of this process has closed."""
        with self._lock:
            peer = self._peers.get(incarnation)
        if peer is not None:
            self._declare_left(peer)

    def detach(self, group: int) -> None:
        """Stop passing on messages of a group, and release the peers that only this group uses."""
        unused = []
        with self._lock:
            self._receivers.pop(group, None)
            for key, peer in list(self._peers.items()):
                peer.groups.discard(group)
                if not peer.groups:
                    unused.append(self._peers.pop(key))
        self._watch_bell.ring()
        for peer in unused:
            self._release(peer)

    def send(self, record: Record, frames: Sequence[Buffer], deadline: float) -> None:
        """Send a message to a process that one of the groups watches.

        Raises  CollectiveLostError if the process cannot be reached; TimeoutError after the
                deadline
        """
        with self._lock:
            peer = self._peers.get(record.incarnation)
        if peer is None or peer.why_lost:
            why = "the group was closed" if peer is None else peer.why_lost
            raise CollectiveLostError(why)
        # Another thread may be sending a large message to the peer. A notice with a short deadline
        # does not wait until that message has been sent.
        if not peer.lock.acquire(timeout=max(0.0, min(deadline - time.monotonic(), _LONGEST_S))):
            raise TimeoutError("others are sending to it")
        try:
            self._lane_to(peer).send(frames, deadline)
        except LaneClosed as error:
            raise CollectiveLostError(peer.why_lost or "the group was closed") from error
        except LaneTimeout as error:
            raise TimeoutError(str(error)) from error
        finally:
            peer.lock.release()

    def has_lane_to(self, record: Record) -> bool:
        """Return whether this process has a lane to the process of `record`, and so may have sent
        messages to it.
        """
        with self._lock:
            peer = self._peers.get(record.incarnation)
        return peer is not None and peer.lane is not None

    def close_if_unused(self) -> bool:
        """End the threads and close all connections, unless a group uses them."""
        with self._lock:
            if self._receivers or self._is_closed:
                return False
            self._is_closed = True
        self._listener.wake()
        self._watch_bell.ring()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()
        for peer in self._peers.values():
            self._release(peer)
        self._listener.close(_LINGER_S)
        self._watch_bell.close()
        return True

    def close_all(self) -> None:
        """Leave all groups, when the process exits."""
        with self._lock:
            receivers = list(self._receivers.values())
        for receiver in receivers:
            receiver.close()

    def _lane_to(self, peer: _Peer) -> Lane:
        """Return the lane to a peer, created on first use. The caller holds the peer's lock."""
        if peer.is_released:
            raise CollectiveLostError("the group was closed")
        if peer.lane is None:
            record = peer.record
            same_host = (record.boot_id, record.network_namespace) == (
                boot_id(),
                network_namespace(),
            )
            # If a user has chosen transports, they are also used between threads of one process.
            same_process = same_host and record.pid == os.getpid() and not self._are_chosen
            way = self._context.choose(
                record.addresses, same_host=same_host, same_process=same_process
            )
            address, name = record.addresses[way], f"rank:{record.rank}"
            is_watched = way == "uv"
            lane = self._context.connect(way, address, peer.closed, name, watched=is_watched)
            if lane.pulse is not None:
                lane.pulse.most_missed_beats = self._frozen_beats
            with peer.watch_lock:
                peer.lane = lane
                peer.has_events = lane.connection_fileno() >= 0
            self._watch_bell.ring()
        return peer.lane

    def _release(self, peer: _Peer) -> None:
        peer.closed.ring()
        with peer.lock, peer.watch_lock:
            peer.is_released = True
            lane, peer.lane = peer.lane, None
            if lane is not None:
                lane.close(_LINGER_S)
            descriptor, peer.pidfd = peer.pidfd, -1
        peer.closed.close()
        if descriptor >= 0:
            os.close(descriptor)

    def _read(self) -> None:
        """Pass on messages, and then the losses that the watcher has detected. This is the reader
        thread's loop.
        """
        while not self._is_closed:
            with self._lock:
                due = self._lost[0][0] if self._lost else None
            received = self._listener.receive(due)
            if received is not None:
                self._hand_out(received)
                continue
            now = time.monotonic()
            while True:
                with self._lock:
                    if not self._lost or self._lost[0][0] > now:
                        break
                    _, peer, why = self._lost.popleft()
                    groups = [self._receivers[one] for one in peer.groups if one in self._receivers]
                for group in groups:
                    if peer.has_left:
                        group.peer_left(peer.record)
                    else:
                        group.peer_lost(peer.record, why)

    def _hand_out(self, received: Received) -> None:
        frames = received.frames
        try:
            head = decode(frames[0], len(frames[1]) if len(frames) > 1 else 0)
            receiver = self._receivers.get(head.group)
            if receiver is None:
                _logger.debug("dropped a message of group %#x, which is not here", head.group)
                return
            receiver.receive(head, list(frames[1:]), received.rank)
        except (MessageError, CollectiveError) as error:
            _logger.warning("dropped a message that no member sends: %s", one_line(error))

    def _watch(self) -> None:
        """Check whether peers are alive. This is the watcher thread's loop."""
        beat_at = time.monotonic() + BEAT_S
        while not self._is_closed:
            poller = select.poll()
            poller.register(self._watch_bell.fileno(), select.POLLIN)
            by_fd: dict[int, _Peer] = {}
            has_pulses = False
            with self._lock:
                peers = [peer for peer in self._peers.values() if not peer.why_lost]
            for peer in peers:
                with peer.watch_lock:
                    lane = peer.lane
                    found = peer.pidfd, -1 if lane is None else lane.connection_fileno()
                for fd in found:
                    if fd >= 0:
                        by_fd[fd] = peer
                        poller.register(fd, select.POLLIN)
                has_pulses = has_pulses or (lane is not None and lane.pulse is not None)
                # Read events that came before the poll, because they do not make the descriptor
                # readable.
                self._read_events(peer)
            timeout_s = max(0.0, beat_at - time.monotonic())
            ready = poller.poll(timeout_s * 1000 if has_pulses else None)
            for fd, _ in ready:
                if fd == self._watch_bell.fileno():
                    self._watch_bell.clear()
                elif fd == by_fd[fd].pidfd:
                    self._declare_lost(by_fd[fd], "its process has ended")
                else:
                    self._read_events(by_fd[fd])
            if time.monotonic() >= beat_at:
                beat_at = time.monotonic() + BEAT_S
                for peer in peers:
                    self._beat(peer)

    def _open_pidfd(self, peer: _Peer) -> None:
        record = peer.record
        if peer.pidfd >= 0 or record.pid == os.getpid() or not _shares_processes(record):
            return
        if not hasattr(os, "pidfd_open"):
            return
        try:
            peer.pidfd = os.pidfd_open(record.pid)
        except ProcessLookupError:
            self._declare_lost(peer, "its process has ended")
            return
        except OSError:
            return  # not permitted: the peer's end is detected by its connection instead
        if process_start(record.pid) != record.process_start:
            self._declare_lost(peer, "its process has ended")

    def _read_events(self, peer: _Peer) -> None:
        with peer.watch_lock:
            lane = peer.lane
            while lane is not None and (kind := lane.next_connection_event()) is not None:
                if kind == monitor.HANDSHAKE_SUCCEEDED:
                    peer.was_connected = True
                    self._note_connection()
                elif kind == monitor.DISCONNECTED and peer.was_connected:
                    self._declare_lost(peer, "its connection has ended")
                elif kind == monitor.REFUSED:
                    self._declare_lost(peer, "it refuses connections of this process")

    def _beat(self, peer: _Peer) -> None:
        with peer.watch_lock:
            pulse = None if peer.lane is None else peer.lane.pulse
            if pulse is not None and pulse.beat() is Beat.FROZEN:
                text = f"it gave no sign of life for {self._frozen_beats * BEAT_S:.3g} s"
                self._declare_lost(peer, text)

    def _declare_left(self, peer: _Peer) -> None:
        """Record that a peer has closed its hub; the peer is another thread of this process.

        The peer's end is not visible in a process descriptor or in a connection between threads.
        """
        self._declare_lost(peer, "it has left all groups", has_left=True)

    def _declare_lost(self, peer: _Peer, why: str, *, has_left: bool = False) -> None:
        with self._lock:
            if peer.why_lost:
                return
            peer.why_lost, peer.has_left = why, has_left
            peer.closed.ring()
            self._lost.append((time.monotonic() + _READ_ON_S, peer, why))
        self._note_connection()
        self._listener.wake()

    def _note_connection(self) -> None:
        with self._connected:
            self._connected.notify_all()


def _shares_processes(record: Record) -> bool:
    return (record.boot_id, record.pid_namespace) == (boot_id(), pid_namespace())


def _is_in_this_process(record: Record) -> bool:
    return record.pid == os.getpid() and _shares_processes(record)


# Guards _hubs, which maps a global rank to its hub. There is one hub, unless several threads of the
# process are members.
_hubs_lock = threading.RLock()
_hubs: dict[int, Hub] = {}
# The incarnations of the open hubs of this process. A closing hub first leaves this set, and then
# looks for itself among the peers of the other hubs. A hub that watches a peer first adds the peer,
# and then checks this set. So at least one of the two hubs detects that the peer is closing.
_live: set[int] = set()


def find_hub(rank: int) -> Hub | None:
    """Return this process's hub for a global rank, or None."""
    with _hubs_lock:
        return _hubs.get(rank)


def get_or_create_hub(rank: int, host: str, security: Security, frozen_s: float) -> Hub:
    """Return this process's hub for a global rank; create the hub if necessary."""
    with _hubs_lock:
        hub = _hubs.get(rank)
        if hub is None:
            if not _hubs:
                atexit.register(_close_all)
            hub = _hubs[rank] = Hub(rank, host, security, frozen_s)
            _live.add(hub.incarnation)
        return hub


def close_if_unused(hub: Hub) -> None:
    """Close a hub if no group uses it."""
    with _hubs_lock:
        if hub.close_if_unused():
            _hubs.pop(hub.rank, None)
            _live.discard(hub.incarnation)
            for other in _hubs.values():
                other.hub_closed(hub.incarnation)
        if not _hubs:
            atexit.unregister(_close_all)


def _close_all() -> None:
    for hub in list(_hubs.values()):
        with suppress(Exception):
            hub.close_all()


def _forget_in_child() -> None:
    # The child does not have the parent's threads and sockets, so groups raise errors: see
    # group.py.
    global _hubs_lock
    _hubs_lock = threading.RLock()
    _hubs.clear()
    _live.clear()


os.register_at_fork(after_in_child=_forget_in_child)
