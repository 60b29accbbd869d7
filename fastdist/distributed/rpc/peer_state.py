"""What is known of one peer: joining, alive, suspect or dead. No threads, sockets or clocks."""

# Events come from the agent (or from a simulator), with the time; actions go back. Everything that
# a peer's state depends on is in this file, so that it can be tried with any order of events.
#
# A broken connection alone is not death: libzmq reconnects. A peer whose host says that nobody
# listens there is dead after a grace; one that only does not answer (frozen, or cut off) after
# `frozen_s`, counted from its last sign of life, which was `notice_s` before its connection was
# broken off (sockets/pulse.py). What was seen of it meanwhile is told: a cable may be pulled, and
# no more. A peer whose process has ended is dead at once. One that says goodbye has answered
# everything before, but by another connection: it is dead when the connection of those answers
# ends. Dead is final: the incarnation is fenced, and what it says when it wakes up is refused.
#
# Knocks are answered by libzmq: a peer whose Python is stuck looks alive. So the agent asks as
# well while it waits for answers, and who does not answer for `unresponsive_s` is told of, no more.

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeAlias

from fastdist.distributed.sockets.patience import FROZEN_S, GRACE_S


class State(Enum):
    """How a peer is."""

    JOINING = auto()
    ALIVE = auto()
    SUSPECT = auto()
    DEAD = auto()


class Event(Enum):
    """What can happen to a peer."""

    CONNECTED = auto()  # a handshake succeeded
    DISCONNECTED = auto()  # the connection broke, or knocks stayed unanswered
    RETRIED = auto()  # libzmq tries to connect again, and does not say why it has to
    REFUSED = auto()  # its host says that nobody listens at its address
    UNREACHED = auto()  # an attempt to connect came to nothing: no answer, or no way there
    REACHED = auto()  # its host took a connection; whether the peer will answer is not known
    REJECTED = auto()  # it does not accept our key, or we not its
    PROCESS_ENDED = auto()  # the host's process table says so
    LEFT = auto()  # it said goodbye
    FENCED = auto()  # this worker itself is out of the group: nothing passes any more
    ASKED = auto()  # the agent sent a question of its own
    ANSWERED = auto()  # the answer to one came
    TICK = auto()  # only time has passed


_TOOK_A_CONNECTION = "its host took a connection"
_ATTEMPTS = frozenset({Event.RETRIED, Event.REFUSED, Event.UNREACHED, Event.REACHED})


@dataclass(frozen=True, slots=True)
class Suspect:
    """Tell who wants to know that the peer is silent."""


@dataclass(frozen=True, slots=True)
class Unresponsive:
    """Tell who wants to know that the peer lives, but its Python does not answer."""

    silent_s: float


@dataclass(frozen=True, slots=True)
class Recover:
    """The peer is back. What was on its way when the connection broke may be lost."""


@dataclass(frozen=True, slots=True)
class Die:
    """Fail everything that waits for the peer, for good."""

    reason: str
    left: bool = False


@dataclass(frozen=True, slots=True)
class LookAgainAt:
    """Send a TICK at this time."""

    time: float


Action: TypeAlias = Suspect | Unresponsive | Recover | Die | LookAgainAt


@dataclass(frozen=True, slots=True)
class Patience:
    """How long what may last, in seconds.

    `notice_s` is how long ago the last sign of life was when a connection is broken off for
    silence, by us or by the kernel. `frozen_s` and `grace_s` are for users to choose.
    """

    suspect_s: float = 3.0
    frozen_s: float = FROZEN_S
    grace_s: float = GRACE_S
    notice_s: float = 2.5
    join_s: float = 10.0
    leave_s: float = 1.0
    unresponsive_s: float = 60.0


