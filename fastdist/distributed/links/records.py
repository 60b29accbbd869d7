"""Records: sealed pieces that leaders send over two connections, one in each direction."""

# Note [Records]
# A record is a head, data and a tag. The tag covers the head, the data and the record's number.
# So a record that was changed, repeated, left out or moved ends the group before its data is
# used. Until the tag is checked, the data is in a buffer of a Records object, or in a result
# that no caller has received.
# Encrypted data is received into a small buffer that stays in the processor's caches. The data
# of large arrays is received into the same buffer and then copied: that takes a sixth less time
# than receiving the data directly into memory that is not cached.
# A short record may be joined with the next one. Then it has no tag, and the tag of the next
# record covers both records. So the contents of the short record can be trusted only when the next
# record has been opened.
# One thread does all the work: it seals and sends as much as the socket accepts, and receives
# and opens in between, so that no two leaders wait for each other.

from __future__ import annotations

import itertools
import os
import select
import socket
import struct
import time
from collections import deque
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastdist.core.errors import CollectiveError, CollectiveLostError
from fastdist.distributed.pipe.ring.spin_policy import SpinPolicy
from fastdist.distributed.sockets import Doorbell

from .alarm import REASON_S, REPORT_S, Alarm, Waiting
from .algorithms import Seals
from .cipher import CipherError

# Larger pieces do not fit in the processor's caches; smaller pieces need more calls. This is the
# fastest size between 64 KB and 1 MB, for sums of 16 and 64 MB (2 cores of an AMD EPYC, Zen 5).
PIECE_BYTES: Final = 512 << 10
# Turn, number, bytes, offset. Computing a tag takes half as long if the data after the head starts
# at a multiple of 16 bytes.
_HEAD: Final = struct.Struct("<QIIQ8x")
# A receiver reads up to this many bytes beyond the end of a record. So the head of the next record,
# or a call (see pair.py) with its head, needs no separate system call.
_AHEAD_BYTES: Final = 512
# The most queued records that one call of sendmsg() sends.
_MOST_JOINED: Final = 8
# A leader polls for this long before it sleeps, because sleeping and waking can take longer than
# the arrival of the next piece.
_SPIN_S: Final = 200e-6
_HAS_TWO_PROCESSORS: Final = (os.cpu_count() or 1) > 1

Bytes = NDArray[np.uint8]


class RecordHead(NamedTuple):
    """The fields of a record's head."""

    turn: int
    # The kind of the record if pair.py uses it, or the step of the sum if ring.py uses it.
    number: int
    nbytes: int
    offset: int


