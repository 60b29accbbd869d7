"""How this worker leaves its group: a table of stages, and the work of each stage."""

# Note [How a worker leaves]
#
#   stage      work of this worker                        next stage when          at the latest
#   SERVING    makes calls and serves calls               shutdown() is called
#   COMING     its calls end; it reports to the barrier   nothing is under way     timeout, if one
#              (shutdown_barrier.py)                      anywhere                 was given
#   GIVING_UP  notifies owners that references end,       all have acknowledged    the same, or
#              and releases the store                                              SHUTDOWN_TIMEOUT
#   GATHERING  the barrier again, for these notices       nothing is under way     the same, but not
#              (not if no member has sent any)            anywhere                 before LEAST_S
#   PARTING    sends a goodbye (BYE) to connected peers   all have read its        LINGER_S
#                                                         messages (FAREWELL)
#                                                         or ended
#   CLOSING    ends threads and sockets                   functions have ended     drain_s
#   CLOSED     nothing; a new group may be joined
#
# A worker that does not leave in order goes directly to CLOSING: after an error, with
# graceful=False, or at the exit of the process. In a dynamic group there is no barrier: COMING and
# GATHERING wait only for this worker's own work. A worker that the others have declared lost
# (is_out in workers/standing.py) is fenced: each stage before CLOSING fails immediately with a
# GivenUpError.
#
# The store is closed before the last barrier ends. When a worker returns from shutdown and joins
# again, it must not find the old store, which is about to end. GATHERING is left out only if rank 0
# is the root of the barrier and no other worker can host the store. Rank 0 then completes GIVING_UP
# before it announces that there is no GATHERING.
#
# The other workers see these stages as states in workers/session.py: LEAVING after the goodbye,
# SETTLING when the leaving worker's connection has ended, then DEAD. A worker that is killed,
# frozen or cut off becomes DEAD in any stage.

from __future__ import annotations

import enum
import functools
import logging
import os
import time
from collections.abc import Callable, Sequence
from typing import Final

from fastdist.core.errors import (
    ShutdownIncomplete,
)

from . import constants
from .agent import RpcAgent
from .calls.interrupted import find_interrupted
from .lost_workers import merge_lost, without
from .shutdown_barrier import ShutdownBarrier
from .shutdown_reports import told_without_value
from .workers.end_reasons import LAUNCHED, level_of_end

LEAST_S: Final = 1.0
LINGER_S: Final = 0.5
# Seconds from the start of a wait until a log line names the workers that the shutdown waits for.
# Each further pause is twice as long. A worker that only serves normally waits without a limit for
# the end of the job. So the first log line of such a worker comes later, and no line is written
# after a pause in which other workers have called it.
FIRST_S = 5.0
FIRST_WITHOUT_LIMIT_S = 60.0
# The most seconds by which functions that other workers have called, and that still run, may delay
# a shutdown (DRAIN_S) and the exit of the process (DRAIN_AT_EXIT_S).
DRAIN_S: Final = 5.0
DRAIN_AT_EXIT_S: Final = 0.5
_MOST_NAMED: Final = 8

_logger = logging.getLogger(__name__)
# A separate logger, so that users who expect to wait can silence it.
notices = logging.getLogger("fastdist.distributed.rpc.shutdown_notice")


class Stage(enum.Enum):
    """The stages of leaving the group, in order."""

    SERVING = enum.auto()
    COMING = enum.auto()
    GIVING_UP = enum.auto()
    GATHERING = enum.auto()
    PARTING = enum.auto()
    CLOSING = enum.auto()
    CLOSED = enum.auto()


