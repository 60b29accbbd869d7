"""Calls that this worker makes: how they are packed, waited for, and ended."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from fastdist.concurrency.future import Future
from fastdist.concurrency.thread_pool import ThreadPool, hand_on_lead, lend_slot, take_slot_back
from fastdist.core.device import Device
from fastdist.core.errors import (
    GivenUpError,
    RpcError,
    RpcNotRunningError,
    RpcTimeoutError,
    TransformError,
    WorkerLostError,
)
from fastdist.distributed.pipe.frames import Buffer
from fastdist.distributed.pipe.lane import LaneClosed, LaneInDoubt, LaneTimeout
from fastdist.distributed.pipe.pipe import OwnLane

from .. import interceptors
from ..constants import UNSET_RPC_TIMEOUT
from ..debug_log import debug_log
from ..handlers import Reply
from ..message.error_parts import fresh
from ..message.layout import NO_CALL
from ..message.message import Message
from ..message.remote_errors import UNREAD, unpack_error
from ..message.types import NOT_COUNTED, WITH_VALUE, MessageType
from ..metrics import CallCounts
from ..torch_names.argument_errors import seconds
from ..workers.progress import Timeouts
from ..workers.reconciliation import Acknowledged, acknowledge, pack_query, read_result
from ..workers.stuck import Stuck, all_wait
from ..workers.worker import Worker


class _Serving(threading.local):
    """The request that this thread serves, which must end by `deadline`."""

    deadline: float | None = None


serving = _Serving()


class Caller(Protocol):
    """The client: it makes the calls of the worker `name`, and counts them."""

    name: str

    counts: CallCounts
    pool: ThreadPool
    rpc_timeout_s: float

    def answer_came(self, call: FutureCall, answer: Message, size_bytes: int) -> None:
        """Decode an answer, and end the call with the result."""

    def give_up(self, call: Call) -> None:
        """Report a call that may have run, but for which no thread waits any more."""


class Call:
    """A request under way: its message and its peer. Subclasses define how the call ends.

    Thread  created by the caller's thread
    """

    # The bytes of the peer's credit that the call holds; -1 if the call does not use credit.
    charged_bytes = -1
    # The frames of the request; empty when the request cannot be sent again.
    frames: Sequence[Buffer] = ()

    def __init__(self, client: Caller, message: Message, timeout_s: float, what: object) -> None:
        if timeout_s == UNSET_RPC_TIMEOUT:
            timeout_s = client.rpc_timeout_s
        self._client, self.message, self.peer = client, message, message.peer
        self.timeout_s, self.what = timeout_s, what
        # If this thread serves a request, the call must end when that request must end.
        self.deadline, self._timeout_ms = deadline_of(timeout_s)
        message.timeout_ms = min(self._timeout_ms, 0xFFFFFFFF)

    def size_bytes(self) -> int:
        """Return the bytes of the request."""
        return self.message.lent_bytes + sum(map(len, self.frames))

    def charge(self, size_bytes: int) -> None:
        """Take bytes of the peer's credit; wait for free credit until the call's deadline.

        Raises  RpcTimeoutError
        """
        if not self.peer.credit.take(size_bytes, self.deadline):
            raise self.timeout_error()
        self.charged_bytes = size_bytes

    def was_not_sent(self) -> None:
        """Undo the effects of packing the request."""
        self.message.undo_packing()
        self._take_back()

    def frames_again(self) -> Sequence[Buffer]:
        """Return the frames of a request that never arrived; no frames if they were not kept."""
        frames = self.frames
        if not frames or not self.message.lent_bytes:
            return frames
        lender = self.peer.lender
        is_kept = lender is not None and lender.renew_if_untaken(self.message.message_id)
        return frames if is_kept else ()

    def was_taken(self) -> bool:
        """Return whether the peer may have received the request and used the memory lent for it."""
        return bool(self.message.lent_bytes)

    def describe(self) -> str:
        """Return the name of the called function and of the callee, for errors."""
        what = self.what
        name = getattr(what, "__qualname__", None) or str(what)
        return f"{name} on worker {self.peer.info.name!r} (rank {self.peer.info.id})"

    def timeout_error(self) -> RpcTimeoutError:
        """Return the error of a call that reached its timeout."""
        if debug_log.of_calls:
            debug_log.call(self.message, self.describe(), "timed out")
        return RpcTimeoutError(
            f"RPC ran for more than set timeout ({self._timeout_ms} ms) and will now be "
            f"marked with an error: {self.describe()}; {self._limit_from_outside()}"
            f"{self._why_late()}"
        )

    def _limit_from_outside(self) -> str:
        own_ms = whole_ms(self.timeout_s)
        if own_ms == self._timeout_ms:
            return ""
        own = f"its own timeout is {own_ms} ms" if own_ms else "it has no timeout itself"
        around = f"the call in which worker {self._client.name!r} made it"
        return f"{around} had no more time left ({own}); "

    def _why_late(self) -> str:
        stuck = self.peer.stuck
        if not stuck.is_recent:
            stuck = Stuck(self._client.name, self._client.pool.num_stuck(), time.monotonic())
        if not stuck.num_threads:
            return "raise timeout=, or check what keeps it busy there"
        return (
            f"{all_wait(stuck)}none is left for calls of others: raise num_worker_threads= there, "
            "or nest calls less deep"
        )

    def abandon(self) -> None:
        """End a call that an outer frame of this thread makes, sends or waits for."""

    def lost_error(self, *, may_have_run: bool) -> WorkerLostError:
        """Return the error of a lost call; if it has not run, undo the packing of its request."""
        if not may_have_run:
            self.message.undo_packing()
        what = "its answer is lost, and it has run" if may_have_run else "it has not run"
        return WorkerLostError(
            f"the connection to worker {self.peer.info.name!r} (rank {self.peer.info.id}) broke "
            f"and came back during {self.describe()}: {what}",
            may_have_run=may_have_run,
        )

    def cancel(self) -> list[Buffer]:
        """Return the notice to the callee that the caller has given the call up."""
        return Message(MessageType.CANCEL, self.message.message_id).encode()

    def _settle(self, received_bytes: int, *, failed: bool) -> None:
        """Release everything that the call holds, and update the counts of calls."""
        if debug_log.of_calls:
            debug_log.call(self.message, self.describe(), "failed" if failed else "answered")
        if self.charged_bytes >= 0:
            self.peer.credit.give_back(self.charged_bytes)
        if self.message.lent_bytes:
            self._take_back()
        if self.message.type not in NOT_COUNTED:
            self._client.counts.call_ended(self, self.peer.info.name, received_bytes, failed=failed)

    def _take_back(self) -> None:
        """After the call's end, take back lent memory that the peer has not taken."""
        if self.peer.lender is not None:
            self.peer.lender.end(self.message.message_id)


