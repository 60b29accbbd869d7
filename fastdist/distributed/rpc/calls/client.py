"""The calling half of the agent: sends requests, waits on lanes, completes Futures."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from fastdist.core.errors import RpcError
from fastdist.core.future import Future
from fastdist.core.thread_pool import ThreadPool
from fastdist.distributed.pipe.frames import Buffer

from ..constants import UNSET_RPC_TIMEOUT
from ..debug_log import debug_log
from ..handlers import Reply
from ..message.body import reads_plainly
from ..message.error_parts import fresh
from ..message.layout import PICKLE
from ..message.message import Message
from ..message.types import NOT_COUNTED, OURS_ALONE, TOLD_IF_GIVEN_UP, USER_WORK, MessageType
from ..metrics import CallCounts
from .lane_call import LaneCall
from .outgoing import Call, open_answer, pack_request, undo
from .resend import Resend

if TYPE_CHECKING:
    from fastdist.core.device import Device
    from fastdist.tensor.tensor import Tensor

    from ..message.metadata import Value
    from ..workers.worker import Worker
    from ..workers.workers import Workers

# Callers that block are few: what they hold together is little where each holds little.
_UNCHARGED_BYTES: Final = 64 << 10


class Client:
    """Calls of this worker to all others.

    `gave_up(call)` is told of each call that may bring references, and is given up before its
    answer has come.

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
        self._me, self.rank = workers.me, workers.me.rank
        self.progress, self._timeouts = workers.progress, workers.progress.timeouts
        self.pool = pool
        # Of calls that are given UNSET_RPC_TIMEOUT.
        self.rpc_timeout_s = rpc_timeout_s
        self._counts = counts
        self._reach = workers.reach
        self._device_map_to = device_map_to
        self._gave_up = gave_up
        self._numbers = itertools.count()
        # Requests that wait to be sent once more. Entries come and go one at a time.
        self.resends: set[Resend] = set()

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
        """Send a request and return a Future of what the answer holds.

        Units   timeout_s: 0 waits for ever, UNSET_RPC_TIMEOUT takes the default
        """
        what = kind.name if what is None else what
        call = self._new_call(to, kind, list(tensors), metadata, timeout_s, what)
        return self._start(call, value)

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

        After a failure that leaves the worker alive the request goes again, up to `retries` times,
        1 s later at first and then half as long again each time; so only for what may run twice.
        """
        request = (to, kind, None, tensors, metadata, timeout_s)
        if not retries:
            return self.request(*request)
        resend = Resend(self, request, retries)
        resend.send()
        return resend.outcome

    def send_in_person(
        self,
        to: Worker,
        kind: MessageType,
        tensors: Sequence[Tensor] = (),
        metadata: Mapping[str, Value] | None = None,
    ) -> LaneCall | None:
        """Send a request whose sender takes the answer itself, without a hop between threads.

        None if no lane is free; nothing was sent then.
        """
        call = self._new_call(to, kind, list(tensors), metadata, 0.0, kind._name_)
        return self._begin_on_lane(call, None)

    def write(self, call: Call, frames: Sequence[Buffer]) -> None:
        """Let a request leave by the shared lane; what a faulty agent overrides."""
        call.peer.pipe.shared().send(frames)

    def answer_came(self, call: Call, answer: Message, size_bytes: int) -> None:
        """Read an answer, here or where it may take long, and end its call with that."""
        plainly = answer.encoding != PICKLE or reads_plainly(answer.body)
        if plainly or not self.pool.submit_uncounted(_complete, call, answer, size_bytes):
            _complete(call, answer, size_bytes)

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
        if timeout_s == UNSET_RPC_TIMEOUT:
            timeout_s = self.rpc_timeout_s
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
        return LaneCall(call, own, size, charged, self._counts, self.give_up)

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
        call.await_in_future(future, self)
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
            if self._timeouts.add(call, call.deadline):
                self.progress.wake()
            if call.is_over:  # a break was faster
                self._timeouts.remove(call)
        try:
            self.write(call, frames)
        except Exception as error:
            if peer.pipe.take_pending(call.message_id) is not None:
                undo(call)
                call.end(None, fresh(error))
        return future

    def finish(self, call: Call, received_bytes: int, *, failed: bool) -> None:
        """Give back what a call holds, and count its end."""
        if debug_log.of_calls:
            debug_log.call(call, "failed" if failed else "answered")
        if call.deadline is not None:
            self._timeouts.remove(call)
        if call.charged_bytes >= 0:
            call.peer.credit.give_back(call.charged_bytes)
        if call.lent_bytes:
            call.take_back()
        if call.message.type not in NOT_COUNTED:
            self._counts.call_ended(call.peer.info.name, received_bytes, failed=failed)

    def give_up(self, call: Call) -> None:
        """Take note that nobody waits any more for a call that may have come."""
        if call.message.effective_type in TOLD_IF_GIVEN_UP:
            self._gave_up(call)


def _complete(call: Call, answer: Message, size: int) -> None:
    try:
        value = open_answer(answer, call)
    except BaseException as error:
        call.end(None, error, size)
    else:
        call.end(value, None, size)
