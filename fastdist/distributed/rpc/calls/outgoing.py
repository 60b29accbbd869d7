"""Calls that this worker makes: how they are packed, waited for, and how they end."""

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
    """A request that this thread serves: `deadline` is when it ends."""

    deadline: float | None = None


serving = _Serving()


class Caller(Protocol):
    """The client of the worker by this name: makes calls, and keeps account of them."""

    name: str

    counts: CallCounts
    pool: ThreadPool
    rpc_timeout_s: float

    def answer_came(self, call: FutureCall, answer: Message, size_bytes: int) -> None:
        """Read an answer, and end its call with that."""

    def give_up(self, call: Call) -> None:
        """Take note that nobody waits any more for a call that may have come."""


class Call:
    """A request under way: its message and its peer. Its class defines how it ends.

    Thread  made by the caller
    """

    # The bytes of the peer's credit that the call holds; -1 if it needs none.
    charged_bytes = -1
    # Frames of the request; none once it cannot be sent again.
    frames: Sequence[Buffer] = ()

    def __init__(self, client: Caller, message: Message, timeout_s: float, what: object) -> None:
        if timeout_s == UNSET_RPC_TIMEOUT:
            timeout_s = client.rpc_timeout_s
        self._client, self.message, self.peer = client, message, message.peer
        self.timeout_s, self.what = timeout_s, what
        # The milliseconds are those that the call in which this one is made leaves to it.
        self.deadline, self._timeout_ms = deadline_of(timeout_s)
        message.timeout_ms = min(self._timeout_ms, 0xFFFFFFFF)

    def size_bytes(self) -> int:
        """Return the bytes of the request."""
        return self.message.lent_bytes + sum(map(len, self.frames))

    def charge(self, size_bytes: int) -> None:
        """Take so much of the peer's credit; wait for it, until the call's deadline.

        Raises  RpcTimeoutError
        """
        if not self.peer.credit.take(size_bytes, self.deadline):
            raise self.timeout_error()
        self.charged_bytes = size_bytes

    def was_not_sent(self) -> None:
        """Undo what packing the request did."""
        self.message.undo_packing()
        self._take_back()

    def frames_again(self) -> Sequence[Buffer]:
        """Return the frames of a request that never came; none if it is not here any more."""
        frames = self.frames
        if not frames or not self.message.lent_bytes:
            return frames
        lender = self.peer.lender
        is_kept = lender is not None and lender.renew_if_untaken(self.message.message_id)
        return frames if is_kept else ()

    def was_taken(self) -> bool:
        """Return whether memory that the request lends may have been taken: then it did come."""
        return bool(self.message.lent_bytes)

    def describe(self) -> str:
        """Return the name and the worker of the call, for errors."""
        what = self.what
        name = getattr(what, "__qualname__", None) or str(what)
        return f"{name} on worker {self.peer.info.name!r} (rank {self.peer.info.id})"

    def timeout_error(self) -> RpcTimeoutError:
        """Return the error of a call that ran for too long."""
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
        """Return the error where a broken connection took the call, before or after it had run."""
        if not may_have_run:
            self.message.undo_packing()
        what = "its answer is lost, and it has run" if may_have_run else "it has not run"
        return WorkerLostError(
            f"the connection to worker {self.peer.info.name!r} (rank {self.peer.info.id}) broke "
            f"and came back during {self.describe()}: {what}",
            may_have_run=may_have_run,
        )

    def cancel(self) -> list[Buffer]:
        """Return the notice that the caller has given the call up."""
        return Message(MessageType.CANCEL, self.message.message_id).encode()

    def _settle(self, received_bytes: int, *, failed: bool) -> None:
        """Give back what the call holds, and count its end."""
        if debug_log.of_calls:
            debug_log.call(self.message, self.describe(), "failed" if failed else "answered")
        if self.charged_bytes >= 0:
            self.peer.credit.give_back(self.charged_bytes)
        if self.message.lent_bytes:
            self._take_back()
        if self.message.type not in NOT_COUNTED:
            self._client.counts.call_ended(self, self.peer.info.name, received_bytes, failed=failed)

    def _take_back(self) -> None:
        """Take back what was lent and not taken: the call is over."""
        if self.peer.lender is not None:
            self.peer.lender.end(self.message.message_id)