class FutureCall(Call):
    """A call on the shared lane, which ends in a Future.

    Thread  ended once, by the thread that removes it from the pipe's pending calls: an answer, a
            timeout and a broken connection may coincide
    """

    is_over = False

    def await_in(self, future: Future[Any], timeouts: Timeouts) -> None:
        """Set the Future in which the call ends, and the table that keeps its deadline."""
        self.future, self._timeouts = future, timeouts

    def end(self, value: object, error: BaseException | None, received_bytes: int = 0) -> None:
        """Complete the Future."""
        self.is_over = True
        if self.deadline is not None:
            self._timeouts.remove(self, self.deadline)
        self._settle(received_bytes, failed=error is not None)
        future = self.future
        future.try_complete(value, error)
        if error is not None:
            if isinstance(error, RpcNotRunningError):
                future.was_read()  # the callers know that this worker has ended RPC
            else:
                future.describe_failure(f"the call {self.describe()}")

    def answered(self, answer: Message, frames: Sequence[Buffer]) -> None:
        """Process the answer that came on lane 0."""
        self._client.answer_came(self, answer, bytes_of(answer, frames))

    def fail(self, error: Exception) -> None:
        """End the call with the pipe's error."""
        self.end(None, fresh(error))

    def lost(self, *, may_have_run: bool) -> None:
        """End a call that was lost with a connection, or whose answer was lost."""
        self.end(None, self.lost_error(may_have_run=may_have_run))
        self._client.give_up(self)

    def abandon(self) -> None:
        """End a call that was not sent, or only in part, unless the call has already ended."""
        if self.peer.pipe.take_pending(self.message.message_id) is not None:
            self.end(None, _interrupted(self))
        self._client.counts.forget(self)

    def expire(self) -> None:
        """End the call at its deadline, unless it has already ended."""
        # Once the call is removed, its id is unknown, so a late answer is dropped.
        if self.peer.pipe.take_pending(self.message.message_id) is not None:
            self.peer.pipe.notify(self.cancel())
            self.end(None, self.timeout_error())
            self._client.give_up(self)


