"""A group's transport: each collective, from the members' meeting to the caller's arrays."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fastdist.core.errors import (
    CollectiveError,
    CollectiveLostError,
    CollectiveMismatchError,
    MessageError,
)
from fastdist.distributed.pipe.frames import Buffer
from fastdist.distributed.process_group.transport import Call, ClosesQuietly
from fastdist.system.foreign_text import many_lines, printable

from . import wire
from .alarm import LEFT, Alarm, Waiting, error_of, kind_of
from .between import Between, Post
from .hub import Hub, close_if_unused
from .inbox import Inbox
from .machine import Machine
from .mail import Mail
from .meeting import Meeting
from .members import Members, Record
from .movement import Movement, Needs
from .reductions import require_reducible
from .segment import Bytes, Segment
from .sums import Fill, Place, Sums

# How long a member that leaves waits for the other members to read its messages.
_READ_S: Final = 2.0

# A warning shows the stacks of at most this many members, each with limited frames and bytes.
_MOST_QUERIED: Final = 4
_MOST_FRAMES: Final = 12
_MOST_STACK: Final = 8192

_logger = logging.getLogger(__name__)

Array = NDArray[Any]


class LinksTransport(ClosesQuietly):
    """The Transport of one group; process_group/transport.py describes the methods.

    Thread  as described in Transport
    """

    def __init__(
        self,
        hub: Hub,
        rank: int,
        records: Sequence[Record],
        machines: Sequence[Sequence[int]],
        segment: Segment,
        notice_s: float,
    ) -> None:
        self.rank = rank
        self.size = len(records)
        self._hub = hub
        self._pid = os.getpid()
        self._group = records[0].group_id
        self._members = Members(records)
        self._notice_s = notice_s
        self._alarm = Alarm()
        self._alarm.on_late = self._query_stacks
        self._inbox = Inbox(self._alarm)
        self._post = Post(hub, self._group, rank, self._members, self._alarm)
        self._mail = Mail(rank, self._group, self._members, self._alarm, notice_s, self._post.send)
        mine = next(one for one, machine in enumerate(machines) if rank in machine)
        self._machines = machines
        local = machines[mine]
        self._machine = Machine(segment, local.index(rank), local, self._members, self._alarm)
        self._alarm.wakers.append(self._machine.alarm_rang)
        self._alarm.read_reports = self._read_reports
        self._segment = segment
        between = Between(machines, mine, self._post, self._inbox, self._alarm, hub.host)
        self._meeting = Meeting(self._machine, between, self._members)
        self._sums = Sums(self._meeting)
        self._movement = Movement(rank, self._meeting, self._members, self._post)
        # Held during each collective. close() waits for this lock.
        self._busy = threading.Lock()
        # Notified when a member has read all messages; guards the two fields below.
        self._closing = threading.Condition()
        self._is_closed = False
        self._have_read: set[int] = set()
        self._heard: set[int] = set()
        # Members that need no message about the group's failure: they are on this machine, or they
        # have sent or received such a message.
        self._told = set(local)

    # Methods of Transport.

    def all_reduce(self, call: Call, array: Array, op: str) -> None:
        """Replace `array` by the reduction over all members."""
        flat = array.reshape(-1)

        def place(fill: Fill) -> None:
            fill(flat, 0, flat.size)

        self._reduce(call, flat, op, place)

    def reduce(self, call: Call, array: Array, op: str, root: int) -> None:
        """Replace `array` on the member `root` by the reduction over all members."""
        flat = array.reshape(-1)

        def place(fill: Fill) -> None:
            if self.rank == root:
                fill(flat, 0, flat.size)

        self._reduce(call, flat, op, place)

    def reduce_scatter(self, call: Call, out: Array, array: Array, op: str) -> None:
        """Reduce, over all members, the rows that belong to this rank, and write them to `out`."""
        flat, row = array.reshape(-1), out.reshape(-1)

        def place(fill: Fill) -> None:
            fill(row, self.rank * row.size, (self.rank + 1) * row.size)

        self._reduce(call, flat, op, place)

    def broadcast(self, call: Call, array: Array, root: int) -> None:
        """Replace `array` on all members by the array of the member `root`."""
        data = bytes_of(array)
        sizes = [data.nbytes if member == root else 0 for member in range(self.size)]
        pieces = [data] if self.rank == root else []
        outs = [data if member == root != self.rank else None for member in range(self.size)]

        def needs(receiver: int, sender: int) -> tuple[int, int]:
            return 0, sizes[sender] if receiver != root else 0

        self._move(call, pieces, sizes, needs, outs)

    def all_gather(self, call: Call, out: Array, array: Array) -> None:
        """Copy the array of each member into that member's row of `out`."""
        data, rows = bytes_of(array), bytes_of(out)
        size = data.nbytes
        outs = [rows[member * size : (member + 1) * size] for member in range(self.size)]
        self._move(call, [data], [size] * self.size, lambda receiver, sender: (0, size), outs)

    def gather(self, call: Call, outs: Sequence[Array] | None, array: Array, root: int) -> None:
        """Copy the array of each member into `outs` of the member `root`."""
        data = bytes_of(array)
        places: list[Bytes | None] = [None] * self.size
        if self.rank == root:
            places = [bytes_of(out) for out in outs or ()]

        def needs(receiver: int, sender: int) -> tuple[int, int]:
            return 0, data.nbytes if receiver == root else 0

        self._move(call, [data], [data.nbytes] * self.size, needs, places)

    def scatter(self, call: Call, out: Array, arrays: Sequence[Array] | None, root: int) -> None:
        """Copy the array that the member `root` has for this member into `out`."""
        data = bytes_of(out)
        pieces = [bytes_of(array) for array in arrays or ()] if self.rank == root else []
        sizes = [data.nbytes * self.size if one == root else 0 for one in range(self.size)]
        outs = [data if member == root else None for member in range(self.size)]

        def needs(receiver: int, sender: int) -> tuple[int, int]:
            return receiver * data.nbytes, data.nbytes if sender == root else 0

        self._move(call, pieces, sizes, needs, outs)

    def all_to_all(self, call: Call, outs: Sequence[Array], arrays: Sequence[Array]) -> None:
        """Send an array to each member, and receive one from each member."""
        pieces = [bytes_of(array) for array in arrays]
        places = [bytes_of(out) for out in outs]
        self._movement.require_exchange(call)
        with self._collective(call) as waiting:
            self._movement.exchange(call, pieces, places, waiting)

    def barrier(self, call: Call) -> None:
        """Return when all members have called barrier()."""
        with self._collective(call) as waiting:
            self._meeting.meet(call, (), waiting, "")

    def send(self, call: Call, array: Array, to: int, tag: int) -> None:
        """Send `array` to a member; return when `array` may be changed."""
        self._require_usable()
        if to == self.rank:
            raise ValueError(f"{call.name}: a member cannot send to itself")
        self._mail.send(call, array, to, tag)

    def recv(self, call: Call, array: Array, sender: int | None, tag: int) -> int:
        """Fill `array` with the next message of `sender`, or of any member if `sender` is None;
        return the rank of the member that sent it.
        """
        self._require_usable()
        if sender == self.rank:
            raise ValueError(f"{call.name}: a member cannot receive from itself")
        return self._mail.receive(call, array, sender, tag)

    def abort(self, error: Exception) -> None:
        """End every wait in this group with the error, which later calls raise too."""
        self._fail(error)

    def close(self) -> None:
        """Leave the group, and release its resources."""
        with self._closing:
            if self._is_closed or self._pid != os.getpid():
                return
            self._is_closed = True
        error = self._alarm.error
        if error is None:
            self._machine.fail(LEFT, "")
        else:
            # The thread that called `set` of the alarm may not have reported the failure yet.
            self._machine.fail(kind_of(error), str(error))
        all_have_read = self._say_goodbye()
        self._alarm.set(CollectiveError("this group was closed"))
        with self._busy:
            if all_have_read:
                self._machine.set_gone()
            self._hub.detach(self._group)
            self._meeting.between.close()
            self._segment.close()
        close_if_unused(self._hub)

    # Methods that the hub calls on the thread that reads messages.

    def receive(self, head: wire.Head, body: list[Buffer], rank: int | None) -> None:
        """Handle a message.

        Raises  MessageError for an invalid message
        """
        if head.sender >= self.size or head.sender == self.rank:
            raise MessageError(f"a message of member {head.sender} of a group of {self.size}")
        if rank is not None and rank != self._members.records[head.sender].rank:
            raise MessageError(f"rank {rank} sent a message as {head.sender}")
        if not body:
            raise MessageError(f"a message of kind {head.kind} has no body")
        self._heard.add(head.sender)
        if head.kind in (wire.MEET, wire.DATA, wire.BULK):
            if len(body) != (1 if head.kind == wire.DATA else 2):
                raise MessageError(f"a message of kind {head.kind} has {len(body)} parts")
            self._inbox.put(head, body)
        elif head.kind == wire.FAILED:
            text = printable(bytes(body[0]).decode(errors="replace") if body else "")
            self._end(error_of(head.step, text), tells_other_machines=False)
        elif head.kind == wire.BYE:
            # The answer is sent first, because when all members have left, the connections of this
            # member end.
            self._post.notify(head.sender, wire.BYE_SEEN)
            self.peer_left(self._members.records[head.sender])
            if head.step:
                self._hub.peer_left(self._members.records[head.sender])
        elif head.kind == wire.BYE_SEEN:
            self._note_read(head.sender)
        elif head.kind == wire.WHERE:
            self._post.notify(head.sender, wire.STACK, _main_stack())
        elif head.kind == wire.STACK:
            stack = many_lines(bytes(body[0]).decode(errors="replace"), _MOST_STACK)
            name = self._members.name(head.sender)
            _logger.warning(
                "the main thread of %s, which others wait for, is here:\n    %s", name, stack
            )
        else:
            self._mail.arrived(head, body)

    def peer_left(self, peer: Record) -> None:
        """Record that a process has left the group; its end is no failure from now on."""
        for member, record in enumerate(self._members.records):
            if record.incarnation == peer.incarnation:
                self._alarm.member_left(member)
                self._note_read(member)

    def peer_lost(self, peer: Record, why: str) -> None:
        """End the group, because one of its processes has ended or cannot be reached."""
        for member, record in enumerate(self._members.records):
            if record.incarnation == peer.incarnation and member not in self._alarm.left:
                text = f"{self._members.name(member)} was lost: {why}"
                self._note_read(member)
                if self._machine.has_left(member):
                    # The peer left the group before it ended, so others may continue without it.
                    self._alarm.member_left(member)
                    continue
                # If this process has left the group too, it needs nothing more from the peer. It is
                # then no error if the peer ends before all its data has been received.
                if not self._is_closed:
                    self._end(CollectiveLostError(text), tells_other_machines=True)

    # The beginning and the end of a collective.

    @contextmanager
    def _collective(self, call: Call) -> Iterator[Waiting]:
        # Checked before the lock is acquired too: in a forked child, no thread would release it.
        self._require_usable()
        with self._busy:
            self._require_usable()
            self._meeting.turn += 1
            if not self._meeting.is_alone:
                self._inbox.begin(self._meeting.turn)
            try:
                yield Waiting(call, self._members, self._alarm, self._notice_s)
            except CollectiveMismatchError:
                raise
            except CollectiveError as error:
                self._fail(error)
                raise
            except BaseException as error:
                name = self._members.name(self.rank)
                self._fail(
                    CollectiveError(
                        f"{name} was interrupted in {call.name} at {call.line}: {error!r}"
                    )
                )
                raise

    def _require_usable(self) -> None:
        if self._pid != os.getpid():
            raise CollectiveError(
                f"this group belongs to process {self._pid}, which forked process {os.getpid()}: "
                "start workers with the 'spawn' method, or fork before the first group"
            )
        self._alarm.require_none()

    def _read_reports(self) -> None:
        # If the group is closed at the same time, its memory is gone.
        with suppress(ValueError):
            self._machine.require_no_failure()
            self._alarm.left.update(self._machine.gone_members())

    def _reduce(self, call: Call, flat: Array, op: str, place: Place) -> None:
        require_reducible(op, flat.dtype)
        with self._collective(call) as waiting, np.errstate(all="ignore"):
            self._sums.reduce(call, flat, op, place, waiting)

    def _move(
        self,
        call: Call,
        pieces: Sequence[Bytes],
        sizes: Sequence[int],
        needs: Needs,
        outs: Sequence[Bytes | None],
    ) -> None:
        with self._collective(call) as waiting:
            self._movement.move(call, pieces, sizes, needs, outs, waiting)

    def _query_stacks(self, members: Sequence[int]) -> None:
        for member in members[:_MOST_QUERIED]:
            self._post.notify(member, wire.WHERE)
            # A member on another machine may have left without a message to this member.
            self._hub.knock(self._members.records[member])

    # The end of a group.

    def _fail(self, error: Exception) -> None:
        self._end(error, tells_other_machines=True)

    def _end(self, error: Exception, *, tells_other_machines: bool) -> None:
        """End the group with a failure of this member, or one that was reported by another."""
        if not self._alarm.set(error):
            return
        kind, text = kind_of(error), str(error)
        self._machine.fail(kind, text)
        if tells_other_machines:
            leaders = {machine[0] for machine in self._machines}
            for member in range(self.size):
                if member != self.rank and (member in leaders or self._is_reached(member)):
                    self._told.add(member)
                    self._post.notify(member, wire.FAILED, text.encode(errors="replace"), kind)

    def _is_reached(self, member: int) -> bool:
        return self._hub.has_lane_to(self._members.records[member])

    def _say_goodbye(self) -> bool:
        """Notify other members that no message follows, and wait until they have read all messages
        of this member.

        Return whether all of these members have read them.
        """
        left = self._alarm.left
        others = [one for one in range(self.size) if one != self.rank and one not in left]
        awaited = {one for one in others if one in self._heard or self._is_reached(one)}
        all_reached = frozenset(awaited)
        error = self._alarm.error
        until = time.monotonic() + _READ_S if error is None else 0.0
        is_last = int(self._hub.has_only(self._group))
        # Members to which there is no connection yet come last. A goodbye is sent to all members,
        # because without a goodbye the end of a connection would count as a loss.
        for member in sorted(awaited, key=self._is_reached, reverse=True):
            if error is not None and member not in self._told:
                # The member that failed first has notified all members, but its notice may arrive
                # after this goodbye.
                text = str(error).encode(errors="replace")
                self._post.notify(member, wire.FAILED, text, kind_of(error), until=until)
            if not self._post.notify(member, wire.BYE, step=is_last, until=until):
                awaited.discard(member)
        if error is not None:
            return False
        with self._closing:
            while awaited - self._have_read - left and (left_s := until - time.monotonic()) > 0:
                self._closing.wait(left_s)
            return not all_reached - self._have_read - left

    def _note_read(self, member: int) -> None:
        with self._closing:
            self._have_read.add(member)
            self._closing.notify_all()


def _main_stack() -> bytes:
    """Return the innermost frames of the main thread's stack, as bytes of text."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    return "".join(traceback.format_stack(frame, _MOST_FRAMES)).encode()[-_MOST_STACK:]


def bytes_of(array: Array) -> Bytes:
    """Return the bytes of a C-contiguous array as a view."""
    return array.reshape(-1).view(np.uint8)
