"""A group's members on one machine: how they wait for each other, and report failures."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from fastdist.core.errors import CollectiveLostError
from fastdist.distributed.pipe.ring.spin_policy import SpinPolicy
from fastdist.system.fence import fence
from fastdist.system.foreign_text import printable

from . import futex
from .alarm import LEFT, Alarm, Waiting, error_of
from .members import Members
from .segment import FAILURE, FUTEX, GO, GONE, SLEEPS, STAGE, Segment

# A sleeping thread checks at this interval in any case: a member with forged counters might never
# wake it.
_LOOK_S: Final = 1.0
_MASK: Final = (1 << 32) - 1


class Machine:
    """This member's state among the members that share a segment.

    Counters only grow. A member publishes a counter, and then wakes the members that sleep. Before
    a member sleeps, it sets its word SLEEPS, and then checks the counters again. Each of the two
    members has a fence between its two steps, so at least one of them sees the other's change: see
    Note [Processors that order memory] in system/fence.py.

    Thread  the thread that runs the group's collective; alarm_rang, fail: any
    """

    def __init__(
        self, segment: Segment, index: int, ranks: Sequence[int], members: Members, alarm: Alarm
    ) -> None:
        self.segment = segment
        self.index = index
        # The group ranks of this machine's members.
        self.ranks = tuple(ranks)
        self.count = len(ranks)
        self._members = members
        self._alarm = alarm
        self._words = segment.words
        self._mine = segment.first_word(index)
        self._others = [segment.first_word(one) for one in range(self.count) if one != index]
        self._rank_at = {segment.first_word(one): ranks[one] for one in range(self.count)}
        self._leader = [segment.first_word(0)]
        self._stage = 0
        self._spin_policy = SpinPolicy()
        # Held while a failure is reported. Two threads may report at the same time: the hub's
        # thread, and a thread that leaves. With the lock, the first text is not overwritten, and
        # the memory exists until all other members have been woken.
        self._reporting = threading.Lock()

    def meet(self, waiting: Waiting, grace_s: float = 0.0) -> None:
        """Advance to the next meeting point of the machine's members, and wait for the others."""
        self._stage += 1
        self.publish(STAGE, self._stage)
        self.wait(STAGE, self._stage, waiting, grace_s)

    def wait_for_go(self, turn: int, waiting: Waiting, grace_s: float) -> None:
        """Wait until the leader has published that all machines have met."""
        if self._words[self._leader[0] + GO] < turn:
            self._wait_at(self._leader, GO, turn, waiting, grace_s)

    def publish(self, word: int, value: int) -> None:
        """Set one of this member's counters. Earlier writes become visible before the counter."""
        words = self._words
        words[self._mine + word] = value
        with fence:
            pass
        for other in self._others:
            if words[other + SLEEPS]:
                self._wake(other)

    def wait(self, word: int, value: int, waiting: Waiting, grace_s: float = 0.0) -> None:
        """Wait until the counter `word` of all other members has reached `value`.

        Raises  CollectiveError that another member or the alarm reported; CollectiveTimeoutError
        """
        words = self._words
        for other in self._others:
            if words[other + word] < value:
                self._wait_at(self._others, word, value, waiting, grace_s)
                return

    def fail(self, kind: int, text: str) -> None:
        """Report to this machine's other members that this member has failed, or left."""
        # If the group is closed, it has no memory, and there is no member to notify.
        with self._reporting, suppress(ValueError):
            words, mine = self._words, self._mine
            if words[mine + FAILURE]:
                return
            self.segment.write_failure(self.index, text.encode(errors="replace"))
            with fence:
                pass
            words[mine + FAILURE] = kind
            with fence:
                pass
            for other in self._others:
                self._wake(other)

    def set_gone(self) -> None:
        """Report to this machine's other members that this member sends no further message."""
        self._words[self._mine + GONE] = 1

    def gone_members(self) -> list[int]:
        """Return the members of this machine that send no further messages."""
        words = self._words
        return [self._rank_at[other] for other in self._others if words[other + GONE]]

    def alarm_rang(self) -> None:
        """Wake the thread of this member that waits, if it sleeps."""
        if not self._others:
            return  # a single member never sleeps here, and futexes may not be available
        # The group may be closed at the same time; then no thread sleeps.
        with suppress(ValueError):
            self._wake(self._mine)

    def _wait_at(
        self, bases: Sequence[int], word: int, value: int, waiting: Waiting, grace_s: float
    ) -> None:
        words, mine = self._words, self._mine

        def is_there() -> bool:
            return all(words[base + word] >= value for base in bases)

        def find_missing() -> list[int]:
            return [self._rank_at[base] for base in bases if words[base + word] < value]

        if self._spin_policy.look(is_there):
            return
        while True:
            sleep_on = words[mine + FUTEX] & _MASK
            words[mine + SLEEPS] = 1
            with fence:
                pass
            missing = find_missing()
            try:
                if not missing:
                    return
                try:
                    self._require_good(missing)
                    left_s = waiting.look(missing, grace_s)
                except CollectiveLostError:
                    # The members may have set their last counters just before they left, but after
                    # these counters were read here.
                    if find_missing() == missing:
                        raise
                    continue
                futex.wait(self._address_of(mine), sleep_on, min(left_s, _LOOK_S))
            finally:
                words[mine + SLEEPS] = 0

    def has_left(self, rank: int) -> bool:
        """Return whether a member of this machine has left the group in an orderly way."""
        # If the group is closed at the same time, its memory is gone.
        with suppress(ValueError):
            for other in self._others:
                if self._rank_at[other] == rank:
                    return self._words[other + FAILURE] == LEFT
        return False

    def require_no_failure(self) -> None:
        """Raise the error of the group if it has failed.

        Raises  CollectiveError that another member of this machine, or the alarm, reported
        """
        self._require_good(())

    def _require_good(self, missing: Sequence[int]) -> None:
        self._alarm.require_none()
        for other in self._others:
            kind = self._words[other + FAILURE]
            # A member may leave when its part of a collective is done; this does not fail the
            # collective on the other members.
            if kind and (kind != LEFT or self._rank_at[other] in missing):
                text = self.segment.failure_text(self._index_at(other)).decode(errors="replace")
                if kind == LEFT:
                    name = self._members.name(self._rank_at[other])
                    raise CollectiveLostError(f"{name} has left the group")
                raise error_of(kind, printable(text))

    def _wake(self, base: int) -> None:
        words = self._words
        words[base + SLEEPS] = 0
        words[base + FUTEX] = (words[base + FUTEX] + 1) & _MASK
        futex.wake(self._address_of(base))

    def _address_of(self, base: int) -> int:
        return self.segment.futex_address(self._index_at(base))

    def _index_at(self, base: int) -> int:
        return base * 8 // self.segment.head_bytes
