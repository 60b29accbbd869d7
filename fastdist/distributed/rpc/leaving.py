"""How this worker leaves its group: one table of stages, and the work of each of them."""

# Note [How a worker leaves]
#
#   stage      work of this worker                        next stage when          at the latest
#   SERVING    all that it is for                         shutdown() is called
#   COMING     its calls end; it reports to the barrier   nothing is under way     timeout, if one
#              (shutdown_barrier.py)                      anywhere                 was given
#   GIVING_UP  notifies owners of its references' end,    all have acknowledged    the same, or
#              and releases the store                                              SHUTDOWN_TIMEOUT
#   GATHERING  the barrier again, for these messages      nothing is under way     the same, but not
#                                                         anywhere                 before LEAST_S
#   PARTING    sends a goodbye (BYE) to all it has met    all have read its        LINGER_S
#                                                         messages (FAREWELL)
#                                                         or ended
#   CLOSING    ends threads and sockets                   functions have ended     drain_s
#   CLOSED     nothing; a new group may be joined
#
# A worker that does not leave in order, at an error in between, with graceful=False or at the exit
# of the process, goes directly to CLOSING. In a dynamic group there is no barrier: COMING and
# GATHERING wait only for the work here. A worker that the others have given up (is_out in
# workers/workers.py) is fenced: each stage before CLOSING ends at once with a GivenUpError.
#
# The store goes before the last barrier: when a worker returns from shutdown and joins again, it
# must not meet the old store, which is about to close.
#
# workers/session.py has the other workers' view: LEAVING from the goodbye on, SETTLING when its
# connection has ended, and DEAD; one that is killed, frozen or cut off is DEAD from any stage.

from __future__ import annotations

import enum
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

# Set by `fastdist run` and torchrun, which end a job when a worker fails, and blame the first.
_LAUNCHED: Final = "TORCHELASTIC_RESTART_COUNT"
LEAST_S: Final = 1.0
LINGER_S: Final = 0.5
# When a notice names the workers that a shutdown waits for; the pauses double. A worker that only
# serves waits without limit for the end of the job, as it should: its first notice is later, and
# there is none after a pause in which others have called it.
FIRST_S = 5.0
FIRST_WITHOUT_LIMIT_S = 60.0
# How long functions of others that still run hold up the end of RPC, and that of the process.
DRAIN_S: Final = 5.0
DRAIN_AT_EXIT_S: Final = 0.5
_MOST_NAMED: Final = 8

_logger = logging.getLogger(__name__)
# A separate logger, for users who expect to wait.
notices = logging.getLogger("fastdist.distributed.rpc.shutdown_notice")


class Stage(enum.Enum):
    """How far this worker is with leaving."""

    SERVING = enum.auto()
    COMING = enum.auto()
    GIVING_UP = enum.auto()
    GATHERING = enum.auto()
    PARTING = enum.auto()
    CLOSING = enum.auto()
    CLOSED = enum.auto()


