"""One life of another worker: its record, its connection, and this worker's data about it."""

# Note [A worker is a life]
# A rank may have several lives, one after another. The data that this process has about another
# worker belongs to one life: lanes and their calls, lent memory, references that the life holds,
# and contexts that it has reached. So a Worker object has such data, or is its key. All holders of
# the data are notified of the end of a life in the same order. The next life is another Worker.

from __future__ import annotations

import functools
import itertools
import logging
import math
import os
import threading
import time
from collections.abc import Sequence
from typing import Protocol

from fastdist.concurrency.future import Future, InternalFuture
from fastdist.core.errors import GivenUpError, MessageError, RpcError, WorkerLostError
from fastdist.distributed.arena.lender import Lender
from fastdist.distributed.pipe.context import Context
from fastdist.distributed.pipe.credit import Credit
from fastdist.distributed.pipe.frames import Buffer
from fastdist.distributed.pipe.host import process_start
from fastdist.distributed.pipe.lane import Lane
from fastdist.distributed.pipe.pipe import Pipe
from fastdist.distributed.pipe.shared_lane import SharedLane
from fastdist.distributed.sockets import Doorbell
from fastdist.system.foreign_text import one_line

from ..debug_log import debug_log
from ..message.layout import NO_CALL
from ..message.message import Message, decode
from ..message.metadata import Value
from ..message.remote_errors import unpack_error
from ..message.types import MessageType
from .end_reasons import BEAT_S, CAUSE, MOST_LETTERS, WHY, level_of_end
from .progress import Progress
from .reconciliation import (
    MOST_OPEN,
    READ_STEP_MESSAGES,
    UNREAD_STEP_BYTES,
    Acknowledged,
    Waiting,
    acknowledge,
    apply_result,
    pack_query,
)
from .record import Record, WorkerInfo, in_words, own_lanes_between
from .session import Action, Die, Do, Event, LivenessTimeouts, Session, State
from .stuck import NOT_STUCK, Stuck, read_stuck
from .watching import EVENT_OF, LaneDescriptors, Prober, PulseTaker

_logger = logging.getLogger(__name__)

# The interval of checks of a silent peer: short enough to notice that this process was stopped.
_LOOK_S = 0.5
_LEAST_S = 0.001
_NOTED_WITHIN_S = 1.0  # the longest wait for the progress thread
_MOST_AT_ONCE = 256


class Owner(Protocol):
    """The owner of workers, which handles their messages and their ends.

    Thread  each method on the progress thread
    """

    me: Record
    context: Context
    progress: Progress

    def handle_lost(self, worker: Worker) -> None:
        """Handle a worker's end; called once per worker."""

    def is_silent(self, worker: Worker, why: str) -> None:
        """Handle that a worker does not answer."""

    def were_given_up(self, by: Worker, error: GivenUpError) -> None:
        """Handle a report of the worker `by`, which has given up this worker."""


