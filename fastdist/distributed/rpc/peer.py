"""One other worker as the agent sees it: its record, its pipe, and whether it lives."""

from __future__ import annotations

import itertools
import logging
import os
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from fastdist.core.errors import GivenUpError, RpcError, WorkerLostError
from fastdist.distributed.pipe.context import Context
from fastdist.distributed.pipe.credit import Credit
from fastdist.distributed.pipe.host import process_start
from fastdist.distributed.pipe.lane import Lane
from fastdist.distributed.pipe.message import Buffer, Message
from fastdist.distributed.pipe.pipe import Pipe
from fastdist.distributed.sockets import Doorbell, monitor

from .descriptors import own_lanes_between
from .inquiry import ask_about, tell_read
from .membership import Record
from .message_types import MessageType
from .peer_state import (
    Die,
    Event,
    LookAgainAt,
    Patience,
    PeerState,
    Recover,
    State,
    Suspect,
    Unresponsive,
)
from .probing import Prober
from .progress import Progress
from .pulse_taker import PulseTaker
from .received_calls import UNREAD_STEP_BYTES

if TYPE_CHECKING:
    from fastdist.distributed.pipe.channels.arena_lender import Lender
    from fastdist.distributed.pipe.shared_lane import SharedLane

_logger = logging.getLogger(__name__)

BEAT_S = 5.0
# How often a silent peer is looked at: often enough to notice when this process is who stood still.
_LOOK_S = 0.5
_LEAST_S = 0.001
# Lanes have connections of their own: the answer that came by one of them just before the peer left
# may be read a moment after the end of another.
_SETTLE_S = 0.25
_LOOK_WHETHER_READ_S = 0.005
_NOTED_WITHIN_S = 1.0  # the progress thread is not waited for longer
_MOST_AT_ONCE = 256

_EVENT_OF = {
    monitor.HANDSHAKE_SUCCEEDED: Event.CONNECTED,
    monitor.DISCONNECTED: Event.DISCONNECTED,
    # Also what a frozen peer's host leads to: it takes the connection, and nobody answers.
    monitor.HANDSHAKE_FAILED: Event.DISCONNECTED,
    monitor.CONNECT_RETRIED: Event.RETRIED,
    monitor.CONNECTED: Event.REACHED,
    monitor.REFUSED: Event.REJECTED,
}