class Leaving:
    """This worker's way out of its group, and where it is on it.

    `give_up(deadline)` gives up all references and, in a static group, the store.

    Thread  leave: one at a time; `stage` and `for_whom_it_waits`: any
    """

    def __init__(self, agent: RpcAgent, give_up: Callable[[float], None]) -> None:
        workers = agent.workers
        self._agent, self._workers, self._group = agent, workers, workers.group
        self._counts = agent.counts
        self._give_up = give_up
        self.barrier = ShutdownBarrier(agent, self.absent)
        workers.returned_callbacks.append(self.barrier.member_returned)
        self.stage = Stage.SERVING
        self._waits_since = 0.0  # when the wait under way began
        self._lost: list[str] = []

    def leave(self, timeout_s: float) -> None:
        """Go in order, as far as PARTING. See Note [How a worker leaves].

        Units   timeout_s for all of the waiting; 0 waits in COMING as long as the others live
        Raises  ShutdownIncomplete, also where all is done, but a worker of a static group was lost,
                or has ended without its shutdown, and has not come back; GivenUpError
        """
        if self.stage in (Stage.CLOSING, Stage.CLOSED):
            return  # a shutdown was interrupted as late as that
        began = time.monotonic()
        for call in find_interrupted():
            # The handler of a signal leaves: the call that it interrupted can only end after it.
            call.abandon()
        self._wait_for_all(Stage.COMING, timeout_s)
        began = began if timeout_s else time.monotonic()
        deadline = began + (timeout_s or constants.SHUTDOWN_TIMEOUT_S)
        self.stage = Stage.GIVING_UP
        self._give_up(deadline)
        self._wait_for_all(Stage.GATHERING, max(LEAST_S, deadline - time.monotonic()))
        self.stage = Stage.PARTING
        self._workers.part(LINGER_S)
        if self._lost and self._group.is_static and _LAUNCHED not in os.environ:
            raise ShutdownIncomplete(
                f"worker {self._group.me.name!r} has shut down without {'; '.join(self._lost)}; "
                f"{'its' if len(self._lost) == 1 else 'their'} work may be unfinished"
            )

    def _wait_for_all(self, stage: Stage, timeout_s: float) -> None:
        """Wait until no call is under way anywhere in the group; in a dynamic one, here."""
        self._workers.require_member()
        self.stage = stage
        self._waits_since = time.monotonic()
        is_bounded = timeout_s > 0 or stage is not Stage.COMING
        self._tell_after(self._waits_since, FIRST_S if is_bounded else FIRST_WITHOUT_LIMIT_S)
        try:
            if not self._group.is_static:
                self._wait_until_idle(timeout_s or constants.SHUTDOWN_TIMEOUT_S)
            else:
                if stage is Stage.COMING:
                    self._group.tell_shutdown()
                self.barrier.wait(timeout_s)
            # Its calls may have ended because of that.
            self._workers.require_member()
        finally:
            self._waits_since = 0.0
            # Once the first wait is over others may be gone before they have said goodbye.
            if stage is Stage.COMING:
                lost = merge_lost([*self._workers.lost(), *self.barrier.lost])
                self._lost = without(lost, self.barrier.returned)
                self._tell_who_was_lost()

    def _wait_until_idle(self, timeout_s: float) -> None:
        if not self._counts.wait_until_idle(timeout_s):
            raise ShutdownIncomplete(
                f"worker {self._group.me.name!r} has calls under way after {timeout_s:g} s"
                f"{told_without_value(self._counts.without_value())}: {self._agent.get_metrics()}"
            )

    def absent(self) -> list[str]:
        """Return who has not come to the shutdown, as far as the store tells."""
        ranks, num_more = self._group.not_in_shutdown()
        names = [self._name_of(rank) for rank in ranks]
        return [*names, f"{num_more} more"] if num_more else names

    def _name_of(self, rank: int) -> str:
        worker = self._workers.known(rank) or self._workers.find(rank)
        return f"the worker of rank {rank}" if worker is None else worker.name

    def for_whom_it_waits(self) -> str:
        """Return a description of what holds up a shutdown; empty where another worker of this node
        logs it.
        """
        # First: who waits for these has a call under way, to the one that counts who has come.
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
        """Whether this worker may still ask the store of its group, and others by it."""
        is_out = self._workers.given_up is not None
        return self.stage in (Stage.SERVING, Stage.COMING) and not is_out

    def _tell_after(self, began: float, seconds: float) -> None:
        """Log, so long after a wait began, what it waits for, and again after twice the time."""

        _, num_calls = self._counts.activity()

        def tell() -> None:
            if self._waits_since != began:
                return
            # First: if this notice fails the next one is due all the same.
            self._tell_after(began, 2.0 * seconds)
            if self._counts.activity()[1] != num_calls:
                return  # others use this worker
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
            _logger.warning(
                "worker %r shuts down without worker %s, whose work may be unfinished",
                *(self._group.me.name, lost),
            )


def _named(names: Sequence[str], num_more: int = 0) -> str:
    shown = ", ".join(map(repr, names[:_MOST_NAMED]))
    num_more += max(0, len(names) - _MOST_NAMED)
    return f"{shown} and {num_more} more" if num_more else shown