ASK_EVERY_S: Final = 2.0
# An answer above this size is acknowledged immediately: the callee keeps the answer until then.
_ACKNOWLEDGED_BYTES: Final = 32 << 10


class LaneCall(Call):
    """A call that ends in the thread that waits for it; that thread receives the answer itself.

    After `send`, one of `wait`, `result` and `give_up` must end it.

    Thread  one at a time
    """

    _answer: Message | None = None
    _size = 0
    _error: Exception | None = None
    # Whether the callee keeps a large answer until this worker acknowledges it.
    _is_kept = False
    # Whether the lane must be closed, because messages of this call may still arrive on it.
    _is_broken = False
    _is_sent = _is_over = _is_abandoned = False
    _asked_at = 0.0

    def send(self, own: OwnLane, size_bytes: int) -> None:
        """Send the request; an error of the lane is raised later, by `result`."""
        self._own = own
        self._client.counts.call_sent(self, self.peer.info.name, size_bytes)
        hand_on_lead()
        try:
            if self.peer.pipe.error is not None:
                # A shutdown that ended before this call was counted did not wait for it. The peer
                # may still be up, but must not run the call.
                self.message.undo_packing()
                raise LaneClosed
            if own.greeting is not None:
                own.send_greeting(self.deadline)
            own.lane.send(self.frames, self.deadline)
            self._is_sent = True
        except LaneTimeout:
            self.message.undo_packing()
            self._error = self.timeout_error()
        except LaneClosed:
            self._is_broken, self._error = True, self._closed_error()
        except BaseException as error:
            # Close the lane: its next message would be read as the rest of this message.
            self._break_off(error)
            raise

    def has_come(self, timeout_s: float | None) -> bool:
        """Return whether the answer, or an error, has come; wait at most timeout_s."""
        if self._answer is not None or self._error is not None:
            return True
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        hand_on_lead()
        try:
            self._receive(deadline)
        except LaneTimeout:
            # Short waits end before the lane raises LaneInDoubt, so query the peer here.
            now = time.monotonic()
            self._asked_at = self._asked_at or now
            if now - self._asked_at >= ASK_EVERY_S:
                self._asked_at = now
                self._ask()
            return False
        return True

    def wait(self) -> Any:
        """Wait for the answer until the call's deadline, and return its content.

        Raises  the callee's error; RpcTimeoutError; WorkerLostError
        """
        if self._answer is None and self._error is None:
            try:
                self._receive(self.deadline)
            except LaneTimeout:
                # The connection may be a new one, on which the peer needs a greeting first.
                self._own.lane.try_send(self._own.greet())
                self._own.lane.try_send(self.cancel())
                self._error = self.timeout_error()
            except BaseException as error:
                self._break_off(error)
                raise
        return self.result()

    def result(self) -> Any:
        """Return the value of the received answer, after interceptors have processed its tensors.

        Raises  the callee's error; WorkerLostError
        """
        answer, failed = self._answer, True
        is_refused = answer is not None and answer.message_id == NO_CALL
        try:
            if answer is None:
                raise self._take_error()
            if is_refused:
                # The peer does not know this worker, and has not accepted the call.
                self.message.undo_packing()
            value = open_answer(answer, self)
            failed = False
            return value
        except GivenUpError as error:
            if is_refused:
                self.peer.refuse_and_wait(error)
            raise
        finally:
            self._is_broken |= is_refused
            self._end(failed=failed)

    def give_up(self) -> None:
        """End the call without its answer; do nothing if the call has ended."""
        # The lane stays usable: a late answer is dropped.
        self._end(failed=True)

    def abandon(self) -> None:
        """End the call without an answer, and close its lane, which an outer frame may use."""
        self._is_broken = self._is_abandoned = True
        if hasattr(self, "_own"):
            self._end(failed=True)
        self._client.counts.forget(self)

    def _break_off(self, error: BaseException) -> None:
        self._is_broken = True
        self._end(failed=True)
        if self._is_abandoned and isinstance(error, (ValueError, OSError)):
            # A shutdown in a signal handler has closed the lane while this call used it.
            raise _interrupted(self) from None

    def _receive(self, deadline: float | None) -> None:
        lent = lend_slot()
        try:
            self._answer, self._size = self._receive_answer(deadline)
        except LaneClosed:
            self._is_broken, self._error = True, self._closed_error()
        except RpcError as error:
            self._is_broken, self._error = True, error
        finally:
            if lent is not None:
                take_slot_back(lent)

    def _receive_answer(self, deadline: float | None) -> tuple[Message, int]:
        """Return the answer, or the peer's refusal of the greeting, and the message's size.

        After a reconnect, query the peer about the call, and send the request again if it was lost.

        Raises  LaneTimeout, LaneClosed; WorkerLostError if the answer is lost
        """
        own = self._own
        while True:
            try:
                frames = own.lane.receive(deadline)
            except LaneInDoubt:
                self._ask()
                continue
            answer = self.peer.decode(frames)
            if answer.message_id == self.message.message_id:
                if answer.type != MessageType.GREET_FIRST:
                    if len(frames) == 1 and len(frames[0]) > _ACKNOWLEDGED_BYTES:
                        self._is_kept = True
                    return answer, bytes_of(answer, frames)
                self._ask()
            elif answer.message_id == NO_CALL:
                if answer.type != MessageType.RECONCILED:
                    return answer, bytes_of(answer, frames)
                serial, never_came, gone = read_result(answer)
                if serial != own.serial:
                    continue
                own.serial += 1  # a late copy of this result must not match a call sent later
                if self.message.message_id in never_came:
                    again = self.frames_again()
                    if not again:
                        raise self.lost_error(may_have_run=self.was_taken())
                    own.lane.send(again, deadline)
                elif self.message.message_id in gone:
                    raise self.lost_error(may_have_run=True)
            # Any other answer belongs to an earlier call that timed out: drop it.

    def _ask(self) -> None:
        """Send the greeting again, and query the peer about the state of the call."""
        own = self._own
        own.serial += 1
        # If the greeting cannot be sent now, the connection has broken again, and its repair will
        # cause another query.
        if own.lane.try_send(own.greet()):
            own.lane.try_send(pack_query(own.serial, [self.message.message_id]))

    def _acknowledge(self) -> None:
        """Notify the callee that it may drop the answer. See Note [Answers that are kept]."""
        read = Acknowledged(0, self.message.message_id + 1)
        try:
            self._own.lane.try_send(acknowledge(read))
        except Exception:  # the answer is here; the next call handles an error of the lane
            self._is_broken = True

    def _closed_error(self) -> Exception:
        closed = WorkerLostError(f"the lane of {self.describe()} was closed")
        return fresh(self.peer.pipe.error or closed)

    def _take_error(self) -> Exception:
        # Do not keep an error that is raised: its traceback would keep this call alive.
        error, self._error = self._error, None
        assert error is not None, "neither an answer nor an error has come yet"
        return error

    def _end(self, *, failed: bool) -> None:
        if self._is_over:
            return
        self._is_over = True
        if self._is_kept and not self._is_broken:
            self._acknowledge()
        self.peer.pipe.return_lane(self._own, broken=self._is_broken)
        if self._is_sent and not self._size:
            self._client.give_up(self)
        self._settle(self._size, failed=failed)