class Records:
    """A leader's connections to the next and the previous leader, and the records on them.

    Thread  the thread that runs the group's collective; close: any, after the collective
    """

    def __init__(
        self,
        to_next: socket.socket,
        from_previous: socket.socket,
        sealing: Seals | None,
        opening: Seals | None,
        neighbours: tuple[int, int],
        alarm: Alarm,
        bell: Doorbell,
    ) -> None:
        self._to_next = to_next
        self._from_previous = from_previous
        self._sealing = sealing
        self._opening = opening
        # The group ranks of the next and the previous leader.
        self.next, self.previous = neighbours
        self._alarm = alarm
        self._bell = bell
        # Whether the connection to the next leader stays on this machine.
        self.is_local = to_next.getsockname()[0:1] == to_next.getpeername()[0:1]
        # The bytes of joined records that wait for the next record's tag.
        self._joined_to_send = self._joined_received = b""
        # Records to send (head, data and tag), each with the reusable buffer of its data, if any.
        self._queue: deque[tuple[list[memoryview], Bytes | None]] = deque()
        self._buffers: list[Bytes] = []
        self._head = bytearray(_HEAD.size)
        # A buffer for one piece of received data; the buffer stays in the processor's caches.
        self._sealed = np.empty(PIECE_BYTES, np.uint8)
        self._tag = bytearray(0 if opening is None else opening.tag_bytes)
        # The head of the record whose data is expected, and the memory to fill with the next bytes.
        self._received: RecordHead | None = None
        self._missing = [memoryview(self._head)]
        # Bytes received after the end of a record, and the memory that contains them.
        self._ahead = memoryview(b"")
        self._ahead_memory = memoryview(bytearray(_AHEAD_BYTES))
        self._spin_policy = SpinPolicy()
        # Whether data has arrived since this leader last slept.
        self._is_flowing = False
        self._reading, self._writing, both = select.poll(), select.poll(), select.poll()
        self._both = both
        for poller in (self._reading, self._writing, both):
            poller.register(bell.fileno(), select.POLLIN)
        for poller in (self._reading, both):
            poller.register(from_previous.fileno(), select.POLLIN)
        for poller in (self._writing, both):
            poller.register(to_next.fileno(), select.POLLOUT)

    @property
    def can_join(self) -> bool:
        """Whether records may be joined; encrypted records may not."""
        return self._sealing is not None and not self._sealing.encrypts

    @property
    def num_queued(self) -> int:
        """The number of queued records, including one that has been sent partly."""
        return len(self._queue)

    def close(self) -> None:
        """Close the connections."""
        for connection in (self._to_next, self._from_previous):
            connection.close()
        for cipher in (self._sealing, self._opening):
            if cipher is not None:
                cipher.close()

    def enqueue(
        self, turn: int, number: int, data: Bytes, offset: int, *, is_joined: bool = False
    ) -> None:
        """Seal and queue a record for `send_some`. `data` must not change before it is sent.

        With `is_joined` the record has no tag: the tag of the next record covers both. This is only
        allowed if `can_join` is true.
        """
        head = _HEAD.pack(turn, number, data.nbytes, offset)
        if is_joined:
            self._joined_to_send += _padded(head + data.tobytes())
            self._queue.append(([memoryview(head), data.data], None))
            return
        buffer = None
        views = [memoryview(head), data.data]
        if self._sealing is not None:
            sealed = data
            if self._sealing.encrypts:
                if data.nbytes <= PIECE_BYTES:
                    buffer = self._buffers.pop() if self._buffers else np.empty_like(self._sealed)
                    sealed = buffer[: data.nbytes]
                else:
                    sealed = np.empty_like(data)
            tag = self._sealing.seal(self._joined_to_send + head, data, sealed)
            self._joined_to_send = b""
            views = [memoryview(head), sealed.data, memoryview(tag)]
        self._queue.append((views, buffer))

    def send_some(self, waiting: Waiting) -> bool:
        """Send as much as the socket accepts now; return whether data was sent."""
        has_sent = False
        while self._queue:
            records = itertools.islice(self._queue, _MOST_JOINED)
            try:
                sent = self._to_next.sendmsg([view for views, _ in records for view in views])
            except BlockingIOError:
                break
            except OSError as error:
                raise self._broken(self.next, f"its connection broke: {error}", waiting) from error
            has_sent = True
            while self._queue:
                views, buffer = self._queue[0]
                sent = _drop(views, sent)
                if views:
                    break
                self._queue.popleft()
                if buffer is not None:
                    self._buffers.append(buffer)
        return has_sent

    def receive_head(self, waiting: Waiting) -> RecordHead | None:
        """Return the head of the next record; None if the head has not arrived completely.

        The head is not authenticated yet. Use it only to choose the memory that `receive_data`
        fills.
        """
        if self._received is None:
            if not self._fill(waiting):
                return None
            self._received = RecordHead(*_HEAD.unpack(self._head))
        return self._received

    def receive_data(
        self, out: Bytes, waiting: Waiting, *, is_cached: bool = True, is_joined: bool = False
    ) -> bool:
        """Receive the data of the record whose head has arrived; return whether it is complete.

        While this returns False, the contents of `out` are invalid, and the next call must get the
        same `out`. `is_cached` says whether `out` may be in the processor's caches. With
        `is_joined` the data can be trusted only when the next record has been received.

        Raises  CollectiveLostError if the record was changed on its way
        """
        data = out
        opening = self._opening
        if opening is not None and (opening.encrypts or not is_cached):
            if out.nbytes > self._sealed.nbytes:
                self._sealed = np.empty(out.nbytes, np.uint8)
            data = self._sealed[: out.nbytes]
        if not self._missing:
            tag = self._tag if not is_joined else b""
            self._missing = [view for view in (data.data, memoryview(tag)) if len(view)]
        if self._missing and not self._fill(waiting):
            return False
        self._received, self._missing = None, [memoryview(self._head)]
        if is_joined:
            self._joined_received += _padded(bytes(self._head) + out.tobytes())
        elif opening is not None:
            try:
                head, self._joined_received = self._joined_received + self._head, b""
                opening.open(head, data, bytes(self._tag), out)
            except CipherError as error:
                raise self._broken(self.previous, str(error), waiting) from error
        return True

    def sleep(self, waiting: Waiting, *, reads: bool) -> None:
        """Wait until queued data can be sent; with `reads`, arriving data also ends the wait."""
        self._alarm.require_none()
        poller = self._reading if not self._queue else self._both if reads else self._writing
        ready = self._spin(poller) if self._is_flowing else []
        if not ready and self._spin_policy.look(lambda: bool(poller.poll(0))):
            ready = poller.poll(0)
        elif not ready:
            self._is_flowing = False
            # A member that has left may have sent the awaited data before it left. The end of its
            # connection shows that no more data follows.
            missing = self.previous if reads else self.next
            left_s = waiting.look([missing], REPORT_S, awaits_left=True)
            ready = poller.poll(left_s * 1000)
        if any(fd == self._bell.fileno() for fd, _ in ready):
            self._bell.clear()
            self._alarm.require_none()

    def _spin(self, poller: select.poll) -> list[tuple[int, int]]:
        """Poll for as long as the next part of an array may take; return the ready descriptors."""
        until = time.monotonic() + _SPIN_S
        while not (ready := poller.poll(0)) and time.monotonic() < until:
            os.sched_yield()
        return ready

    def _fill(self, waiting: Waiting) -> bool:
        """Receive into the memory in `_missing`; return whether all of it is filled."""
        missing = self._missing
        while self._ahead and missing:
            count = min(len(self._ahead), len(missing[0]))
            missing[0][:count] = self._ahead[:count]
            self._ahead = self._ahead[count:]
            _drop(missing, count)
        while missing:
            try:
                received = self._from_previous.recvmsg_into([*missing, self._ahead_memory])[0]
            except BlockingIOError:
                return False
            except OSError as error:
                raise self._broken(
                    self.previous, f"its connection broke: {error}", waiting
                ) from error
            if not received:
                raise self._broken(self.previous, "its connection has ended", waiting)
            self._is_flowing = _HAS_TWO_PROCESSORS
            self._ahead = self._ahead_memory[: _drop(missing, received)]
        return True

    def _broken(self, member: int, why: str, waiting: Waiting) -> CollectiveError:
        self._bell.wait(time.monotonic() + REASON_S)
        self._alarm.require_none()
        waiting.look([member], REPORT_S)
        return CollectiveLostError(f"{waiting.name(member)} was lost: {why}")


def _padded(record: bytes) -> bytes:
    # Padding lets the next part start at a multiple of 16 bytes: see _HEAD.
    return record + bytes(-len(record) % 16)


def _drop(views: list[memoryview], nbytes: int) -> int:
    """Remove the first `nbytes` bytes from `views`; return how many bytes were missing."""
    while views and nbytes >= len(views[0]):
        nbytes -= len(views.pop(0))
    if views and nbytes:
        views[0] = views[0][nbytes:]
        return 0
    return nbytes