class Worker:
    """One life of one rank, possibly this worker itself, with its record; connected on demand.

    See Note [A worker is a life].

    Thread  any; methods with an underscore run on the progress thread
    """

    def __init__(self, record: Record, owner: Owner, timeouts: LivenessTimeouts) -> None:
        self.record = record
        self.info: WorkerInfo = record.info
        self.id = record.rank
        self.name = record.name
        self.is_self = record.incarnation == owner.me.incarnation
        # is_met: the peer has a pipe, so messages can be sent. is_dead: the peer was lost or left.
        self.is_met = self.is_dead = False
        self.pipe: Pipe[Waiting]
        self.credit: Credit
        # The limits for messages from the peer; its record has the limits for messages to the peer.
        self.takes = owner.me.limits
        # Device here -> the peer's device for results: its map to this worker, inverted.
        forward = record.device_map_to(owner.me.name)
        self.map_back = {theirs: mine for mine, theirs in forward.items()}
        # The peer's latest calls here that it gave up; some may still run. Maintained by Forks.
        self.given_up: dict[int, None] = {}
        # Whether a warning about invalid answers of the peer was logged.
        self._answers_rubbish = False
        # The lender of memory to the peer, if both workers can share memory.
        self.lender: Lender | None = None
        # The worker without a free thread in the latest PONG: the peer, or one it waits for.
        self.stuck: Stuck = NOT_STUCK
        # Whether the peer has acknowledged our goodbye, after reading all our messages.
        self.acknowledged_goodbye = False
        # Done when all holders of data about the peer have handled its end and released the data.
        self.end_handled: Future[None] = InternalFuture()
        self._owner, self._timeouts = owner, timeouts
        self._me, self._progress = owner.me, owner.progress
        self._session = Session(self._progress.now(), timeouts)
        # For TCP only: finds out why connections to the peer's address fail.
        self._prober: Prober | None = None
        self._pidfd: int | None = None
        self._descriptors: LaneDescriptors | None = None
        self._shared: SharedLane | None = None
        self._pulse: PulseTaker | None = None
        self._greetings = itertools.count(1)
        self._looks_at = math.inf
        # Read from lane 0 since the last acknowledgement: see Note [Answers that are kept].
        self._read_bytes = self._read_messages = 0

    @property
    def why_lost(self) -> str:
        """Why the peer was lost; empty while it lives, and if it left in order. Final once set."""
        return self._session.why_lost

    @property
    def is_surely_over(self) -> bool:
        """Whether the peer was certainly lost: its process has ended, or its port is closed."""
        return self._session.is_surely_over

    @property
    def hangs(self) -> bool:
        """Whether the peer lives, but its Python code has not answered for a minute."""
        return self._session.is_unresponsive

    def describe(self) -> str:
        """Return the peer's state as text, for users who debug a hang."""
        how = "dead" if self.is_dead else "connected"
        if self._session.state is State.SUSPECT:
            how = "without a sign of life"
        elif self.hangs and not self.is_dead:
            how = "alive, but its Python does not answer"
        return f"{how} by {self.transport}, {self.pipe.num_pending()} calls without answer"

    @functools.cached_property
    def transport(self) -> str:
        """The name of the transport to the peer."""
        me = self._me
        return self._owner.context.choose(
            self.record.addresses,
            same_host=me.shares_host_with(self.record),
            same_process=self.is_self,
        )

    def meet(self) -> None:
        """Create the pipe to the peer; call `open` next. One thread at a time."""
        record, limits = self.record, self._me.limits
        self._session = Session(self._progress.now(), self._timeouts)
        self.credit = Credit(limits.outstanding_bytes, limits.outstanding_calls)
        own_lanes = min(own_lanes_between(self._me, record), record.limits.connections - 1)
        self.pipe = Pipe(self._connect, self._greet, self._attend, own_lanes)
        if self.transport == "uv":
            session, address = self._session, record.addresses["uv"]
            self._prober = Prober(
                address, self._progress, lambda: session.is_out_of_reach, self._step
            )
        self.is_met = True

    def open(self) -> None:
        """Connect lane 0 and start to watch the peer.

        Raises  the error of a lane that cannot be made; is_met is False after that
        """
        try:
            self._shared = self.pipe.shared()
        except Exception as error:
            # Without lane 0 nothing would read the peer's answers. The next caller tries to connect
            # again; callers that use the pipe already get the error.
            self.is_met = False
            self.pipe.break_off(error)
            self.pipe.close()
            raise
        self._progress.post(self._open)

    def say_goodbye(self) -> None:
        """Notify the peer that this worker leaves and has answered all its calls."""
        self._progress.post(self._notify, MessageType.BYE)

    def said_goodbye(self, why: str = "") -> None:
        """Handle a goodbye: the peer leaves, and closes its connections after a FAREWELL.

        `why` is the reason of a peer whose process ends without rpc.shutdown().
        """
        if why:
            why = one_line(why, MOST_LETTERS)
            if CAUSE in why:
                _logger.log(level_of_end(why), "%s: %s", in_words(self.info), why)
        self._progress.post(self._step, Event.LEFT, why)

    def was_replaced(self) -> None:
        """Handle that a new life of the peer's rank has joined: this life has ended."""
        self._progress.post(self._step, Event.REPLACED)

    def refuse_and_wait(self, error: GivenUpError) -> None:
        """Handle a refusal by the peer, which the lane of a call has received.

        Note    if this worker is out of the group, it is fenced when this method returns. The
                caller gets the error next, and must not succeed with other calls or with shutdown
        """
        noted = threading.Event()
        self._progress.post(self._refused, error)
        self._progress.post(noted.set)
        if not self._progress.is_current_thread():
            noted.wait(_NOTED_WITHIN_S)

    def fence(self, error: GivenUpError) -> None:
        """Fail all waits for the peer: this worker is out of the group. On the progress thread."""
        if self.is_met:
            self.pipe.fail_from_now_on(error)
        self._step(Event.FENCED)

    def close(self, error: RpcError, *, linger_s: float = 0.0, why: str = "") -> None:
        """End all waits with `error`, notify the peer and close all lanes; on the progress thread.

        `why` is sent to the peer as the reason, if the process ends without rpc.shutdown().
        """
        if not self.is_met:
            return
        self.pipe.break_off(error)
        self._unwatch()
        if not self.is_self and (why or not self.acknowledged_goodbye):
            self._notify(MessageType.BYE, {WHY: why} if why else None)
        self.pipe.close(linger_s)

    def _refused(self, error: Exception) -> None:
        if isinstance(error, GivenUpError) and error.incarnation == self._me.incarnation:
            self._owner.were_given_up(self, error)
        self._step(Event.REJECTED, f"it refuses this worker: {one_line(error)}")

    def _notify(self, kind: MessageType, metadata: dict[str, Value] | None = None) -> None:
        if not self.is_met:
            return
        source, incarnation = self._me.rank, self._me.incarnation
        notice = Message(kind, source=source, incarnation=incarnation, metadata=metadata or {})
        self.pipe.notify(notice.encode())

    def _connect(self, closed: Doorbell, number: int) -> Lane:
        address = self.record.addresses[self.transport]
        return self._owner.context.connect(
            self.transport, address, closed, f"rank:{self.record.rank}", watched=number == 0
        )

    def _greet(self, number: int) -> list[Buffer]:
        return Message(
            MessageType.HELLO,
            source=self._me.rank,
            incarnation=self._me.incarnation,
            lane=number,
            # "to": a restarted worker must refuse calls to its earlier life. "greeting": numbers
            # the connections, because an earlier connection may be read after a later one.
            metadata={"to": f"{self.record.incarnation:x}", "greeting": next(self._greetings)},
        ).encode()

    def _attend(self) -> None:
        self._progress.post(self._read)

    def _open(self) -> None:
        shared = self._shared
        if shared is None or self.is_dead:
            return
        self._descriptors = LaneDescriptors(
            shared.lane, self._progress, self._read, self._read_connection
        )
        if shared.lane.pulse is not None:
            shared.lane.pulse.most_missed_beats = self._timeouts.beats
            self._pulse = PulseTaker(
                *(self._hang_up, shared.lane.pulse, self._progress),
                *(self._ask, self.pipe.is_waited_for),
            )
        self._watch_process()
        debug_log.worker(self._me.rank, "connects to worker %r", self.info.name)
        # Edge-triggered descriptors do not report messages that arrived before the watch.
        self._read_connection()
        self._read()
        if not self.is_self:
            self._step(Event.TICK)
            self._progress.call_at(time.monotonic() + BEAT_S, self._beat)

    def _watch_process(self) -> None:
        record = self.record
        can_watch = hasattr(os, "pidfd_open") and self._me.shares_processes_with(record)
        if self.is_self or not can_watch:
            return
        try:
            self._pidfd = os.pidfd_open(record.pid)
        except ProcessLookupError:
            self._step(Event.PROCESS_ENDED)
            return
        except OSError:
            return  # not permitted here: the connection reports the end a little later
        if process_start(record.pid) != record.process_start:
            self._step(Event.PROCESS_ENDED)
            return
        self._progress.watch(self._pidfd, self._process_ended)

    def _process_ended(self) -> None:
        # The descriptor stays readable from now on: watching it further would be a busy loop.
        if self._pidfd is not None:
            self._progress.unwatch(self._pidfd)
        self._step(Event.PROCESS_ENDED)

    def _read(self) -> None:
        if self._read_some():
            # Yield: other peers' answers, ends and timeouts wait for this thread as well.
            self._progress.post(self._read)
        elif self._descriptors is not None and self._descriptors.are_others():
            self._follow_lane()
            self._progress.post(self._read)

    def _follow_lane(self) -> None:
        """Watch the lane's descriptors again, after its ring has ended or was replaced."""
        if (descriptors := self._descriptors) is None:
            return
        descriptors.unwatch()  # new descriptors may get the same numbers
        try:
            self._read_connection()  # creates the descriptors: see pipe/ring/watched.py
        finally:
            if self._descriptors is not None:
                descriptors.watch()
        # Edge-triggered descriptors do not report messages that arrived before the watch.
        self._read_connection()

    def _hang_up(self) -> None:
        if self._shared is not None:
            self._shared.lane.hang_up()
            self._follow_lane()

    def _read_some(self) -> bool:
        """Read messages that have arrived; return whether there may be more."""
        for _ in range(_MOST_AT_ONCE):
            shared = self._shared
            frames = None if shared is None else shared.receive()
            if frames is None:
                return False
            if self._pulse is not None:
                self._pulse.was_heard = True
            try:
                self._take(frames)
            except Exception:
                # An invalid message must not stop the reading: no event would report the messages
                # after it again.
                _logger.exception("a message of worker %r could not be read", self.info.name)
        return True

    def _take(self, frames: list[Buffer]) -> None:
        """Handle a message from lane 0: the answer to a call, or a notice of the peer's agent."""
        # Count all bytes, even of invalid messages and bytes that the peer did not count. If this
        # worker acknowledged too little, the peer would hold back this worker's calls forever.
        self._read_bytes += len(frames[0]) if len(frames) == 1 else sum(map(len, frames))
        self._read_messages += 1
        if self._read_bytes >= UNREAD_STEP_BYTES or self._read_messages >= READ_STEP_MESSAGES:
            self._acknowledge()
        answer = self._decoded(frames)
        if answer is None:
            return
        if answer.message_id == NO_CALL:
            self._take_notice(answer)
        elif answer.type == MessageType.GREET_FIRST:
            # The peer received that call on a connection on which it had read no greeting.
            if self._session.must_greet_again(answer.message_id):
                self._recover()
        elif (call := self.pipe.take_pending(answer.message_id)) is not None:
            call.answered(answer, frames)
        # Otherwise the caller has timed out, or the answer is a duplicate. In both cases its
        # references are not read: see Note [References that never come].

    def _acknowledge(self) -> None:
        floor, still_open = self.pipe.open_calls(MOST_OPEN)
        self.pipe.notify(acknowledge(Acknowledged(self._read_bytes, floor, (*still_open,))))
        self._read_bytes = self._read_messages = 0

    def decode(self, frames: Sequence[Buffer]) -> Message:
        """Return the message decoded from frames that this peer has sent.

        Raises  MessageError naming this peer
        """
        try:
            return decode(frames, self.takes, self)
        except MessageError as error:
            raise MessageError(f"worker {self.name!r} sent an invalid answer: {error}") from error

    def _decoded(self, frames: list[Buffer]) -> Message | None:
        try:
            return self.decode(frames)
        except MessageError as error:
            # Log once per worker: a peer may send invalid answers at a high rate.
            if not self._answers_rubbish:
                self._answers_rubbish = True
                text = "%s; its message was dropped; later ones will be too"
                _logger.warning(text, one_line(error))
            return None

    def _take_notice(self, notice: Message) -> None:
        if notice.type == MessageType.RECONCILED:
            apply_result(notice, self._session, self.pipe, self.name)
        elif notice.type == MessageType.PONG:
            if self._session.is_unresponsive:
                _logger.warning("worker %r answers again", self.info.name)
            self.stuck = read_stuck(notice.metadata, self.id) if notice.metadata else NOT_STUCK
            self._step(Event.ANSWERED)
        elif notice.type == MessageType.EXCEPTION:
            # An exception that belongs to no call is the refusal of a greeting.
            self._progress.post(self._refused, unpack_error(notice))

    def _read_connection(self) -> None:
        while self._shared is not None:
            kind = self._shared.lane.next_connection_event()
            if kind is None:
                return
            event = EVENT_OF.get(kind)
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
            debug_log.worker(self._me.rank, "the connection to worker %r broke", self.info.name)
            self._shared.hold()
        waits = self.is_met and self.pipe.is_waited_for()
        now, woke_at = self._progress.now(), self._progress.woke_at
        actions = self._session.step(event, now, reason, is_waited_for=waits, woke_at=woke_at)
        self.is_dead = self._session.has_left_or_died
        try:
            for action in actions:
                self._do(action)
        finally:
            # Schedule the next check even after an error. Otherwise no silence would be noticed.
            if (look := self._session.next_look()) is not None:
                self._look_at(look)

    def _do(self, action: Action) -> None:
        if action is Do.RECOVER:
            self._recover()
        elif action is Do.SAY_FAREWELL:
            self._notify(MessageType.FAREWELL)
        elif action is Do.TELL_SILENCE:
            self._owner.is_silent(self, "gives no sign of life; calls to it will fail soon")
        elif isinstance(action, Die):
            self._end(action)
        else:
            self._owner.is_silent(
                self,
                f"lives, but its Python has not answered for {action.silent_s:.0f} s: it may "
                "hang, or compute without releasing the interpreter lock",
            )

    def _beat(self) -> None:
        """Send a PING if anything waits for the peer, to check that it still answers."""
        if self._shared is None:
            return
        # Schedule the next beat first, so that an error in this beat does not stop it.
        self._progress.call_at(time.monotonic() + BEAT_S, self._beat)
        for frames in self.pipe.drain_idle_lanes():
            self._decoded(frames)  # returns memory that was lent for the answer
        if self.pipe.is_waited_for():
            self._ask()
            self._step(Event.ASKED)

    def _ask(self) -> None:
        self.pipe.notify(Message(MessageType.PING).encode())

    def _look_again(self) -> None:
        self._looks_at = math.inf
        if not self.is_self and self._shared is not None:
            self._step(Event.TICK)
            self._follow_lane()  # the lane's next connection may not be watched yet

    def _look_at(self, when: float) -> None:
        # The two clocks round differently, so a remaining time may become zero.
        when = time.monotonic() + max(_LEAST_S, min(when - self._progress.now(), _LOOK_S))
        if when < self._looks_at:
            self._looks_at = when
            self._progress.call_at(when, self._look_again)

    def _recover(self) -> None:
        if self.lender is not None:
            self.lender.connection_broke()
        # The order matters: a call that is pending now was sent before the greeting, and is
        # queried; any later call is sent after the greeting.
        self.pipe.greet_again()
        call_ids = self.pipe.pending_ids()
        serial = self._session.next_query(call_ids)
        debug_log.worker(
            self._me.rank,
            "worker %r is connected again; asks about %d calls",
            *(self.info.name, len(call_ids)),
        )
        if call_ids:
            self.pipe.notify(pack_query(serial, call_ids))

    def _end(self, action: Die) -> None:
        verb = "has left the group" if action.left else "was lost"
        debug_log.worker(self._me.rank, "worker %r %s: %s", self.info.name, verb, action.reason)
        error = WorkerLostError(
            f"worker {self.info.name!r} (rank {self.info.id}) {verb}: {action.reason}; "
            "calls without an answer may have run there"
        )
        while self._read_some():
            pass
        self._unwatch()
        if self.is_met:
            self.pipe.break_off(error)
            self.pipe.close()
        self._owner.handle_lost(self)

    def _unwatch(self) -> None:
        if self._prober is not None:
            self._prober.stop()
        if self._descriptors is not None:
            self._descriptors.unwatch()
        self._shared = self._descriptors = None
        if self._pulse is not None:
            self._pulse.stop()
            self._pulse = None
        if self._pidfd is not None:
            self._progress.unwatch(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None
