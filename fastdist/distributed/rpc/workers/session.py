"""The state of one life of a worker, as another worker sees it. No threads or sockets."""

# The agent (or a simulator) passes events and their times to `step`, which returns actions. All
# state about a peer's liveness is in this file, so that it can be tested with any order of events.
#
# A broken connection alone is not death, because libzmq reconnects. A peer is dead after a grace
# period if its host reports that nobody listens at the peer's address. A peer that does not answer
# (because it is frozen or cut off) is dead `frozen_s` after its last sign of life. This sign is
# assumed to be `notice_s` older than the end of the connection (sockets/pulse.py). If this process
# was itself stopped and received nothing meanwhile, frozen_s counts from the end of the stop. The
# error reports the result of the attempts to connect, because the cause may be only a pulled cable.
# A peer whose process has ended is dead immediately. Death is final: the life is fenced, and if it
# wakes up, its messages are refused. A life that was followed by another life is treated in the
# same way.
#
# A peer that sends a goodbye has answered all calls. Some answers arrive on the lanes of blocking
# callers, which are separate connections. When nothing here waits for the peer any more, or after
# settle_s, this worker notifies the peer that all messages were read (FAREWELL). The peer then
# closes its connections. When the watched connection has ended, the peer is dead as soon as nothing
# here waits for it, and at the latest after another settle_s: a message on another connection may
# be read a moment later. rpc/leaving.py describes the peer's side. A process that ends without
# rpc.shutdown() also sends a goodbye, with a reason. Such a process counts as lost for that reason.
#
# libzmq's own threads answer knocks, so a peer whose Python is stuck looks alive. While calls wait
# for the peer, the agent therefore sends queries that the peer's Python must answer. If the peer
# does not answer them for `unresponsive_s`, it is only reported, and does not count as dead.

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple, TypeAlias

from fastdist.distributed.sockets.liveness_timeouts import FROZEN_S, GRACE_S
from fastdist.distributed.sockets.pulse import MOST_MISSED_BEATS


class State(Enum):
    """The liveness state of a peer."""

    JOINING = auto()
    ALIVE = auto()
    SUSPECT = auto()
    LEAVING = auto()  # the peer said goodbye; its answers are still read
    SETTLING = auto()  # the watched connection has ended; other connections are still read
    DEAD = auto()


class Event(Enum):
    """Events of a peer."""

    CONNECTED = auto()  # a handshake succeeded
    DISCONNECTED = auto()  # the connection broke, or knocks stayed unanswered
    RETRIED = auto()  # libzmq tries to connect again, and does not report why
    REFUSED = auto()  # the peer's host reports that nobody listens at the peer's address
    UNREACHED = auto()  # an attempt to connect failed: no answer, or no route
    REACHED = auto()  # the peer's host accepted a connection; the peer itself may be frozen
    REJECTED = auto()  # one of the two ends does not accept the other's key
    PROCESS_ENDED = auto()  # according to the host's process table
    LEFT = auto()  # the peer said goodbye
    REPLACED = auto()  # another life of the peer's rank has joined
    FENCED = auto()  # this worker is out of the group, and exchanges no messages any more
    ASKED = auto()  # the agent sent a query
    ANSWERED = auto()  # the peer answered a query
    TICK = auto()  # only time has passed


_TOOK_A_CONNECTION = "its host accepted a connection"
_ATTEMPTS = frozenset({Event.RETRIED, Event.REFUSED, Event.UNREACHED, Event.REACHED})


class Do(Enum):
    """Actions without arguments, which the Worker object takes."""

    TELL_SILENCE = auto()  # notify the silence hooks that the peer is silent
    RECOVER = auto()  # the peer is connected again; messages in flight at the break may be lost
    SAY_FAREWELL = auto()  # notify the leaving peer that all its messages were read


class Unresponsive(NamedTuple):
    """Report that the peer lives, but its Python does not answer."""

    silent_s: float


class Die(NamedTuple):
    """Fail everything that waits for the peer; final."""

    reason: str
    left: bool = False


Action: TypeAlias = Do | Unresponsive | Die


@dataclass(frozen=True, slots=True)
class LivenessTimeouts:
    """Limits on the silence of a peer, in seconds.

    `notice_s` is the assumed age of the last sign of life at the time when this worker or the
    kernel closes a silent connection. Users can choose `frozen_s` and `grace_s`.
    """

    suspect_s: float = 3.0
    frozen_s: float = FROZEN_S
    grace_s: float = GRACE_S
    notice_s: float = 2.5
    join_s: float = 10.0
    leave_s: float = 1.0
    # The time for reading messages that arrived on other lanes just before the watched lane ended.
    settle_s: float = 0.25
    look_whether_read_s: float = 0.005
    unresponsive_s: float = 60.0
    # How many knocks in a row may stay unanswered before the connection is closed.
    beats: int = MOST_MISSED_BEATS