def _interrupted(call: Call) -> RpcNotRunningError:
    return RpcNotRunningError(f"{call.describe()} was interrupted by a shutdown of this worker")


def deadline_of(timeout_s: float) -> tuple[float | None, int]:
    """Return the deadline of a call with this timeout, and the milliseconds until then; None and 0
    for no limit. A call that a served request makes must end before the request's deadline.
    """
    outer = serving.deadline
    timeout_ms = whole_ms(timeout_s)
    if outer is None:
        return (time.monotonic() + timeout_ms / 1000, timeout_ms) if timeout_ms else (None, 0)
    now = time.monotonic()
    deadline = min(outer, now + timeout_ms / 1000) if timeout_ms else outer
    return deadline, max(1, round((deadline - now) * 1000))


@functools.lru_cache(256, typed=True)
def whole_ms(timeout_s: float) -> int:
    """Return a timeout in whole milliseconds, rounded down; at least 1 unless it is 0.

    Raises  TypeError for a value that is not a number, ValueError for a negative number
    """
    timeout_s = seconds("timeout", timeout_s)
    # The small addend is for floats such as 0.57: 1000 * 0.57 is slightly below 570.
    return max(1, int(timeout_s * 1000 + 1e-6)) if timeout_s > 0 else 0


def pack_request(
    call: Call,
    value: Any,
    device_map_to: Callable[[Worker], Mapping[Device, Device]] | None = None,
) -> None:
    """Pack a call and set its frames; without `device_map_to` the frames are made later.

    `value` is (function, args, kwargs) for message types that carry a call, else None.

    Raises  RpcError for a value that cannot be pickled; MessageError if the message exceeds the
            wire's limits; DeviceError; TransformError inside a transform that cannot continue on
            another worker
    """
    message, peer = call.message, call.peer
    try:
        if value is not None:
            message.pack(value)
        interceptors.request_out(message)
        if device_map_to is not None:
            call.frames = message.encode(peer.lender, device_map_to, limits=peer.record.limits)
            message.body = b""  # the frames contain it
    except BaseException as error:
        message.undo_packing()
        if isinstance(error, TransformError):
            raise TransformError(f"rpc: {call.describe()}: {error}") from None
        raise


def open_answer(answer: Message, call: Call) -> Any:
    """Return an answer's content: the function's result, or a handler's Reply.

    Raises  the callee's error, with its type if this worker has that type
    """
    request = call.message
    if request.undo_steps and answer.metadata.get(UNREAD):
        request.undo_packing()
    elif request.delivery_steps:
        request.confirm_delivery()
    if answer.type == MessageType.EXCEPTION:
        raise unpack_error(answer)
    if answer.is_bare and (answer.type in WITH_VALUE or not answer.entries):
        # No interceptor has added anything to this answer.
        if answer.type not in WITH_VALUE:
            return Reply([], {})
        if answer.entries:
            answer.open_leaves()
        return answer.value()
    answer.open()
    interceptors.response_in(answer, request)
    answer.make_leaves()
    if answer.effective_type in WITH_VALUE:
        return answer.value()
    return Reply(answer.tensors, answer.metadata)


def bytes_of(message: Message, frames: Sequence[Buffer]) -> int:
    """Return the size of a received message, including its data in shared memory."""
    if not message.buffers:
        return len(frames[0])
    return max(sum(map(len, frames)), message.size_bytes())
