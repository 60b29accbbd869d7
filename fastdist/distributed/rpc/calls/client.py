"""The calling half of the agent: sends requests, waits on lanes, completes Futures."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from fastdist.core.errors import MessageError, RpcError
from fastdist.core.future import Future
from fastdist.core.thread_pool import ThreadPool
from fastdist.distributed.pipe.frames import Buffer

from ..debug_log import debug_log
from ..message.body import reads_plainly
from ..message.error_parts import fresh
from ..message.layout import NO_CALL, PICKLE
from ..message.message import Message
from ..message.remote_errors import unpack_error
from ..message.types import NOT_COUNTED, OURS_ALONE, TOLD_IF_GIVEN_UP, USER_WORK, MessageType
from ..metrics import CallCounts
from ..workers.inquiry import read_findings
from ..workers.progress import Progress
from ..workers.timeouts import Timeouts
from .lane_call import LaneCall
from .outgoing import (
    Call,
    bytes_of,
    cancel,
    decode_answer,
    lost_error,
    open_answer,
    pack_request,
    undo,
)
from .resend import Resend

if TYPE_CHECKING:
    from fastdist.core.device import Device
    from fastdist.tensor.tensor import Tensor

    from ..message.metadata import Value
    from ..workers.record import Record
    from ..workers.worker import Worker

_logger = logging.getLogger(__name__)

_GREET_FIRST: Final = MessageType.GREET_FIRST
# Callers that block are few: what they hold together is little where each holds little.
_UNCHARGED_BYTES: Final = 64 << 10


class Client:
    """Calls of this worker to all others.

    Thread  any
    """

    def __init__(
        self,
        me: Record,
        pool: ThreadPool,
        counts: CallCounts,
        reach: Callable[[int | Worker, MessageType], Worker],
        device_map_to: Callable[[Worker], Mapping[Device, Device]],
    ) -> None:
        self.timeouts = Timeouts()
        self.progress = Progress("fastdist-rpc-progress", self.timeouts, self._expire)
        self._me, self.rank = me, me.rank
        self.pool = pool
        self._counts = counts
        self._reach = reach
        self._device_map_to = device_map_to
        self._numbers = itertools.count()
        # Calls that have a deadline, by id: where an expired id leads to. One entry at a time is
        # put in or taken out.
        self._expiring: dict[int, Call] = {}
        # Requests that wait to be sent once more. Entries come and go one at a time.
        self.resends: set[Resend] = set()
        # Told of each call that may bring references, and is given up before its answer has come.
        self.gave_up: Callable[[Call], None] = lambda call: None

    def end_resends(self, error: RpcError) -> None:
        """Send nothing once more: whoever waits hears that this worker leaves."""
        for resend in list(self.resends):
            resend.outcome.try_complete(error=error)

    def begin(
        self,
        to: int | Worker,
        kind: MessageType,
        value: Any,
        metadata: Mapping[str, Value] | None,
        timeout_s: float,
        what: object,
    ) -> LaneCall | Future[Any]:
        """Send a request whose answer its sender will wait for, by `wait` of what is returned."""
        call = self._new_call(to, kind, [], metadata, timeout_s, what)
        return self._begin_on_lane(call, value) or self._start(call, value)

    def request(
        self,
        to: int | Worker,
        kind: MessageType,
        value: Any = None,
        tensors: Sequence[Tensor] = (),
        metadata: Mapping[str, Value] | None = None,
        timeout_s: float = 0.0,
        what: object = None,
    ) -> Future[Any]:
        """Send a request and return a Future of what the answer holds."""
        what = kind.name if what is None else what
        call = self._new_call(to, kind, list(tensors), metadata, timeout_s, what)
        return self._start(call, value)

    def request_with_retries(self, retries: int, *request: Any) -> Future[Any]:
        """Send a request that may run twice; again after a failure that leaves the worker alive."""
        resend = Resend(self, request, retries)
        resend.send()
        return resend.outcome

    def send_in_person(
        self,
        to: int | Worker,
        kind: MessageType,
        tensors: Sequence[Tensor],
        metadata: Mapping[str, Value] | None,
    ) -> LaneCall | None:
        """Send a request on a lane of its own, for a sender that has nothing to do but wait for it.

        None if no lane is free; nothing was sent then.
        """
        call = self._new_call(to, kind, list(tensors), metadata, 0.0, kind._name_)
        return self._begin_on_lane(call, None)

    def write(self, call: Call, frames: Sequence[Buffer]) -> None:
        """Let a request leave by the shared lane; what a faulty agent overrides."""
        call.peer.pipe.shared().send(frames)

    def answer_came(self, peer: Worker, frames: list[Buffer]) -> None:
        """Complete the call that an answer on lane 0 is for; on the progress thread."""
        peer.has_read(frames)
        answer = self._decoded(frames, peer)
        if answer is None:
            return
        if answer.message_id == NO_CALL:
            if answer.type == MessageType.FINDINGS:
                self._look_at_findings(peer, answer)
                return
            if answer.type == MessageType.PONG:
                peer.answered()
                return
            if answer.type == MessageType.EXCEPTION:
                # The answer to a greeting is a refusal.
                peer.refuse(unpack_error(answer))
            return
        if answer.type == _GREET_FIRST:
            peer.must_greet_again(answer.message_id)
            return
        call = peer.pipe.take_pending(answer.message_id)
        if call is None:
            # Late: its caller has been told that it took too long. Or it has come before. What it
            # brings is read in neither case: see Note [References that never come].
            return
        assert isinstance(call, Call)
        size = bytes_of(answer, frames)
        plainly = answer.encoding != PICKLE or reads_plainly(answer.body)
        if plainly or not self.pool.submit_uncounted(_complete, call, answer, size):
            _complete(call, answer, size)

    def late_answer_came(self, peer: Worker, frames: list[Buffer]) -> None:
        """Take note of an answer on a lane that nobody waits on; on the progress thread."""
        self._decoded(frames, peer)  # memory that was lent for it goes back

    def _decoded(self, frames: list[Buffer], peer: Worker) -> Message | None:
        try:
            return decode_answer(frames, peer)
        except MessageError as error:
            # Told once of each worker: one that answers so may do it as fast as it can.
            if not peer.answers_rubbish:
                peer.answers_rubbish = True
                _logger.warning("%s; it was dropped, as others of its will be", error)
            return None

    def _look_at_findings(self, peer: Worker, answer: Message) -> None:
        serial, never_came, gone = read_findings(answer)
        if not peer.takes_findings(serial):
            return  # of an earlier connection, or a copy
        for call_id in never_came:
            call = peer.pipe.pending(call_id)
            if not isinstance(call, Call):
                continue
            if frames := call.frames_again():
                text = "call %#x never came to %r: sent again"
                debug_log.worker(call_id >> 48, text, call_id, peer.name)
                peer.pipe.notify(list(frames))
            elif peer.pipe.take_pending(call_id) is not None:
                call.fail(lost_error(call, may_have_run=False))
                self._give_up(call)
        for call_id in gone:
            call = peer.pipe.take_pending(call_id)
            if isinstance(call, Call):
                call.fail(lost_error(call, may_have_run=True))
                self._give_up(call)

    def _new_call(
        self,
        to: int | Worker,
        kind: MessageType,
        tensors: list[Tensor],
        metadata: Mapping[str, Value] | None,
        timeout_s: float,
        what: object,
    ) -> Call:
        peer = self._reach(to, kind)
        message = Message(
            kind,
            peer=peer,
            source=self._me.rank,
            incarnation=self._me.incarnation,
            tensors=tensors,
            metadata=dict(metadata) if metadata else None,
        )
        return Call(peer, message, timeout_s, what)

    def _number(self, call: Call) -> None:
        """Give a call its id, when it has its lane: ids that come by a lane of its own grow."""
        call.message_id = call.message.message_id = self._me.rank << 48 | next(self._numbers)
        if debug_log.of_calls:
            debug_log.call(call, "begins")

    def _begin_on_lane(self, call: Call, value: Any) -> LaneCall | None:
        peer = call.peer
        own = peer.pipe.check_out()
        if own is None:
            return None
        self._number(call)
        charged = 0
        try:
            pack_request(call, value, self._device_map_to)
            size = call.size_bytes()
            # Only users' calls wait: answers, gradients and clean-up are what frees the room.
            if size > _UNCHARGED_BYTES and call.message.effective_type in USER_WORK:
                if not peer.credit.take(size, call.deadline):
                    raise call.timeout_error()
                charged = size
        except BaseException:
            peer.pipe.check_in(own)
            call.was_not_sent()
            raise
        return LaneCall(call, own, size, charged, self._counts, self._give_up)

    def _start(self, call: Call, value: Any) -> Future[Any]:
        self._number(call)
        pack_request(call, value, self._device_map_to)
        peer, size = call.peer, call.size_bytes()
        kind = call.message.effective_type
        is_user_work = kind in USER_WORK
        # Users' callbacks run in the pool. Ours are short, may complete what others wait for, and
        # must not wait behind users' functions: they run where the answer is read.
        is_ours = kind in OURS_ALONE
        future: Future[Any] = Future(executor=None if is_ours else self.pool)
        call.await_in_future(future, self._finish)
        call.charged_bytes = size if is_user_work else -1
        if is_user_work and not peer.credit.take(size, call.deadline):
            call.was_not_sent()
            raise call.timeout_error()
        if call.message.type not in NOT_COUNTED:
            self._counts.call_sent(peer.info.name, size)
        frames = call.frames
        if len(frames) > 1:
            # Not to be sent again: further frames are the caller's own memory, which it may change
            # once this returns. Now, for while they are sent they may be asked for already.
            call.frames = ()
        try:
            # Before the send: the answer may arrive before it returns.
            peer.pipe.add_pending(call.message_id, call)
        except Exception as error:
            undo(call)
            call.end(None, fresh(error))
            return future
        if call.deadline is not None:
            self._expiring[call.message_id] = call
            if self.timeouts.add(call.message_id, call.deadline):
                self.progress.wake()
            if call.is_over:  # a break was faster
                self._forget_deadline(call)
        try:
            self.write(call, frames)
        except Exception as error:
            if peer.pipe.take_pending(call.message_id) is not None:
                undo(call)
                call.end(None, fresh(error))
        return future

    def _finish(self, call: Call, received_bytes: int, failed: bool) -> None:
        if debug_log.of_calls:
            debug_log.call(call, "failed" if failed else "answered")
        if call.deadline is not None:
            self._forget_deadline(call)
        if call.charged_bytes >= 0:
            call.peer.credit.give_back(call.charged_bytes)
        if call.lent_bytes:
            call.take_back()
        if call.message.type not in NOT_COUNTED:
            self._counts.call_ended(call.peer.info.name, received_bytes, failed=failed)

    def _forget_deadline(self, call: Call) -> None:
        self._expiring.pop(call.message_id, None)
        self.timeouts.remove(call.message_id)

    def _expire(self, message_ids: list[int]) -> None:
        for message_id in message_ids:
            call = self._expiring.get(message_id)
            # Once it is taken out its id is unknown: a late answer is dropped.
            if call is not None and call.peer.pipe.take_pending(message_id) is not None:
                call.peer.pipe.notify(cancel(call))
                if debug_log.of_calls:
                    debug_log.call(call, "timed out")
                call.end(None, call.timeout_error())
                self._give_up(call)

    def _give_up(self, call: Call) -> None:
        if call.message.effective_type in TOLD_IF_GIVEN_UP:
            self.gave_up(call)


def _complete(call: Call, answer: Message, size: int) -> None:
    try:
        value = open_answer(answer, call)
    except BaseException as error:
        call.end(None, error, size)
    else:
        call.end(value, None, size)
