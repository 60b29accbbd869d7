"""The calling side of the agent: sends requests, waits on lanes, completes Futures."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from fastdist.concurrency.future import Future, InternalFuture
from fastdist.concurrency.thread_pool import ThreadPool
from fastdist.core.device import Device
from fastdist.core.errors import RpcError, RpcNotRunningError, RpcTimeoutError
from fastdist.distributed.pipe.frames import Buffer
from fastdist.tensor.tensor import Tensor

from ..debug_log import debug_log
from ..handlers import Reply
from ..message.body import reads_plainly
from ..message.ids import RANK_SHIFT
from ..message.layout import NO_CALL, PICKLE
from ..message.message import Message
from ..message.metadata import Value
from ..message.tensors import arrival_of
from ..message.types import NOT_COUNTED, OURS_ALONE, TOLD_IF_GIVEN_UP, USER_WORK, MessageType
from ..metrics import CallCounts
from ..workers.worker import Worker
from ..workers.workers import Workers
from .outgoing import Call, FutureCall, LaneCall, open_answer, pack_request

# Blocking callers are few, so their requests use credit only if they are larger than this.
_UNCHARGED_BYTES: Final = 64 << 10
_RETRY_FIRST_S: Final = 1.0
_RETRY_FACTOR: Final = 1.5


class Client:
    """Calls of this worker to all others.

    `gave_up(call)` is called for each call that ends without its answer, if the answer may contain
    references.

    Thread  any
    """

    def __init__(
        self,
        workers: Workers,
        pool: ThreadPool,
        counts: CallCounts,
        rpc_timeout_s: float,
        device_map_to: Callable[[Worker], Mapping[Device, Device]],
        gave_up: Callable[[Call], None],
    ) -> None:
        self._me, self.rank, self.name = workers.me, workers.me.rank, workers.me.name
        self.progress, self._timeouts = workers.progress, workers.progress.timeouts
        self.pool = pool
        # The timeout of calls with UNSET_RPC_TIMEOUT.
        self.rpc_timeout_s = rpc_timeout_s
        self.counts = counts
        self._reach = workers.reach
        self.device_map_to = device_map_to
        self._gave_up = gave_up
        self._numbers = itertools.count()
        # The five functions that users' calls go through: see RpcAgent.use_plain_calls.
        self.users: Any = None
        # Requests that wait to be sent again. Each set operation is atomic, so there is no lock.
        self.resends: set[Resend] = set()

    def end_resends(self, error: RpcError) -> None:
        """Stop all resends because this worker leaves: each waiting caller gets `error`."""
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
        """Send a request; the sender waits for the answer by calling `wait` on the result."""
        message = self.new_message(to, kind, (), metadata)
        call = LaneCall(self, message, timeout_s, what)
        if self._send_on_lane(call, value):
            return call
        return self.request(to, kind, value, (), metadata, timeout_s, what)

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
        """Send a request and return a Future of the answer's content.

        Units   timeout_s: 0 waits forever, UNSET_RPC_TIMEOUT takes the default
        """
        message = self.new_message(to, kind, tensors, metadata)
        call = FutureCall(self, message, timeout_s, kind._name_ if what is None else what)
        self.number(call)
        try:
            pack_request(call, value, self.device_map_to)
            frames = self.announce(call)
        except BaseException:
            call.peer.pipe.close_call(call.message.message_id)
            raise
        if frames:
            try:
                self.write(call, frames)
            except Exception as error:
                self.could_not_write(call, error)
        return call.future

    def send(
        self,
        to: Worker,
        kind: MessageType,
        tensors: Sequence[Tensor] = (),
        metadata: Mapping[str, Value] | None = None,
        timeout_s: float = 0.0,
        retries: int = 0,
    ) -> Future[Reply]:
        """Send a request to the handler of its type, and return a Future of its Reply.

        After a failure that leaves the worker alive, the request is sent again, up to `retries`
        times. The first pause is 1 s, and each further pause is 1.5 times as long. Use retries only
        for requests that may run twice.
        """
        request = (to, kind, None, tensors, metadata, timeout_s)
        if not retries:
            return self.request(*request)
        resend = Resend(self, request, retries)
        resend.send()
        return resend.outcome

    def send_direct(
        self,
        to: Worker,
        kind: MessageType,
        tensors: Sequence[Tensor] = (),
        metadata: Mapping[str, Value] | None = None,
    ) -> LaneCall | None:
        """Send a request whose answer the sender receives itself, without another thread.

        Return None, and send nothing, if no lane is free.
        """
        call = LaneCall(self, self.new_message(to, kind, tensors, metadata), 0.0, kind._name_)
        return call if self._send_on_lane(call, None) else None

    def write(self, call: FutureCall, frames: Sequence[Buffer]) -> None:
        """Send a request by the shared lane; FaultyClient overrides this method."""
        call.peer.pipe.shared().send(frames)

    def answer_came(self, call: FutureCall, answer: Message, size_bytes: int) -> None:
        """Decode an answer and end its call; do so in the pool if decoding may take long."""
        plainly = answer.encoding != PICKLE or reads_plainly(answer.body)
        if plainly or not self.pool.submit_uncounted(_complete, call, answer, size_bytes):
            _complete(call, answer, size_bytes)

    def new_message(
        self,
        to: int | Worker,
        kind: MessageType,
        tensors: Sequence[Tensor],
        metadata: Mapping[str, Value] | None,
    ) -> Message:
        """Connect with a worker if necessary, and return a new message to this worker."""
        me, filled = self._me, dict(metadata) if metadata else {}
        message = Message(kind, NO_CALL, self._reach(to, kind), me.rank, me.incarnation)
        message.tensors, message.metadata = list(tensors), filled
        return message

    def number(self, call: Call) -> None:
        """Set a call's id. The lane must be known, as ids increase on a blocking caller's lane.

        The pipe lists a call on lane 0 as open from now until the call ends.
        """
        pipe = call.peer.pipe if isinstance(call, FutureCall) else None
        call.message.message_id = self._new_id() if pipe is None else pipe.open_call(self._new_id)
        if debug_log.of_calls:
            debug_log.call(call.message, call.describe(), "begins")

    def _new_id(self) -> int:
        return self._me.rank << RANK_SHIFT | next(self._numbers)

    def _send_on_lane(self, call: LaneCall, value: Any) -> bool:
        """Send a call on a separate lane; return False, and do nothing, if none is free."""
        pipe = call.peer.pipe
        own = pipe.borrow_lane()
        if own is None:
            return False
        self.number(call)
        try:
            pack_request(call, value, self.device_map_to)
            size = call.size_bytes()
            # Only users' calls wait for credit: answers, gradients and clean-up messages must not,
            # because they release credit.
            if size > _UNCHARGED_BYTES and call.message.effective_type in USER_WORK:
                call.charge(size)
        except BaseException:
            pipe.return_lane(own)
            call.was_not_sent()
            raise
        call.send(own, size)
        return True

    def announce(self, call: FutureCall) -> Sequence[Buffer]:
        """Register a call as pending, and return the frames to write; none if the call has failed.

        Raises  RpcTimeoutError if the peer's credit is not free before the deadline
        """
        pipe, size = call.peer.pipe, call.size_bytes()
        kind = call.message.effective_type
        # Users' callbacks run in the pool. Internal callbacks run in the thread that reads the
        # answer: they are short, and must not be queued behind users' functions, because other
        # threads may wait for them.
        call.await_in(_future_of(kind, self.pool), self._timeouts)
        if kind in USER_WORK:
            try:
                call.charge(size)
            except RpcTimeoutError:
                call.was_not_sent()
                raise
        if call.message.type not in NOT_COUNTED:
            self.counts.call_sent(call, call.peer.info.name, size)
        frames = call.frames
        if len(frames) > 1:
            # Do not keep these frames for a resend: all but the first are the caller's own memory,
            # which the caller may change after this method returns. Clear `frames` before the send,
            # because a reconnect during the send may ask for them.
            call.frames = ()
        try:
            # Register the call before the send, as the answer may arrive before the send returns.
            pipe.add_pending(call.message.message_id, call)
        except Exception as error:
            call.message.undo_packing()
            call.fail(error)
            return ()
        if call.deadline is not None:
            if self._timeouts.add(call, call.deadline):
                self.progress.wake()
            if call.is_over:  # the connection broke in between
                self._timeouts.remove(call, call.deadline)
        return frames

    def could_not_write(self, call: FutureCall, error: Exception) -> None:
        """End a call that could not be sent, unless it has already ended."""
        if call.peer.pipe.take_pending(call.message.message_id) is not None:
            call.message.undo_packing()
            call.fail(error)

    def give_up(self, call: Call) -> None:
        """Report a call that may have run, but for which no thread waits any more."""
        if call.message.effective_type in TOLD_IF_GIVEN_UP:
            self._gave_up(call)


def _complete(call: FutureCall, answer: Message, size: int) -> None:
    try:
        value = open_answer(answer, call)
    except BaseException as error:
        # Drop this traceback: its frames refer to the call, which would refer to the error. Only
        # the garbage collector frees such a cycle. The error's notes have the callee's traceback.
        call.end(None, error.with_traceback(None), size)
    else:
        # See Note [Events in Futures].
        if answer.tensors and (follow := arrival_of(answer.tensors)) is not None:
            call.future.let_follow(follow)
        call.end(value, None, size)


def _future_of(kind: int, pool: ThreadPool) -> Future[Any]:
    """Return the Future for a call of a kind: a public one if users get the Future."""
    if kind in OURS_ALONE:
        return InternalFuture()
    return Future(executor=pool) if kind in USER_WORK else InternalFuture(executor=pool)


class Resend:
    """A request that is sent again until it succeeds, the worker dies, or no retries are left.

    The request may run twice.

    Note    the request is for one life of the worker, and is not sent to a later life
    """

    def __init__(self, client: Client, request: tuple[Any, ...], retries: int) -> None:
        executor = None if request[1] in OURS_ALONE else client.pool
        self.outcome: Future[Any] = InternalFuture(executor=executor)
        self._client = client
        self._request = request
        self._left = retries
        self._wait_s = _RETRY_FIRST_S

    def send(self) -> None:
        """Send the request again."""
        try:
            self._client.request(*self._request).add_done_callback(self._look_at)
        except Exception as error:
            self._again_or(error)

    def _look_at(self, done: Future[Any]) -> None:
        error = done.exception()
        if error is None:
            self.outcome.try_complete(done.value())
        else:
            self._again_or(error)

    def _again_or(self, error: BaseException) -> None:
        to = self._request[0]
        # Another try is useless if the worker's life is over, or if no call of this worker can
        # succeed any more.
        if self._left == 0 or to.is_dead or _ends_all(error):
            self.outcome.try_complete(error=error)
            return
        self._left -= 1
        debug_log.worker(
            self._client.rank,
            "%s to rank %d goes again in %.1f s, %d times at most: %s",
            *(self._request[1].name, to.id, self._wait_s, self._left + 1, error),
        )
        when = time.monotonic() + self._wait_s
        self._wait_s *= _RETRY_FACTOR
        progress, pool = self._client.progress, self._client.pool

        def resend() -> None:
            waiting.discard(self)
            if not pool.submit_uncounted(self.send):
                self.outcome.try_complete(error=error)

        waiting = self._client.resends
        waiting.add(self)
        progress.post(progress.call_at, when, resend)


def _ends_all(error: BaseException) -> bool:
    return not isinstance(error, RpcError) or isinstance(error, RpcNotRunningError)