class PeerState:
    """The state of one peer's one life.

    Thread  one at a time; step is the only thing that changes it
    Units   now is in seconds of any one clock that does not go back
    """

    __slots__ = (
        "_asked_since",
        "_found",
        "_is_broken",
        "_leaving_since",
        "_patience",
        "_refused_since",
        "_silent_since",
        "is_unresponsive",
        "state",
        "why_lost",
    )

    def __init__(self, now: float, patience: Patience | None = None) -> None:
        self.state = State.JOINING
        # Empty while the peer lives, and where it has left.
        self.why_lost = ""
        self._patience = patience or Patience()
        self._silent_since: float | None = now
        self._refused_since: float | None = None
        self._leaving_since: float | None = None
        # Whether a connection, or the attempt at one, has come to nothing since the last success.
        self._is_broken = False
        # What the attempts at a connection have found since.
        self._found = ""
        # Since when a question has been without an answer, on a connection that holds.
        self._asked_since: float | None = None
        self.is_unresponsive = False

    def step(self, event: Event, now: float, reason: str = "") -> list[Action]:
        """Take one event and return what to do; REJECTED and UNREACHED come with a reason."""
        if self.state is State.DEAD:
            return []
        if event is Event.FENCED:
            return self._die("")
        if self._leaving_since is not None or event is Event.LEFT:
            return self._leave(event, now)
        if event is Event.PROCESS_ENDED:
            return self._die("its process has ended")
        if event is Event.REJECTED:
            return self._die(reason or "the handshake failed: it does not hold this job's secret")
        if event is Event.CONNECTED:
            return self._connected()
        if event is Event.DISCONNECTED:
            self._note_break(now)
            return self._look(now)
        if event is Event.ASKED and self._asked_since is None and not self._is_broken:
            self._asked_since = now
        elif event is Event.ANSWERED:
            self._asked_since, self.is_unresponsive = None, False
        if event in _ATTEMPTS:
            self._note_attempt(event, now, reason)
        return self._look(now)

    @property
    def is_out_of_reach(self) -> bool:
        """Whether there is no connection, and nothing at its address took the last attempt."""
        return self._silent_since is not None and self._found != _TOOK_A_CONNECTION

    def next_look(self) -> float | None:
        """Return when time alone changes something; None while all is well."""
        if self.state is State.DEAD:
            return None
        if self._leaving_since is not None:
            return self._leaving_since + self._patience.leave_s
        if self._silent_since is None:
            if self._asked_since is None or self.is_unresponsive:
                return None
            return self._asked_since + self._patience.unresponsive_s
        times = [self._silent_since + self._limit()]
        if self.state is State.ALIVE:
            times.append(self._silent_since + self._patience.suspect_s)
        if self._refused_since is not None:
            times.append(self._refused_since + self._patience.grace_s)
        return min(times)

    def _note_attempt(self, event: Event, now: float, reason: str) -> None:
        if self._silent_since is None:
            # Whoever tries to connect is not connected, though nobody said that it broke.
            self._note_break(now)
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
        return [Recover()] if was_broken else []

    def _leave(self, event: Event, now: float) -> list[Action]:
        if self._leaving_since is None:
            self._leaving_since = now
        # The end of its process is not the end of what it sent.
        is_over = now >= self._leaving_since + self._patience.leave_s
        if (
            event is Event.DISCONNECTED
            or self.state is not State.ALIVE
            or self._is_broken
            or is_over
        ):
            return self._die("it has shut down", left=True)
        return [LookAgainAt(self._leaving_since + self._patience.leave_s)]

    def _note_break(self, now: float) -> None:
        self._refused_since = self._asked_since = None
        self._is_broken, self.is_unresponsive = True, False
        if self._silent_since is None:
            self._silent_since = now - self._patience.notice_s

    def _look(self, now: float) -> list[Action]:
        if self._silent_since is None:
            return self._look_at_question(now)
        patience = self._patience
        is_late = now >= self._silent_since + self._limit()
        if self._refused_since is not None and (
            is_late or now >= self._refused_since + patience.grace_s
        ):
            return self._die("nobody listens at its address any more")
        if is_late:
            silent_s = now - self._silent_since
            found = f" ({self._found})" if self._found else ""
            return self._die(
                f"no sign of life for {silent_s:.1f} s: it is frozen or cut off{found}"
            )
        actions: list[Action] = []
        if self.state is State.ALIVE and now >= self._silent_since + patience.suspect_s:
            self.state = State.SUSPECT
            actions.append(Suspect())
        look = self.next_look()
        assert look is not None
        actions.append(LookAgainAt(look))
        return actions

    def _look_at_question(self, now: float) -> list[Action]:
        look = self.next_look()
        if look is None or self._asked_since is None:
            return []
        if now < look:
            return [LookAgainAt(look)]
        self.is_unresponsive = True
        return [Unresponsive(now - self._asked_since)]

    def _limit(self) -> float:
        return self._patience.join_s if self.state is State.JOINING else self._patience.frozen_s

    def _die(self, reason: str, *, left: bool = False) -> list[Action]:
        # In this order: who finds it dead may ask why.
        self.why_lost = "" if left else reason
        self.state = State.DEAD
        return [Die(reason, left)]