class Times(NamedTuple):
    """The timeouts in the options; `frozen_s` is the default unless `is_chosen`."""

    frozen_s: float = FROZEN_S
    grace_s: float | None = None
    is_chosen: bool = True

    def towards(self, *, crowding: float, is_near: bool) -> LivenessTimeouts:
        """Return the limits for one peer.

        Defaults are multiplied by `crowding`: see sockets/liveness_timeouts.py. Between two hosts
        (not `is_near`) a refusal by the network looks like a closed port. So by default refusals
        may last as long as silence before the peer counts as dead.
        """
        frozen_s = self.frozen_s if self.is_chosen else self.frozen_s * crowding
        grace_s = self.grace_s
        if grace_s is None:
            grace_s = GRACE_S * crowding if is_near else frozen_s
        # When a connection was closed for silence, enough of frozen_s must remain for a new one.
        beats = max(
            MOST_MISSED_BEATS, min(round(MOST_MISSED_BEATS * crowding), int(frozen_s / 4.0))
        )
        return LivenessTimeouts(
            frozen_s=frozen_s,
            grace_s=grace_s,
            notice_s=beats + 0.5,
            join_s=max(frozen_s, FROZEN_S * crowding),
            beats=beats,
        )


class Session:
    """The state of one life of a worker.

    Thread  one at a time; only step changes the state
    Units   `now` is in seconds of any monotonic clock
    """

    def __init__(self, now: float, timeouts: LivenessTimeouts | None = None) -> None:
        self.state = State.JOINING
        # Empty while the peer lives, and if it left in order.
        self.why_lost = ""
        # Whether the death is certain, because the peer or its host reported it.
        self.is_surely_over = False
        self._timeouts = timeouts or LivenessTimeouts()
        self._silent_since: float | None = now
        self._refused_since: float | None = None
        self._leaving_since = self._settling_since = math.inf
        self._looked_whether_read = -math.inf
        self._said_farewell = False
        # The reason in the peer's goodbye; empty if the peer left in order.
        self._why_ended = ""
        # Whether a connection broke, or an attempt to connect failed, since the last handshake.
        self._is_broken = False
        # The result of the last attempt to connect since then.
        self._found = ""
        # When the oldest unanswered query was sent; None if the connection has broken since then.
        self._asked_since: float | None = None
        self.is_unresponsive = False
        # The serial number of the last query about calls, and the highest call id in it.
        self.serial = 0
        self._asked_up_to = -1

    def step(
        self,
        event: Event,
        now: float,
        reason: str = "",
        *,
        is_waited_for: bool = False,
        woke_at: Callable[[], float] = lambda: -math.inf,
    ) -> list[Action]:
        """Process one event; return the actions to take. Send a TICK at the time of next_look().

        REJECTED and UNREACHED come with a reason; LEFT has one if the peer ended without a
        shutdown. `is_waited_for` says whether anything here waits for the peer; only a leaving
        peer's end depends on it. `woke_at()` returns when this process last woke from a stop; it is
        called only when a connection breaks.
        """
        if self.state is State.DEAD:
            return []
        if event is Event.FENCED:
            return self._die("")
        if event is Event.REPLACED:
            left = self.state in (State.LEAVING, State.SETTLING) and not self._why_ended
            return self._die("a new process of its rank has joined", left=left)
        if self.state is State.SETTLING:
            return self._settle(now, is_waited_for)
        if self.state is State.LEAVING or event is Event.LEFT:
            self._why_ended = self._why_ended or (reason if event is Event.LEFT else "")
            return self._leave(event, now, is_waited_for)
        if event is Event.PROCESS_ENDED:
            return self._die("its process has ended", surely=True)
        if event is Event.REJECTED:
            return self._die(reason or "the handshake failed: it does not hold this job's secret")
        if event is Event.CONNECTED:
            return self._connected()
        if event is Event.DISCONNECTED:
            self._note_break(now, woke_at)
            return self._look(now)
        if event is Event.ASKED and self._asked_since is None and not self._is_broken:
            self._asked_since = now
        elif event is Event.ANSWERED:
            self._asked_since, self.is_unresponsive = None, False
        if event in _ATTEMPTS:
            self._note_attempt(event, now, reason, woke_at)
        return self._look(now)

    def next_query(self, call_ids: Sequence[int]) -> int:
        """Record that a query about the state of calls is sent; return its serial number."""
        self._asked_up_to = max(call_ids, default=self._asked_up_to)
        self.serial += 1
        return self.serial

    def accepts_result(self, serial: int) -> bool:
        """Return whether this is the first answer to the last query about the state of calls.

        A second copy of the answer would report calls as lost that were sent again after the first.
        """
        is_due = serial == self.serial
        self.serial += is_due
        return is_due

    def must_greet_again(self, call_id: int) -> bool:
        """Return whether to send a new greeting, as the peer did not know the connection of a call.

        The result is False if the call was in a query: a greeting was sent before that query.
        """
        return call_id > self._asked_up_to

    @property
    def has_left_or_died(self) -> bool:
        """Whether the peer is lost or has left; its earlier messages may still be read."""
        return self.state in (State.SETTLING, State.DEAD)

    @property
    def is_out_of_reach(self) -> bool:
        """Whether there is no connection, and the last attempt to connect was not accepted."""
        return self._silent_since is not None and self._found != _TOOK_A_CONNECTION

    def next_look(self) -> float | None:
        """Return the next time at which the state may change without an event; None if never."""
        if self.state is State.DEAD:
            return None
        if self.state is State.SETTLING:
            return self._settling_since + self._timeouts.settle_s
        if self.state is State.LEAVING:
            return self._look_while_leaving()
        if self._silent_since is None:
            if self._asked_since is None or self.is_unresponsive:
                return None
            return self._asked_since + self._timeouts.unresponsive_s
        times = [self._silent_since + self._limit(self._silent_since)]
        if self.state is State.ALIVE:
            times.append(self._silent_since + self._timeouts.suspect_s)
        if self._refused_since is not None:
            times.append(self._refused_since + self._timeouts.grace_s)
        return min(times)

    def _note_attempt(
        self, event: Event, now: float, reason: str, woke_at: Callable[[], float]
    ) -> None:
        if self._silent_since is None:
            # A new attempt implies that the connection broke, though no event reported it.
            self._note_break(now, woke_at)
        if event is Event.REFUSED:
            if self._refused_since is None:
                self._refused_since = now
        elif event is Event.UNREACHED:
            self._refused_since, self._found = None, f"no connection to its address: {reason}"
        elif event is Event.REACHED:
            self._refused_since, self._found = None, _TOOK_A_CONNECTION

    def _connected(self) -> list[Action]:
        was_broken, self._is_broken = self._is_broken, False
        self.state = State.ALIVE
        self._silent_since = self._refused_since = None
        self._found = ""
        return [Do.RECOVER] if was_broken else []

    def _leave(self, event: Event, now: float, is_waited_for: bool) -> list[Action]:
        timeouts = self._timeouts
        was_connected = self.state is State.ALIVE and not self._is_broken
        if self.state is not State.LEAVING:
            self._leaving_since = now
            self._is_broken = not was_connected
            self.state = State.LEAVING
        actions: list[Action] = []
        is_settled = not is_waited_for or now >= self._leaving_since + timeouts.settle_s
        if is_settled and not self._said_farewell:
            self._said_farewell = True
            actions.append(Do.SAY_FAREWELL)
        # When the peer's process has ended, its last messages may still have to be read.
        is_over = now >= self._leaving_since + timeouts.leave_s
        if event is Event.DISCONNECTED or self._is_broken or is_over:
            self.state, self._settling_since = State.SETTLING, now
            return [*actions, *self._settle(now, is_waited_for)]
        self._looked_whether_read = now
        return actions

    def _look_while_leaving(self) -> float:
        until = self._leaving_since + self._timeouts.leave_s
        if self._said_farewell:
            return until
        return min(until, self._looked_whether_read + self._timeouts.look_whether_read_s)

    def _settle(self, now: float, is_waited_for: bool) -> list[Action]:
        if is_waited_for and now < self._settling_since + self._timeouts.settle_s:
            return []
        if self._why_ended:
            return self._die(self._why_ended, surely=True)
        return self._die("it has shut down", left=True)

    def _note_break(self, now: float, woke_at: Callable[[], float]) -> None:
        self._refused_since = self._asked_since = None
        self._is_broken, self.is_unresponsive = True, False
        if self._silent_since is None:
            # A silence does not count while this process itself was stopped.
            self._silent_since = max(now - self._timeouts.notice_s, woke_at())

    def _look(self, now: float) -> list[Action]:
        if self._silent_since is None:
            return self._look_at_question(now)
        timeouts = self._timeouts
        limit_s = self._limit(self._silent_since)
        is_late = now >= self._silent_since + limit_s
        if self._refused_since is not None and (
            is_late or now >= self._refused_since + timeouts.grace_s
        ):
            return self._die("nobody listens at its address any more", surely=True)
        if is_late:
            silent_s = now - self._silent_since
            found = f" ({self._found})" if self._found else ""
            return self._die(
                f"no sign of life for {silent_s:.1f} s: it is frozen or cut off{found}; "
                f"FASTDIST_FROZEN_S or the option frozen_s, here {timeouts.frozen_s:g}, says how "
                "long that may last"
            )
        if self.state is State.ALIVE and now >= self._silent_since + timeouts.suspect_s:
            self.state = State.SUSPECT
            return [Do.TELL_SILENCE]
        return []

    def _look_at_question(self, now: float) -> list[Action]:
        look = self.next_look()
        if look is None or self._asked_since is None or now < look:
            return []
        self.is_unresponsive = True
        return [Unresponsive(now - self._asked_since)]

    def _limit(self, silent_since: float) -> float:
        timeouts = self._timeouts
        limit_s = timeouts.join_s if self.state is State.JOINING else timeouts.frozen_s
        if self._refused_since is None or timeouts.grace_s <= limit_s:
            return limit_s
        # The user allowed a longer time for refused connections (grace_s) than for silence.
        return max(limit_s, self._refused_since - silent_since + timeouts.grace_s)

    def _die(self, reason: str, *, left: bool = False, surely: bool = False) -> list[Action]:
        # Set the reason first: other threads read it when they find the state DEAD.
        self.why_lost, self.is_surely_over = "" if left else reason, surely
        self.state = State.DEAD
        return [Die(reason, left)]