class FutureCall(Call):
    """A call by the shared lane, which ends in a Future.

    Thread  ended once, by whoever takes it out of the pipe's pending calls: an answer, a timeout
            and a break may come at once
    """

    is_over = False

    def await_in(self, future: Future[Any], timeouts: Timeouts) -> None:
        """Let the call end in a Future; its deadline, if it has one, is among the timeouts."""
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
                future.was_read()  # this worker has ended RPC: whoever did that knows
            else:
                future.describe_failure(f"the call {self.describe()}")

    def answered(self, answer: Message, frames: Sequence[Buffer]) -> None:
        """Take the answer that came on lane 0."""
        self._client.answer_came(self, answer, bytes_of(answer, frames))

    def fail(self, error: Exception) -> None:
        """End the call with the pipe's error."""
        self.end(None, fresh(error))

    def lost(self, *, may_have_run: bool) -> None:
        """End a call that a broken connection took, or the answer of which."""
        self.end(None, self.lost_error(may_have_run=may_have_run))
        self._client.give_up(self)

    def abandon(self) -> None:
        """End a call that was not sent, or only in part, unless something else has."""
        if self.peer.pipe.take_pending(self.message.message_id) is not None:
            self.end(None, _interrupted(self))
        self._client.counts.forget(self)

    def expire(self) -> None:
        """End the call, whose time is over, unless something else has."""
        # Once it is taken out its id is unknown: a late answer is dropped.
        if self.peer.pipe.take_pending(self.message.message_id) is not None:
            self.peer.pipe.notify(self.cancel())
            self.end(None, self.timeout_error())
            self._client.give_up(self)


ASK_EVERY_S: Final = 2.0
# A larger answer is acknowledged at once: the callee keeps it until then, one for each lane.
_ACKNOWLEDGED_BYTES: Final = 32 << 10


