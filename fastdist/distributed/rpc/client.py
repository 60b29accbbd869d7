"""The calling half of the agent: sends requests, waits on lanes, completes Futures."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from fastdist.core.errors import GivenUpError, MessageError, RpcError, WorkerLostError
from fastdist.core.future import Future
from fastdist.core.thread_pool import ThreadPool, hand_on_lead
from fastdist.distributed.pipe.lane import LaneClosed, LaneTimeout
from fastdist.distributed.pipe.message import NO_CALL, PICKLE, Buffer, Message

from .body import reads_plainly
from .inquiry import read_findings
from .interceptors import Envelope
from .lane_answer import receive_answer
from .lane_call import LaneCall
from .message_types import (
    MAY_BRING_REFERENCES,
    NOT_COUNTED,
    OURS_ALONE,
    USER_WORK,
    MessageType,
)
from .metrics import CallCounts
from .outgoing import (
    Call,
    bytes_of,
    decode_answer,
    fresh,
    lost_error,
    open_answer,
    pack_request,
    undo,
)
from .progress import Progress
from .resend import Resend
from .timeouts import Timeouts

if TYPE_CHECKING:
    from fastdist.core.device import Device
    from fastdist.distributed.pipe.metadata import Value
    from fastdist.distributed.pipe.pipe import OwnLane
    from fastdist.tensor.tensor import Tensor

    from .membership import Record
    from .peer import Peer

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
        peer_of: Callable[[int, MessageType], Peer],
        device_map_to: Callable[[int], Mapping[Device, Device]],
    ) -> None:
        self.timeouts = Timeouts()
        self.progress = Progress("fastdist-rpc-progress", self.timeouts, self._expire)
        self._me = me
        self.pool = pool
        self._counts = counts
        self.peer_of = peer_of
        self._device_map_to = device_map_to
        self._numbers = itertools.count()
        # Calls that have a deadline, by id: where an expired id leads to. One entry at a time is
        # put in or taken out.
        self._expiring: dict[int, Call] = {}
        self._answer_rubbish: set[int] = set()  # the workers that do; on the progress thread
        # Requests that wait to be sent once more. Entries come and go one at a time.
        self.resends: set[Resend] = set()
        # Told of each call that may bring references, and is given up before its answer has come.
        self.gave_up: Callable[[Call], None] = lambda call: None

    def end_resends(self, error: RpcError) -> None:
        """Send nothing once more: whoever waits hears that this worker leaves."""
        for resend in list(self.resends):
            resend.outcome.try_complete(error=error)

    def call(
        self,
        worker_id: int,
        kind: MessageType,
        value: Any,
        metadata: Mapping[str, Value] | None,
        timeout_s: float,
        what: object,
    ) -> Any:
        """Send a request, wait, and return what the answer holds; all on this thread."""
        call = self._new_call(worker_id, kind, [], metadata, timeout_s, what)
        own = call.peer.pipe.check_out()
        if own is None:
            return self._start(call, value).wait()
        try:
            pack_request(call, value, self._me, self._device_map_to)
            size = call.size_bytes()
            if size > _UNCHARGED_BYTES and not call.peer.credit.take(size, call.deadline):
                raise call.timeout_error()
        except BaseException:
            call.peer.pipe.check_in(own)
            call.was_not_sent()
            raise
        return self._wait_on_lane(call, own, size)

    def request(
        self,
        worker_id: int,
        kind: MessageType,
        value: Any = None,
        tensors: Sequence[Tensor] = (),
        metadata: Mapping[str, Value] | None = None,
        timeout_s: float = 0.0,
        what: object = None,
    ) -> Future[Any]:
        """Send a request and return a Future of what the answer holds."""
        what = kind.name if what is None else what
        call = self._new_call(worker_id, kind, list(tensors), metadata, timeout_s, what)
        return self._start(call, value)

    def request_with_retries(self, retries: int, *request: Any) -> Future[Any]:
        """Send a request that may run twice; again after a failure that leaves the worker alive."""
        resend = Resend(self, request, retries)
        resend.send()
        return resend.outcome

    def send_in_person(
        self,
        worker_id: int,
        kind: MessageType,
        tensors: Sequence[Tensor],
        metadata: Mapping[str, Value] | None,
    ) -> LaneCall | None:
        """Send a request on a lane of its own, for a sender that has nothing to do but wait for it.

        None if no lane is free; nothing was sent then.
        """
        call = self._new_call(worker_id, kind, list(tensors), metadata, 0.0, kind.name)
        own = call.peer.pipe.check_out()
        if own is None:
            return None
        has_begun = False
        try:
            pack_request(call, None, self._me, self._device_map_to)
            has_begun = True
            return LaneCall(call, own, self._counts, self._lost_error)
        except BaseException:
            # What was sent of it in part would be read as the beginning of the next.
            call.peer.pipe.check_in(own, broken=has_begun)
            call.was_not_sent()
            raise

    def write(self, call: Call) -> None:
        """Let a request leave by the shared lane; what a faulty agent overrides."""
        call.peer.pipe.shared().send(call.frames)

    def answer_came(self, peer: Peer, frames: list[Buffer]) -> None:
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
            # The answer to a greeting is a refusal.
            envelope = Envelope(answer.type, peer.info.id, [], answer.metadata)
            refused = Call(peer, envelope, NO_CALL, 0.0, "HELLO")
            try:
                open_answer(answer, refused)
            except Exception as error:  # whatever it is that the peer tells us
                peer.refuse(error)
            return
        if answer.type == _GREET_FIRST:
            peer.must_greet_again(answer.message_id)
            return
        call = peer.pipe.take_pending(answer.message_id)
        if call is None:
            # Late: its caller has been told that it took too long. Or it has come before. What it
            # brings is read in neither case: see rref_forks.py, Note [References that never come].
            return
        assert isinstance(call, Call)
        size = bytes_of(answer, frames)
        plainly = answer.encoding != PICKLE or reads_plainly(answer.body)
        if plainly or not self.pool.submit_uncounted(_complete, call, answer, size):
            _complete(call, answer, size)

    def late_answer_came(self, peer: Peer, frames: list[Buffer]) -> None:
        """Take note of an answer on a lane that nobody waits on; on the progress thread."""
        self._decoded(frames, peer)  # memory that was lent for it goes back

    def _decoded(self, frames: list[Buffer], peer: Peer) -> Message | None:
        try:
            return decode_answer(frames, peer)
        except MessageError as error:
            # Told once of each worker: one that answers so may do it as fast as it can.
            if peer.info.id not in self._answer_rubbish:
                self._answer_rubbish.add(peer.info.id)
                _logger.warning("%s; it was dropped, as others of its will be", error)
            return None

    def _look_at_findings(self, peer: Peer, answer: Message) -> None:
        serial, never_came, gone = read_findings(answer)
        if serial != peer.serial:
            return  # of an earlier connection
        for call_id in never_came:
            call = peer.pipe.pending(call_id)
            frames = call.frames_again() if isinstance(call, Call) else ()
            if frames:
                peer.pipe.notify(list(frames))
            elif call is not None and peer.pipe.take_pending(call_id) is not None:
                call.fail(lost_error(call, may_have_run=False))  # type: ignore[arg-type]
        for call_id in gone:
            call = peer.pipe.take_pending(call_id)
            if isinstance(call, Call):
                call.fail(lost_error(call, may_have_run=True))
                self._give_up(call)

    def _new_call(
        self,
        worker_id: int,
        kind: MessageType,
        tensors: list[Tensor],
        metadata: Mapping[str, Value] | None,
        timeout_s: float,
        what: object,
    ) -> Call:
        peer = self.peer_of(worker_id, kind)
        envelope = Envelope(kind, worker_id, tensors, dict(metadata) if metadata else None)
        message_id = self._me.rank << 48 | next(self._numbers)
        return Call(peer, envelope, message_id, timeout_s, what)

    def _start(self, call: Call, value: Any) -> Future[Any]:
        pack_request(call, value, self._me, self._device_map_to)
        peer, size = call.peer, call.size_bytes()
        kind = call.envelope.effective_type
        is_user_work = kind in USER_WORK
        # Users' callbacks run in the pool. Ours are short, may complete what others wait for, and
        # must not wait behind users' functions: they run where the answer is read.
        is_ours = kind in OURS_ALONE
        future: Future[Any] = Future(executor=None if is_ours else self.pool)
        call.await_in_future(future, self._finish)
        call.charged_bytes = size if is_user_work else -1
        # Only users' calls wait: answers, gradients and clean-up are what frees the room.
        if is_user_work and not peer.credit.take(size, call.deadline):
            call.was_not_sent()
            raise call.timeout_error()
        if call.envelope.message_type not in NOT_COUNTED:
            self._counts.call_sent(peer.info.name, size)
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
            self.write(call)
        except Exception as error:
            if peer.pipe.take_pending(call.message_id) is not None:
                undo(call)
                call.end(None, fresh(error))
        if len(call.frames) > 1:
            # Not to be sent again: further frames are the caller's own memory, which it may change
            # from here on.
            call.frames = ()
        return future

    def _finish(self, call: Call, received_bytes: int, failed: bool) -> None:
        if call.deadline is not None:
            self._forget_deadline(call)
        if call.charged_bytes >= 0:
            call.peer.credit.give_back(call.charged_bytes)
        if call.lent_bytes:
            call.take_back()
        if call.envelope.message_type not in NOT_COUNTED:
            self._counts.call_ended(call.peer.info.name, received_bytes, failed=failed)

    def _forget_deadline(self, call: Call) -> None:
        self._expiring.pop(call.message_id, None)
        self.timeouts.remove(call.message_id)

    def _expire(self, message_ids: list[int]) -> None:
        for message_id in message_ids:
            call = self._expiring.get(message_id)
            # Once it is taken out its id is unknown: a late answer is dropped.
            if call is not None and call.peer.pipe.take_pending(message_id) is not None:
                call.peer.pipe.notify(_cancel(call))
                call.end(None, call.timeout_error())
                self._give_up(call)

    def _give_up(self, call: Call) -> None:
        if call.envelope.effective_type in MAY_BRING_REFERENCES:
            self.gave_up(call)

    def _wait_on_lane(self, call: Call, own: OwnLane, size: int) -> Any:
        peer, failed, broken, is_sent = call.peer, True, True, False
        received_bytes = 0
        self._counts.call_sent(peer.info.name, size)
        hand_on_lead()
        try:
            if own.greeting is not None:
                own.lane.send(own.greeting, call.deadline)
                own.greeting = None
            own.lane.send(call.frames, call.deadline)
            is_sent = True
            answer, received_bytes = receive_answer(call, own, call.deadline)
            broken = answer.message_id == NO_CALL
            if broken:
                undo(call)  # the peer does not know this worker, and has not taken the call in
            value = open_answer(answer, call)
            failed = False
            return value
        except LaneTimeout:
            broken = False
            if is_sent:
                own.num_late += 1
                own.lane.try_send(_cancel(call))
            else:
                undo(call)
            raise call.timeout_error() from None
        except LaneClosed:
            raise self._lost_error(own, call) from None
        except GivenUpError as error:
            if broken:
                peer.refuse_and_wait(error)
            raise
        finally:
            if size > _UNCHARGED_BYTES:
                peer.credit.give_back(size)
            peer.pipe.check_in(own, broken=broken)
            if call.lent_bytes:
                call.take_back()
            if is_sent and not received_bytes:
                self._give_up(call)
            self._counts.call_ended(peer.info.name, received_bytes, failed=failed)

    def _lost_error(self, own: OwnLane, call: Call) -> Exception:
        error = call.peer.pipe.error
        if error is None:
            error = WorkerLostError(f"the lane of {call.describe()} was closed")
        return fresh(error)


def _cancel(call: Call) -> list[Buffer]:
    return Message(MessageType.CANCEL, call.message_id).encode()


def _complete(call: Call, answer: Message, size: int) -> None:
    try:
        value = open_answer(answer, call)
    except BaseException as error:
        call.end(None, error, size)
    else:
        call.end(value, None, size)
