"""The meeting of a group's members in each collective, in which they compare their calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastdist.core.errors import CollectiveMismatchError
from fastdist.distributed.pipe.frames import Buffer
from fastdist.distributed.process_group.transport import Call
from fastdist.system.foreign_text import printable

from .alarm import REPORT_S, Waiting
from .between import Between
from .calls import encode_call, mismatch, shared_of
from .machine import Machine
from .members import Members
from .pair import Agrees
from .segment import CALL_BYTES, GO, GO_DIFFERS, SHARED_BYTES, Bytes
from .tree import Merge

# Note [How members meet]
# Each member writes a description of its call, and a small contribution, into the segment of its
# machine. It waits for the other members of the machine, and then compares all their calls. Then
# the leaders, the members with the lowest ranks of the machines, exchange the calls of their
# machines, and let their members continue. Every call has been compared before any array is
# changed. So a difference is an error on all members, and the group stays usable, because all
# members are at the same point.

# The first byte of a machine's text if the calls of its own members differ. The text of a call
# never begins with this byte.
_DIFFERS = b"\0"

Contribute = Callable[[], Bytes]


def _agrees_with(sent: bytes) -> Agrees:
    """Return a function that checks whether another machine's text describes the call in `sent`."""
    mine = shared_of(sent)
    return lambda theirs: not sent.startswith(_DIFFERS) and shared_of(theirs) == mine


class Meeting:
    """The step of a collective in which all members of a group meet.

    Thread  the thread that runs the group's collective
    """

    def __init__(self, machine: Machine, between: Between, members: Members) -> None:
        self.machine = machine
        self.between = between
        self.segment = machine.segment
        self.is_alone = len(between.machines) == 1
        self.is_leader = machine.index == 0
        self.turn = 0
        self._members = members

    @property
    def parity(self) -> int:
        """The index of the slot that this turn uses, 0 or 1: see Note [Layout of a segment]."""
        return self.turn & 1

    def meet(
        self,
        call: Call,
        pieces: Sequence[Bytes],
        waiting: Waiting,
        detail: str,
        contribute: Contribute | None = None,
        merge: Merge | None = None,
    ) -> list[Buffer] | None:
        """Meet all members, which must have the same `detail`.

        The concatenated `pieces` are this member's small contribution. They are written to its
        small slot in the segment.

        With several machines, each leader sends the result of `contribute` for its machine to the
        other leaders. The return value on a leader has the contributions of all machines, some of
        them combined by `merge` if it is given. The leader calls `go` when the other members of its
        machine may read the result. On all other members the return value is None.

        Raises  CollectiveMismatchError, on all members
        """
        segment, machine, parity = self.segment, self.machine, self.parity
        text, num_shared = encode_call(call, detail)
        segment.write_call(machine.index, parity, text)
        mine = segment.first_word(machine.index)
        segment.words[mine + CALL_BYTES + parity] = len(text)
        segment.words[mine + SHARED_BYTES + parity] = num_shared
        if pieces:
            slot, at = segment.small(machine.index, parity), 0
            for piece in pieces:
                slot[at : at + piece.nbytes] = piece
                at += piece.nbytes
        machine.meet(waiting)
        error = self._local_difference(text, num_shared)
        if self.is_alone or not self.is_leader:
            if error is not None:
                raise error
            if not self.is_alone:
                self._wait_for_go(waiting)
            return None
        return self._meet_leaders(call, text, error, waiting, contribute, merge)

    @property
    def can_reduce_at_once(self) -> bool:
        """Whether `meet_and_exchange` may be called."""
        return self.machine.count == 1 and self.between.pair is not None

    def meet_and_exchange(
        self,
        call: Call,
        mine: NDArray[Any],
        theirs: NDArray[Any],
        waiting: Waiting,
        detail: str,
    ) -> None:
        """Meet the only other member, send it the array `mine`, and fill `theirs` with its array.

        Raises  CollectiveMismatchError, on both members
        """
        pair, number = self.between.pair, self.between.mine
        assert pair is not None
        text, _ = encode_call(call, detail)
        agrees = _agrees_with(text)
        other = pair.meet_and_exchange(self.turn, text, mine, theirs, agrees, waiting)
        texts = (text, other) if number == 0 else (other, text)
        error = self._difference(texts)
        if error is not None:
            raise error

    def go(self) -> None:
        """Let the other members of this machine continue; only the leader calls it, after
        `contribute`.
        """
        self.machine.publish(GO, self.turn)

    def _local_difference(self, text: bytes, num_shared: int) -> CollectiveMismatchError | None:
        segment, parity, shared = self.segment, self.parity, text[:num_shared]
        bases = [segment.first_word(one) for one in range(self.machine.count)]
        for one, base in enumerate(bases):
            theirs = segment.words[base + SHARED_BYTES + parity]
            if theirs != num_shared or segment.call_text(one, parity, num_shared) != shared:
                break
        else:
            return None
        texts = []
        for one, base in enumerate(bases):
            length = segment.words[base + CALL_BYTES + parity]
            texts.append((self.machine.ranks[one], segment.call_text(one, parity, length)))
        return mismatch(self._members, texts)

    def _wait_for_go(self, waiting: Waiting) -> None:
        self.machine.wait_for_go(self.turn, waiting, REPORT_S + self.between.report_s)
        if self.segment.words[self.segment.first_word(0) + GO_DIFFERS] == self.turn:
            text = self.segment.go_text(0).decode(errors="replace")
            raise CollectiveMismatchError(printable(text))

    def _meet_leaders(
        self,
        call: Call,
        text: bytes,
        error: CollectiveMismatchError | None,
        waiting: Waiting,
        contribute: Contribute | None,
        merge: Merge | None,
    ) -> list[Buffer] | None:
        data = np.empty(0, np.uint8)
        if error is None and contribute is not None:
            data = contribute()
        sent = text if error is None else _DIFFERS + str(error).encode(errors="replace")
        agrees = _agrees_with(sent)
        texts, bodies = self.between.meet(self.turn, sent, data, agrees, waiting, call, merge)
        error = error or self._difference(texts)
        if error is not None:
            self.segment.write_go(0, str(error).encode(errors="replace"))
            self.segment.words[self.segment.first_word(0) + GO_DIFFERS] = self.turn
            self.go()
            raise error
        if contribute is None:
            self.go()
        return bodies

    def _difference(self, texts: Sequence[bytes]) -> CollectiveMismatchError | None:
        for text in texts:
            if text.startswith(_DIFFERS):
                return CollectiveMismatchError(printable(text[1:].decode(errors="replace")))
        if len({shared_of(text) for text in texts}) == 1:
            return None
        machines = zip(self.between.machines, texts, strict=True)
        each = [(member, text) for machine, text in machines for member in machine]
        return mismatch(self._members, sorted(each))