class Peer:
    """One worker, possibly this one itself.

    `on_answer(peer, frames)` gets each message that comes in on lane 0, `on_late(peer, frames)`
    what comes in on a lane that nobody waits on, `on_lost(peer)` is called once when it dies,
    `on_silent(peer, why)` when it does not answer, `on_given_up(peer, error)` when it says that it
    has given up this worker; all on the progress thread.

    Thread  any; methods with an underscore run on the progress thread
    """

    def __init__(
        self,
        record: Record,
        me: Record,
        context: Context,
        progress: Progress,
        credit: Credit,
        on_answer: Callable[[Peer, list[Buffer]], None],
        on_late: Callable[[Peer, list[Buffer]], None],
        on_lost: Callable[[Peer], None],
        on_silent: Callable[[Peer, str], None],
        on_given_up: Callable[[Peer, GivenUpError], None],
        patience: Patience | None = None,
    ) -> None:
        self.record = record
        self.info = record.info
        self.is_self = record.rank == me.rank
        self.transport = context.choose(
            record.addresses, same_host=me.shares_host_with(record), same_process=self.is_self
        )
        self.credit = credit
        # What this worker takes of it; what may be sent to it is in its record.
        self.takes = me.limits
        # Lends memory to the peer, where both may share some.
        self.lender: Lender | None = None
        own_lanes = min(own_lanes_between(me, record), record.limits.connections - 1)
        self.pipe = Pipe(self._connect, self._greet, self._attend, own_lanes)
        self._state = PeerState(progress.now(), patience)
        # Of a unix socket it is known: its file, or who listens there, is gone.
        self._prober: Prober | None = None
        if self.transport == "uv":
            self._prober = Prober(
                record.addresses["uv"], progress, lambda: self._state.is_out_of_reach, self._step
            )
        self._me = me
        self._context = context
        self._progress = progress
        self._on_answer = on_answer
        self._on_late = on_late
        self._on_lost = on_lost
        self._on_silent = on_silent
        self._on_given_up = on_given_up
        self._pidfd: int | None = None
        self._connection_fd = -1
        self._shared: SharedLane | None = None
        self._pulse: PulseTaker | None = None
        self._greetings = itertools.count(1)
        self._will_look = False
        # How it has left, while answers on their own lanes are waited for.
        self._settling: Die | None = None
        # Of the last question what became of calls, and the latest call it spoke of.
        self.serial = 0
        self._asked_up_to = -1
        # Of lane 0, since the peer was last told: see Note [Answers that are not read].
        self._read_bytes = 0
        # Set when all who want to hear of its end have.
        self.all_told = threading.Event()

    @property
    def is_dead(self) -> bool:
        """Whether the peer is lost, or has left."""
        return self._state.state is State.DEAD

    @property
    def why_lost(self) -> str:
        """Why the peer was lost, for good; empty while it lives, and where it has left."""
        return self._state.why_lost

    def describe(self) -> str:
        """Return how the peer is, for who looks for a hang."""
        how = "connected"
        if self.is_dead:
            how = "dead"
        elif self._state.state is State.SUSPECT:
            how = "without a sign of life"
        elif self._state.is_unresponsive:
            how = "alive, but its Python does not answer"
        return f"{how} by {self.transport}, {self.pipe.num_pending()} calls without answer"

    def open(self) -> None:
        """Connect lane 0 and begin to watch over the peer."""
        self._shared = self.pipe.shared()
        self._progress.post(self._open)

    def say_goodbye(self) -> None:
        """Tell the peer that this worker leaves and has answered everything."""
        self._progress.post(self._notify, MessageType.BYE)

    def said_goodbye(self) -> None:
        """Take note that the peer leaves: it closes its connections when we have read them."""
        self._progress.post(self._left)

    def was_replaced(self) -> None:
        """Take note that another life of the peer has come: this one has ended."""
        self._progress.post(self._replaced)

    def refuse(self, error: Exception) -> None:
        """Take note that the peer will not speak with us."""
        self._progress.post(self._refused, error)

    def refuse_and_wait(self, error: GivenUpError) -> None:
        """Take note of what the lane of a call has heard before lane 0 did.

        Note    when it returns this worker is fenced, if it is out: who gets the error must find
                that all else fails as well, its shutdown first of all
        """
        noted = threading.Event()
        self.refuse(error)
        self._progress.post(noted.set)
        if not self._progress.is_current_thread():
            noted.wait(_NOTED_WITHIN_S)

    def fence(self, error: GivenUpError) -> None:
        """Let nothing pass any more: this worker is out; on the progress thread."""
        self.pipe.fail_from_now_on(error)
        self._step(Event.FENCED)
        self._settled()

    def answered(self) -> None:
        """Take note that the peer's Python has answered; on the progress thread."""
        if self._state.is_unresponsive:
            _logger.warning("worker %r answers again", self.info.name)
        self._step(Event.ANSWERED)

    def has_read(self, frames: list[Buffer]) -> None:
        """Count what came on lane 0, and tell the peer now and then; on the progress thread.

        Note    all of it, also what the peer has not counted or what makes no sense: what it hears
                of too little would hold up our calls for ever
        """
        self._read_bytes += len(frames[0]) if len(frames) == 1 else sum(map(len, frames))
        if self._read_bytes >= UNREAD_STEP_BYTES:
            self.pipe.notify(tell_read(self._read_bytes))
            self._read_bytes = 0

    def must_greet_again(self, call_id: int) -> None:
        """Take note that the peer did not know the connection of a call; on the progress thread."""
        if call_id > self._asked_up_to:
            self._recover()

    def close(self, error: RpcError, *, linger_s: float = 0.0) -> None:
        """End all waits with error, tell the peer, and close everything; on the progress thread."""
        self.pipe.break_off(error)
        self._unwatch()
        if not self.is_self:
            self._notify(MessageType.BYE)
        self.pipe.close(linger_s)

    def _refused(self, error: Exception) -> None:
        if isinstance(error, GivenUpError) and error.incarnation == self._me.incarnation:
            self._on_given_up(self, error)
        self._step(Event.REJECTED, f"it refuses this worker: {error}")

    def _notify(self, kind: MessageType) -> None:
        me = self._me
        self.pipe.notify(Message(kind, source=me.rank, incarnation=me.incarnation).encode())

    def _left(self) -> None:
        self._step(Event.LEFT)
        self._part(time.monotonic() + _SETTLE_S)

    def _part(self, until: float) -> None:
        """Let who leaves close its connections once nobody waits for what came by them."""
        now = time.monotonic()
        if self.pipe.is_waited_for() and now < until:
            self._progress.call_at(now + _LOOK_WHETHER_READ_S, lambda: self._part(until))
        else:
            self._notify(MessageType.FAREWELL)

    def _connect(self, closed: Doorbell, number: int) -> Lane:
        address = self.record.addresses[self.transport]
        return self._context.connect(
            self.transport, address, closed, f"rank:{self.record.rank}", watched=number == 0
        )

    def _greet(self, number: int) -> list[Buffer]:
        return Message(
            MessageType.HELLO,
            source=self._me.rank,
            incarnation=self._me.incarnation,
            lane=number,
            # Whom we mean: a restarted worker must not take calls that were for its earlier life.
            # And when: an earlier connection may be read later than the one that replaced it.
            metadata={"to": f"{self.record.incarnation:x}", "greeting": next(self._greetings)},
        ).encode()

    def _attend(self) -> None:
        self._progress.post(self._read)

    def _open(self) -> None:
        shared = self._shared
        if shared is None or self.is_dead:
            return
        self._progress.watch(shared.fileno(), self._read)
        self._connection_fd = shared.lane.connection_fileno()
        if self._connection_fd >= 0:
            self._progress.watch(self._connection_fd, self._read_connection)
        if shared.lane.pulse is not None:
            self._pulse = PulseTaker(
                *(shared.lane, shared.lane.pulse, self._progress),
                *(self._ask, self.pipe.is_waited_for),
            )
        self._watch_process()
        # What came before the descriptors were watched has used up their edges.
        self._read_connection()
        self._read()
        self._look_again()
        if not self.is_self:
            self._progress.call_at(time.monotonic() + BEAT_S, self._beat)

    def _watch_process(self) -> None:
        record = self.record
        if self.is_self or not self._me.shares_processes_with(record):
            return
        if not hasattr(os, "pidfd_open"):
            return
        try:
            self._pidfd = os.pidfd_open(record.pid)
        except ProcessLookupError:
            self._step(Event.PROCESS_ENDED)
            return
        except OSError:
            return  # forbidden here: the connection tells, a little later
        if process_start(record.pid) != record.process_start:
            self._step(Event.PROCESS_ENDED)
            return
        self._progress.watch(self._pidfd, self._process_ended)

    def _process_ended(self) -> None:
        # Readable from now on: who goes on watching it would spin until the peer is given up.
        if self._pidfd is not None:
            self._progress.unwatch(self._pidfd)
        self._step(Event.PROCESS_ENDED)

    def _read(self) -> None:
        if self._read_some():
            # Others wait as well: their answers, their deaths, and what is to expire.
            self._progress.post(self._read)

    def _read_some(self) -> bool:
        """Read what has come; return whether there may be more."""
        for _ in range(_MOST_AT_ONCE):
            shared = self._shared
            frames = None if shared is None else shared.receive()
            if frames is None:
                return False
            if self._pulse is not None:
                self._pulse.was_heard = True
            try:
                self._on_answer(self, frames)
            except Exception:
                # What one message holds must not keep the next ones from being read: nothing would
                # tell of them again.
                _logger.exception("a message of worker %r could not be read", self.info.name)
        return True

    def _read_connection(self) -> None:
        while self._shared is not None:
            kind = self._shared.lane.next_connection_event()
            if kind is None:
                return
            event = _EVENT_OF.get(kind)
            if event is Event.RETRIED:
                self._was_retried()
            elif event is not None:
                self._step(event)

    def _was_retried(self) -> None:
        if self._prober is None:
            self._step(Event.REFUSED)
        else:
            self._step(Event.RETRIED)
            self._prober.look_soon()

    def _step(self, event: Event, reason: str = "") -> None:
        if event is Event.DISCONNECTED and self._shared is not None:
            self._shared.hold()
        for action in self._state.step(event, self._progress.now(), reason):
            if isinstance(action, Recover):
                self._recover()
            elif isinstance(action, Die):
                self._die(action)
            elif isinstance(action, Suspect):
                self._on_silent(self, "gives no sign of life; calls to it will fail soon")
            elif isinstance(action, Unresponsive):
                self._on_silent(
                    self,
                    f"lives, but its Python has not answered for {action.silent_s:.0f} s: it may "
                    "hang, or compute without releasing the interpreter lock",
                )
            elif isinstance(action, LookAgainAt):
                self._look_at(action.time)

    def _beat(self) -> None:
        """Ask, while somebody waits for the peer, whether it still listens."""
        if self._shared is None:
            return
        for frames in self.pipe.take_late():
            self._on_late(self, frames)
        if self.pipe.is_waited_for():
            self._ask()
            self._step(Event.ASKED)
        self._progress.call_at(time.monotonic() + BEAT_S, self._beat)

    def _ask(self) -> None:
        self.pipe.notify(Message(MessageType.PING).encode())

    def _look_again(self) -> None:
        self._will_look = False
        look = self._state.next_look()
        if look is None or self.is_self:
            return
        if self._progress.now() >= look:
            self._step(Event.TICK)
        else:
            self._look_at(look)

    def _look_at(self, when: float) -> None:
        if not self._will_look:
            self._will_look = True
            # Two clocks round differently: what is left of the time may be nothing to the other.
            wait_s = max(_LEAST_S, min(when - self._progress.now(), _LOOK_S))
            self._progress.call_at(time.monotonic() + wait_s, self._look_again)

    def _recover(self) -> None:
        if self.lender is not None:
            self.lender.connection_broke()
        # In this order: a call that is pending by now went before the greeting and is asked about,
        # or goes after it.
        self.pipe.greet_again()
        call_ids = self.pipe.pending_ids()
        self._asked_up_to = max(call_ids, default=self._asked_up_to)
        self.serial += 1
        if call_ids:
            self.pipe.notify(ask_about(self.serial, call_ids))

    def _die(self, action: Die) -> None:
        if action.left and self.pipe.is_waited_for():
            self._settling = action
            self._progress.call_at(time.monotonic() + _SETTLE_S, self._settled)
        else:
            self._end(action)

    def _settled(self) -> None:
        action, self._settling = self._settling, None
        if action is not None and self._shared is not None:  # or this worker has left as well
            self._end(action)

    def _replaced(self) -> None:
        self._step(Event.PROCESS_ENDED)
        # Also where it was leaving in order: its end, told later, would be taken for the other's.
        self._step(Event.DISCONNECTED)
        self._settled()

    def _end(self, action: Die) -> None:
        verb = "has left the group" if action.left else "was lost"
        error = WorkerLostError(
            f"worker {self.info.name!r} (rank {self.info.id}) {verb}: {action.reason}; "
            "calls without an answer may have run there"
        )
        while self._read_some():
            pass
        self._unwatch()
        self.pipe.break_off(error)
        self.pipe.close()
        self._on_lost(self)

    def _unwatch(self) -> None:
        if self._prober is not None:
            self._prober.stop()
        if self._shared is not None:
            self._progress.unwatch(self._shared.fileno())
            self._progress.unwatch(self._connection_fd)
            self._shared = None
        if self._pulse is not None:
            self._pulse.stop()
            self._pulse = None
        if self._pidfd is not None:
            self._progress.unwatch(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None
