"""Collectives that move data without sums: broadcast, gather, scatter and the like."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fastdist.core.errors import CollectiveMismatchError, MessageError
from fastdist.distributed.process_group.transport import Call
from fastdist.distributed.sockets import MAX_FRAME_BYTES

from .alarm import REPORT_S, Waiting
from .between import Post
from .meeting import Meeting
from .members import Members
from .segment import SMALL_BYTES, Bytes

# Note [Movement]
# Each member contributes bytes, and needs a range of every other member's contribution. Small
# contributions are sent with the meeting. A large contribution is written to the board of its
# machine, at an offset that follows from all sizes. It is also sent directly to those members on
# other machines that need a range of it. If all members of another machine need the same range, as
# in broadcast and all_gather, the range is sent to only one of them, which writes it to the board
# for the others. All data has arrived before any member's arrays are changed.

# The largest total size in bytes of contributions that are sent with a meeting of several machines.
_MOST_BETWEEN_BYTES: Final = 128 << 10
_ALIGNMENT: Final = 64
# More bytes than any machine's memory has. A larger size is forged, and must not keep a member
# busy.
_MOST_BYTES: Final = 1 << 46

# Maps (receiver, sender) to the range of the sender's contribution that the receiver needs: its
# start and its size in bytes.
Needs = Callable[[int, int], tuple[int, int]]
Outs = Sequence[Bytes | None]


class Movement:
    """The data movements of one group.

    Thread  the thread that runs the group's collective
    """

    def __init__(self, rank: int, meeting: Meeting, members: Members, post: Post) -> None:
        self._rank = rank
        self._meeting = meeting
        self._members = members
        self._post = post
        self._local = {member: one for one, member in enumerate(meeting.machine.ranks)}

    def move(
        self,
        call: Call,
        pieces: Sequence[Bytes],
        sizes: Sequence[int],
        needs: Needs,
        outs: Outs,
        waiting: Waiting,
    ) -> None:
        """Meet all members, and fill outs[member] with the range that this member needs from it.

        The concatenated `pieces` are this member's contribution. `sizes` has the sizes in bytes of
        all members' contributions.
        """
        meeting = self._meeting
        is_small = max(sizes) <= SMALL_BYTES and (
            meeting.is_alone or sum(sizes) <= _MOST_BETWEEN_BYTES
        )
        if not is_small:
            meeting.meet(call, (), waiting, _detail(sizes))
            self._carry(call, pieces, sizes, needs, outs, waiting)
            return
        found = self._meet_with_small(call, pieces, sizes, waiting)
        for sender, out in enumerate(outs):
            start, size = needs(self._rank, sender)
            if out is not None and size:
                out[...] = found[sender][start : start + size]

    def require_exchange(self, call: Call) -> None:
        """Reject an exchange whose tables of sizes do not fit in a message between machines.

        Raises  ValueError, on all members
        """
        size = len(self._members.records)
        if not self._meeting.is_alone and 16 * size * size > MAX_FRAME_BYTES:
            raise ValueError(
                f"{call.name}: a group of {size} members on several machines cannot exchange what "
                f"each sends to each: {math.isqrt(MAX_FRAME_BYTES // 16)} can. Use smaller groups, "
                "or send and recv"
            )

    def exchange(
        self, call: Call, pieces: Sequence[Bytes], outs: Sequence[Bytes], waiting: Waiting
    ) -> None:
        """Meet all members. Send pieces[i] to member i, and fill outs[i] with what member i sends.

        Raises  CollectiveMismatchError, on all members, if a member sends more or fewer bytes to
                another member than the receiver expects
        """
        mine = [piece.nbytes for piece in pieces] + [out.nbytes for out in outs]
        tables = self._meet_with_tables(call, mine, waiting)
        size = len(outs)
        sent, expected = tables[:, :size], tables[:, size:].T
        if not np.array_equal(sent, expected):
            sender, receiver = np.argwhere(sent != expected)[0].tolist()
            raise CollectiveMismatchError(
                f"{call.name}: {self._members.name(sender)} sends {sent[sender, receiver]} bytes "
                f"to {self._members.name(receiver)}, which expects {expected[sender, receiver]}"
            )
        if sent.min() < 0 or sent.max() > _MOST_BYTES:
            raise MessageError(f"a member sends {sent.max()} bytes")
        offsets = sent.cumsum(axis=1) - sent

        def needs(receiver: int, sender: int) -> tuple[int, int]:
            return int(offsets[sender, receiver]), int(sent[sender, receiver])

        sizes = sent.sum(axis=1).tolist()
        self._carry(call, pieces, sizes, needs, outs, waiting)

    def _meet_with_small(
        self, call: Call, pieces: Sequence[Bytes], sizes: Sequence[int], waiting: Waiting
    ) -> list[Bytes]:
        """Meet all members; return their contributions, which are valid until the next meeting."""
        meeting, segment = self._meeting, self._meeting.segment

        def local_ones() -> Bytes:
            return np.concatenate(
                [
                    segment.small(one, meeting.parity)[: sizes[member]]
                    for member, one in self._local.items()
                ]
            )

        found = meeting.meet(call, pieces, waiting, _detail(sizes), local_ones)
        if meeting.is_alone:
            return [segment.small(one, meeting.parity) for one in range(len(sizes))]
        order = [member for machine in meeting.between.machines for member in machine]
        shared, at = segment.ring(0), 0
        if found is not None:
            data = np.concatenate([np.frombuffer(body, np.uint8) for body in found])
            if data.nbytes != sum(sizes):
                raise MessageError(f"machines sent {data.nbytes} bytes; expected {sum(sizes)}")
            shared[: data.nbytes] = data
            meeting.go()
        all_of_them = [shared] * len(sizes)
        for member in order:
            all_of_them[member] = shared[at : at + sizes[member]]
            at += sizes[member]
        return all_of_them

    def _meet_with_tables(
        self, call: Call, mine: Sequence[int], waiting: Waiting
    ) -> NDArray[np.int64]:
        """Meet all members; return a row for each member: the numbers of bytes that it sends to all
        members, and then the numbers that it expects from all members.
        """
        meeting, segment = self._meeting, self._meeting.segment
        nbytes = len(self._members.records) * len(mine) * 8
        segment.table(meeting.machine.index, meeting.parity)[:] = mine

        def local_ones() -> Bytes:
            rows = [segment.table(one, meeting.parity) for one in range(len(self._local))]
            return np.concatenate(rows).view(np.uint8)

        found = meeting.meet(call, (), waiting, "", local_ones)
        if meeting.is_alone:
            return local_ones().view(np.int64).reshape(-1, len(mine))
        order = [member for machine in meeting.between.machines for member in machine]
        data = None
        if found is not None:
            data = np.concatenate([np.frombuffer(body, np.uint8) for body in found])
            if data.nbytes != nbytes:
                raise MessageError(f"machines sent tables of {data.nbytes} bytes")
        shared = segment.ring(0)
        if nbytes <= shared.nbytes:
            if data is not None:
                shared[:nbytes] = data
                meeting.go()
        else:
            # The size of the table grows with the square of the number of members. This table does
            # not fit in the ring, so it is shared on the board.
            if data is not None:
                meeting.go()
            shared = np.empty(nbytes, np.uint8) if data is None else data
            self._share_here(shared, data is not None, waiting)
        tables = np.empty((len(order), len(mine)), np.int64)
        tables[order] = shared[:nbytes].view(np.int64).reshape(tables.shape)
        return tables

    def _carry(
        self,
        call: Call,
        pieces: Sequence[Bytes],
        sizes: Sequence[int],
        needs: Needs,
        outs: Outs,
        waiting: Waiting,
    ) -> None:
        """Fill `outs`; all members have met before, and their contributions are large."""
        turn, rank, between = self._meeting.turn, self._rank, self._meeting.between
        for machine in between.machines:
            if rank not in machine:
                for receiver in _receivers(machine, rank, needs):
                    for part in _range_of(pieces, *needs(receiver, rank)):
                        self._post.send_array(receiver, turn, 0, part, call)
        fetched: dict[int, Bytes] = {}
        here, shared = between.machines[between.mine], []
        for sender in range(len(sizes)):
            size = needs(rank, sender)[1]
            if sender in self._local or not size:
                continue
            fetched[sender] = np.empty(size, np.uint8)
            receivers = _receivers(here, sender, needs)
            if rank in receivers:
                between.receive_array(sender, turn, fetched[sender], waiting)
            if len(receivers) < len(here):
                shared.append((fetched[sender], rank in receivers))
        for array, has_come in shared:
            self._share_here(array, has_come, waiting)
        fetched.update(self._carry_here(pieces, sizes, needs, waiting))
        for sender, out in enumerate(outs):
            if out is not None and sender in fetched:
                out[...] = fetched[sender]
        own = outs[rank]
        if own is not None:
            for part in _range_of(pieces, *needs(rank, rank)):
                if part.ctypes.data != own.ctypes.data:
                    own[...] = part

    def _share_here(self, array: Bytes, has_come: bool, waiting: Waiting) -> None:
        """Copy an array from the only local member that has received it to the other local ones."""
        machine, segment = self._meeting.machine, self._meeting.segment
        for start in range(0, array.nbytes, segment.board_bytes):
            part = array[start : start + segment.board_bytes]
            board = segment.board(0, part.nbytes)
            if has_come:
                board[...] = part
            machine.meet(waiting, 2 * REPORT_S)
            if not has_come:
                part[...] = board
            machine.meet(waiting, 2 * REPORT_S)

    def _carry_here(
        self, pieces: Sequence[Bytes], sizes: Sequence[int], needs: Needs, waiting: Waiting
    ) -> dict[int, Bytes]:
        """Return the bytes that this member needs from local members; valid until the next
        meeting.
        """
        machine, segment, rank = self._meeting.machine, self._meeting.segment, self._rank
        if machine.count == 1:
            return {}
        starts, at = {}, 0
        for member in self._local:
            starts[member] = at
            at += -(-sizes[member] // _ALIGNMENT) * _ALIGNMENT
        wanted = {
            sender: needs(rank, sender)
            for sender in self._local
            if sender != rank and needs(rank, sender)[1]
        }
        if at > segment.board_bytes:
            return self._carry_in_turns(pieces, sizes, wanted, waiting)
        for part in pieces:
            segment.board(starts[rank], starts[rank] + part.nbytes)[...] = part
            starts[rank] += part.nbytes
        machine.meet(waiting)
        return {
            sender: segment.board(starts[sender] + start, starts[sender] + start + size)
            for sender, (start, size) in wanted.items()
        }

    def _carry_in_turns(
        self,
        pieces: Sequence[Bytes],
        sizes: Sequence[int],
        wanted: dict[int, tuple[int, int]],
        waiting: Waiting,
    ) -> dict[int, Bytes]:
        """Like _carry_here, for a small board: it gets one part of each contribution at a time."""
        machine, segment = self._meeting.machine, self._meeting.segment
        window = segment.board_bytes // machine.count // _ALIGNMENT * _ALIGNMENT
        found = {sender: np.empty(size, np.uint8) for sender, (_, size) in wanted.items()}
        for low in range(0, max(sizes[member] for member in self._local), window):
            at = machine.index * window
            for part in _range_of(pieces, low, min(window, sizes[self._rank] - low)):
                segment.board(at, at + part.nbytes)[...] = part
                at += part.nbytes
            machine.meet(waiting)
            for sender, (start, size) in wanted.items():
                first, last = max(start, low), min(start + size, low + window)
                if first < last:
                    base = self._local[sender] * window - low
                    part = segment.board(base + first, base + last)
                    found[sender][first - start : last - start] = part
            machine.meet(waiting)
        return found


def _receivers(machine: Sequence[int], sender: int, needs: Needs) -> Sequence[int]:
    """Return the members of a machine to which `sender`, a member of another machine, sends data.

    If all of them need the same range, only one receives it. Which one it is depends on `sender`.
    """
    ranges = {needs(receiver, sender) for receiver in machine}
    if len(machine) > 1 and len(ranges) == 1 and ranges.pop()[1]:
        return [machine[sender % len(machine)]]
    return machine


def _range_of(pieces: Sequence[Bytes], start: int, size: int) -> list[Bytes]:
    """Return the slices of `pieces` that make up a range of the concatenated pieces, in bytes."""
    found = []
    for piece in pieces:
        if size <= 0:
            break
        if start < piece.nbytes:
            part = piece[start : start + size]
            found.append(part)
            size -= part.nbytes
        start = max(0, start - piece.nbytes)
    return found


def _detail(sizes: Sequence[int]) -> str:
    largest = max(sizes)
    return (
        f"{largest} bytes of each" if min(sizes) else f"{largest} bytes of {sizes.index(largest)}"
    )