class LaneCall(Call):
    """Ends in the thread that waits for it, to which the answer comes with no hop.

    Once it was sent, it must be ended by `wait`, `result` or `give_up`.

    Thread  one at a time
    """

    _answer: Message | None = None
    _size = 0
    _error: Exception | None = None
    # Whether the callee keeps a large answer until that is acknowledged.
    _is_kept = False
    # Whether the lane cannot be used again: nobody knows what it will bring.
    _is_broken = False
    _is_sent = _is_over = _is_abandoned = False
    _asked_at = 0.0

    def send(self, own: OwnLane, size_bytes: int) -> None:
        """Send the request; errors of the lane are raised to the waiter."""
        self._own = own
        self._client.counts.call_sent(self, self.peer.info.name, size_bytes)
        hand_on_lead()
        try:
            if self.peer.pipe.error is not None:
                # A shutdown that ended before the call was counted has not waited for it: the peer,
                # which may still answer, must not run it.
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
            # A partly sent message would be read as the beginning of the next.
            self._break_off(error)
            raise

    def has_come(self, timeout_s: float | None) -> bool:
        """Return whether the answer, or an error, is there; after timeout_s at the latest."""
        if self._answer is not None or self._error is not None:
            return True
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        hand_on_lead()
        try:
            self._receive(deadline)
        except LaneTimeout:
            # A wait in short steps would never let the lane time out itself.
            now = time.monotonic()
            self._asked_at = self._asked_at or now
            if now - self._asked_at >= ASK_EVERY_S:
                self._asked_at = now
                self._ask()
            return False
        return True

    def wait(self) -> Any:
        """Wait for the answer, until the call's deadline, and return what it holds.

        Raises  the callee's error; RpcTimeoutError; WorkerLostError
        """
        if self._answer is None and self._error is None:
            try:
                self._receive(self.deadline)
            except LaneTimeout:
                # The connection may be a new one, which the peer reads only after a greeting.
                self._own.lane.try_send(self._own.greet())
                self._own.lane.try_send(self.cancel())
                self._error = self.timeout_error()
            except BaseException as error:
                self._break_off(error)
                raise
        return self.result()

    def result(self) -> Any:
        """Return the value of the answer, which has come; its tensors have passed the interceptors.

        Raises  the callee's error; WorkerLostError
        """
        answer, failed = self._answer, True
        is_refused = answer is not None and answer.message_id == NO_CALL
        try:
            if answer is None:
                raise self._take_error()
            if is_refused:
                # The peer does not know this worker, and has not taken the call in.
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
        """Do without the answer; nothing happens if it was taken."""
        # Not broken: what comes late is dropped.
        self._end(failed=True)

    def abandon(self) -> None:
        """Do without the answer, and without the lane, which an outer frame of this thread uses."""
        self._is_broken = self._is_abandoned = True
        if hasattr(self, "_own"):
            self._end(failed=True)
        self._client.counts.forget(self)

    def _break_off(self, error: BaseException) -> None:
        self._is_broken = True
        self._end(failed=True)
        if self._is_abandoned and isinstance(error, (ValueError, OSError)):
            # A shutdown by the handler of a signal has closed what was in use.
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
        """Return the answer, or the refusal of the greeting, and its size. After a reconnect the
        peer is queried about the call, and a lost one is sent again.

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
                own.serial += 1  # a late copy of this answer must not match a call sent since
                if self.message.message_id in never_came:
                    again = self.frames_again()
                    if not again:
                        raise self.lost_error(may_have_run=self.was_taken())
                    own.lane.send(again, deadline)
                elif self.message.message_id in gone:
                    raise self.lost_error(may_have_run=True)
            # Else it answers a call that timed out, whose caller has got the error.

    def _ask(self) -> None:
        """Greet again, and ask what became of the call."""
        own = self._own
        own.serial += 1
        # A query that cannot be sent now is useless: the connection has broken again.
        if own.lane.try_send(own.greet()):
            own.lane.try_send(pack_query(own.serial, [self.message.message_id]))

    def _acknowledge(self) -> None:
        """Let the callee forget the answer. See Note [Answers that are kept]."""
        read = Acknowledged(0, self.message.message_id + 1)
        try:
            self._own.lane.try_send(acknowledge(read))
        except Exception:  # the answer has come: the next call handles the lane's error
            self._is_broken = True

    def _closed_error(self) -> Exception:
        closed = WorkerLostError(f"the lane of {self.describe()} was closed")
        return fresh(self.peer.pipe.error or closed)

    def _take_error(self) -> Exception:
        # An error that is raised must not be kept here: it would keep this call alive.
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
    """Return when a call with this timeout ends, and the milliseconds until then, or None and 0.

    A call inside a call ends with the outer one.
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
    """Return a timeout in whole milliseconds: the rest is dropped, but none becomes 0.

    Raises  TypeError for a value that is not a number, ValueError for a negative one
    """
    timeout_s = seconds("timeout", timeout_s)
    # The small addend is for floats such as 0.57, whose product with 1000 lies just below 570.
    return max(1, int(timeout_s * 1000 + 1e-6)) if timeout_s > 0 else 0


def pack_request(
    call: Call,
    value: Any,
    device_map_to: Callable[[Worker], Mapping[Device, Device]] | None = None,
) -> None:
    """Pack a call and fill in its frames, which without device_map_to are made later; value is
    (function, args, kwargs) where its type asks for it.

    Raises  RpcError for what does not pickle; MessageError beyond the wire's limits; DeviceError;
            TransformError where it is called in what does not go on there
    """
    message, peer = call.message, call.peer
    try:
        if value is not None:
            message.pack(value)
        interceptors.request_out(message)
        if device_map_to is not None:
            call.frames = message.encode(peer.lender, device_map_to, limits=peer.record.limits)
            message.body = b""  # the frames have it
    except BaseException as error:
        message.undo_packing()
        if isinstance(error, TransformError):
            raise TransformError(f"rpc: {call.describe()}: {error}") from None
        raise


def open_answer(answer: Message, call: Call) -> Any:
    """Return an answer's content: the function's result, or a handler's Reply.

    Raises  the callee's error, with its type where that exists here
    """
    request = call.message
    if request.undo_steps and answer.metadata.get(UNREAD):
        request.undo_packing()
    elif request.delivery_steps:
        request.confirm_delivery()
    if answer.type == MessageType.EXCEPTION:
        raise unpack_error(answer)
    if answer.is_bare and (answer.type in WITH_VALUE or not answer.entries):
        # Nothing that an interceptor could take off.
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
    """Return how much a message that came was, what came by shared memory included."""
    if not message.buffers:
        return len(frames[0])
    return max(sum(map(len, frames)), message.size_bytes())