class Leaving:
    """Takes this worker out of its group, stage by stage.

    `give_up(deadline)` releases all references and, in a static group, closes the store;
    `owes_notices()` returns whether `give_up` may send notices.

    Thread  leave: one at a time; `stage` and `for_whom_it_waits`: any
    """

    def __init__(
        self, agent: RpcAgent, give_up: Callable[[float], None], owes_notices: Callable[[], bool]
    ) -> None:
        workers = agent.workers
        self._agent, self._workers, self._group = agent, workers, workers.group
        self._counts = agent.counts
        self._give_up = give_up
        self.barrier = barrier = ShutdownBarrier(agent, self.absent)
        barrier.owes_notices = owes_notices
        if self._group.me.rank == 0 and not self._group.takes_members_later:
            barrier.give_up = functools.partial(give_up, 0.0)
        workers.returned_callbacks.append(barrier.member_returned)
        self.stage = Stage.SERVING
        self._waits_since = 0.0  # when the current wait began; 0 outside of a wait
        self._lost: list[str] = []

    def leave(self, timeout_s: float) -> None:
        """Go through the stages up to PARTING. See Note [How a worker leaves].

        Units   timeout_s for all waits together; with 0, COMING waits while the other workers live
        Raises  ShutdownIncomplete (possibly after all stages) if a worker of a static group was
                lost or ended without shutdown, and has not come back; GivenUpError
        """
        if self.stage in (Stage.CLOSING, Stage.CLOSED):
            return  # an earlier shutdown was interrupted in these stages
        began = time.monotonic()
        for call in find_interrupted():
            # A signal handler runs this shutdown: the interrupted call cannot end before the
            # handler returns.
            call.abandon()
        is_last = self._wait_for_all(Stage.COMING, timeout_s)
        began = began if timeout_s else time.monotonic()
        deadline = began + (timeout_s or constants.SHUTDOWN_TIMEOUT_S)
        self.stage = Stage.GIVING_UP
        self._give_up(deadline)
        if not is_last:
            self._wait_for_all(Stage.GATHERING, max(LEAST_S, deadline - time.monotonic()))
        self.stage = Stage.PARTING
        self._workers.part(LINGER_S)
        if self._lost and self._group.is_static and LAUNCHED not in os.environ:
            raise ShutdownIncomplete(
                f"worker {self._group.me.name!r} has shut down without {'; '.join(self._lost)}; "
                f"{'its' if len(self._lost) == 1 else 'their'} work may be unfinished"
            )

    def _wait_for_all(self, stage: Stage, timeout_s: float) -> bool:
        """Wait until no call is under way in the group, or on this worker if the group is dynamic.

        Return whether that was the last wait of this shutdown.
        """
        self._workers.require_member()
        self.stage = stage
        self._waits_since = time.monotonic()
        is_last, is_bounded = False, timeout_s > 0 or stage is not Stage.COMING
        self._tell_after(self._waits_since, FIRST_S if is_bounded else FIRST_WITHOUT_LIMIT_S)
        try:
            if not self._group.is_static:
                self._wait_until_idle(timeout_s or constants.SHUTDOWN_TIMEOUT_S)
            else:
                if stage is Stage.COMING:
                    self._group.tell_shutdown()
                is_last = self.barrier.wait(timeout_s)
            # If this worker is given up, all its calls end too: check that it is still a member.
            self._workers.require_member()
        finally:
            self._waits_since = 0.0
            # After the first wait, read immediately which workers were lost. Later, a worker that
            # leaves normally may end before its goodbye is read here, and would count as lost.
            if stage is Stage.COMING:
                lost = merge_lost([*self._workers.lost(), *self.barrier.lost])
                self._lost = without(lost, self.barrier.returned)
                self._tell_who_was_lost()
        return is_last

    def _wait_until_idle(self, timeout_s: float) -> None:
        if not self._counts.wait_until_idle(timeout_s):
            raise ShutdownIncomplete(
                f"worker {self._group.me.name!r} has calls under way after {timeout_s:g} s"
                f"{told_without_value(self._counts.without_value())}: {self._agent.get_metrics()}"
            )

    def absent(self) -> list[str]:
        """Return the members that have not called shutdown, according to the store."""
        ranks, num_more = self._group.not_in_shutdown()
        names = [self._name_of(rank) for rank in ranks]
        return [*names, f"{num_more} more"] if num_more else names

    def _name_of(self, rank: int) -> str:
        worker = self._workers.known(rank) or self._workers.find(rank)
        return f"the worker of rank {rank}" if worker is None else worker.name

    def for_whom_it_waits(self) -> str:
        """Return text on what delays the shutdown; empty if another worker of this node logs it."""
        # Check the barrier before the calls: a member that waits in it also has a call under way.
        if self._group.is_static and not self.barrier.have_all_come:
            speaker = self._workers.known(self._group.speaker)
            is_gone = speaker is not None and speaker.is_dead
            speaks = is_gone or self._group.speaker == self._group.me.rank
            if not speaks and self.barrier.is_waiting_for_others:
                return ""
            ranks, num_more = self._group.not_in_shutdown() if speaks else ([], 0)
            known = [self._workers.known(rank) for rank in ranks]
            missing = [
                self._name_of(rank)
                for rank, one in zip(ranks, known)
                if one is None or not (one.is_self or one.is_dead)
            ]
            lost = [one for one in self._workers.known_here() if one.is_dead] if speaks else []
            awaited = [one.name for one in lost if self.barrier.may_still_return(one)]
            if awaited and not missing:
                return f"these were lost, and may still come back: {_named(awaited)}"
            if missing:
                return f"these have not called theirs yet: {_named(missing, num_more)}"
        if self._counts.client_active:
            others = [worker for worker in self._workers.living() if not worker.is_self]
            asked = [worker for worker in others if worker.pipe.is_waited_for()]
            if asked or not self._counts.server_active:
                names = [worker.name for worker in asked]
                return f"its own calls have no answer yet, from {_named(names)}"
        if self._counts.server_active:
            told = told_without_value(self._counts.without_value())
            return f"{self._counts.server_active} calls of others still run here{told}"
        return "calls of others are still under way"

    @property
    def needs_store(self) -> bool:
        """Whether this worker, or a worker that relies on it, may still query the group's store."""
        is_out = self._workers.given_up is not None
        return self.stage in (Stage.SERVING, Stage.COMING) and not is_out

    def _tell_after(self, began: float, seconds: float) -> None:
        """After `seconds`, log what this worker waits for; log again at doubling intervals."""

        _, num_calls = self._counts.activity()

        def tell() -> None:
            if self._waits_since != began:
                return
            # Schedule the next log line first, so that an error in this one does not stop it.
            self._tell_after(began, 2.0 * seconds)
            if self._counts.activity()[1] != num_calls:
                return  # other workers have called this worker meanwhile
            whom = self.for_whom_it_waits()
            if whom and self._waits_since == began:
                text = "worker %r has waited in shutdown() for %g s: %s"
                notices.warning(text, self._group.me.name, seconds, whom)

        self._workers.call_after(began + seconds - time.monotonic(), tell)

    def _tell_who_was_lost(self) -> None:
        if functions := self._counts.without_value(given_up=True):
            _logger.warning(
                "worker %r shuts down, and the Future of %s has no value; its caller has given up",
                *(self._group.me.name, functions),
            )
        for lost in self._lost:
            _logger.log(
                level_of_end(lost.partition("): ")[2]),
                "worker %r shuts down without worker %s, whose work may be unfinished",
                *(self._group.me.name, lost),
            )


def _named(names: Sequence[str], num_more: int = 0) -> str:
    shown = ", ".join(map(repr, names[:_MOST_NAMED]))
    num_more += max(0, len(names) - _MOST_NAMED)
    return f"{shown} and {num_more} more" if num_more else shown
