"""A request that came in: how it is run, and how it is answered."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple, Protocol

from fastdist.core.device import Device
from fastdist.core.errors import MessageError, RpcTimeoutError
from fastdist.core.future import Future
from fastdist.distributed.pipe.frames import Buffer
from fastdist.distributed.pipe.listener import Route

from .. import interceptors
from ..debug_log import debug_log
from ..handlers import Reply, ValueReply, handler_of
from ..message.body import must_be_read
from ..message.layout import INLINE_BYTES
from ..message.message import Message
from ..message.remote_errors import UNREAD, pack_error
from ..message.types import CALLS, NOT_COUNTED, RESPONSE_OF, USER_WORK, MessageType
from ..metrics import CallCounts
from ..workers.received_calls import CallerLane
from ..workers.record import Record
from ..workers.worker import Worker
from .outgoing import serving

_logger = logging.getLogger(__name__)


class Later(NamedTuple):
    """What a function of this package returns to say that its Future is the answer."""

    future: Future[Any]


class Host(Protocol):
    """What a request needs of the server that took it in."""

    me: Record
    counts: CallCounts

    def reply(self, route: Route, frames: Sequence[Buffer]) -> bool:
        """Send an answer; False if its connection is gone."""


class Incoming:
    """A request, where its answer goes, and until when it is wanted.

    Thread  run once, by one thread; answered by that one, or by the one that ends its Future
    """

    sent_bytes = 0

    def __init__(
        self, server: Host, lane: CallerLane, message: Message, received_bytes: int
    ) -> None:
        self.server = server
        self.lane = lane
        self.caller = lane.caller
        self.message = message
        # Not who the message says that it comes from, but who has greeted by its connection.
        message.peer = lane.caller
        self.received_bytes = received_bytes
        timeout_ms = message.timeout_ms
        self.deadline = time.monotonic() + timeout_ms / 1000 if timeout_ms else None

    def run(self) -> None:
        """Run the request, and answer it: now, or when its Future is done."""
        message = self.message
        if self.deadline is not None and time.monotonic() > self.deadline:
            # Its caller has given up: it would run for nobody.
            self._drop()
            self.lane.ended_unanswered(message.message_id)
            self._has_ended()
            return
        if self.lane.is_full:
            is_users = message.effective_type in USER_WORK
            if is_users and self.lane.hold(self):
                return
        outer, serving.deadline = serving.deadline, self.deadline
        try:
            if message.is_bare and message.type in CALLS:
                # Nothing that an interceptor could take off.
                if message.entries:
                    message.open_leaves()
                result = run_function(*message.value())
            else:
                message.open()
                result = self._handle()
        except BaseException as error:  # what a user's function raises belongs to its caller
            self._answer_error(error)
            return
        finally:
            serving.deadline = outer
        if result.__class__ is Later:
            self._answer_later(result.future)
        else:
            self._answer(result)

    def _drop(self) -> None:
        """Do what the end of a request that does not run asks for; see Note [Packing]."""
        message = self.message
        kind = message.effective_type
        is_remote = kind == MessageType.PYTHON_REMOTE_CALL
        is_of_context = message.autograd is not None
        is_wanted = must_be_read(message.body, message.encoding)
        if not (is_remote or is_of_context or is_wanted):
            return
        handler = handler_of(kind) if is_remote else None
        if handler is not None:
            message.refusal = RpcTimeoutError(
                f"worker {self.server.me.name!r} did not run the remote call of worker "
                f"{self.caller.name!r} that should have made this value: it had waited until its "
                "timeout was over"
            )
        try:
            message.open()
            # Of tensors that came in a context a pass must hear from here that nothing follows.
            with (is_of_context and interceptors.request_in(message)) or nullcontext():
                if handler is not None:
                    # Others may wait for what it should have made.
                    handler(message)
                elif is_wanted:
                    message.value()
        except Exception:
            _logger.info("a request that came too late could not be read", exc_info=True)

    def _handle(self) -> Any:
        request = self.message
        with interceptors.request_in(request) or nullcontext():
            request.make_leaves()
            if request.effective_type in CALLS:
                return run_function(*request.value())
            handler = handler_of(request.effective_type)
            if handler is None:
                raise MessageError(
                    f"worker {self.server.me.name!r} has nobody who answers messages of type "
                    f"{request.effective_type:#x}"
                )
            result = handler(request)
            return Later(result) if isinstance(result, Future) else result

    def _answer_later(self, future: Future[Any]) -> None:
        if self.message.effective_type not in NOT_COUNTED:
            self.server.counts.request_became_async()

        def answer(done: Future[Any]) -> None:
            error = done.exception()
            if error is None:
                self._answer(done.value(), was_async=True)
            else:
                self._answer_error(error, was_async=True)

        future.add_done_callback(answer)

    def _answer(self, result: Any, *, was_async: bool = False) -> None:
        """Send what a function returned, or what a handler did."""
        request = self.message
        kind = request.effective_type
        answer = Message(
            RESPONSE_OF.get(kind, MessageType.UNKNOWN), request.message_id, request.peer
        )
        try:
            if kind in CALLS or isinstance(result, ValueReply):
                answer.pack(result if kind in CALLS else result.value, "the result")
            elif isinstance(result, Reply):
                answer.tensors, answer.metadata = list(result.tensors), dict(result.metadata)
            elif result is not None:
                raise TypeError(
                    f"a handler returned {result!r}; expected None, a Reply or a Future"
                )
            if answer.tensors or not request.is_bare:
                interceptors.response_out(answer, request)
            self._send(answer)
        except BaseException as error:
            answer.was_lost()
            self._answer_error(error, was_async=was_async)
            return
        self._has_ended(was_async=was_async)

    def _answer_error(self, error: BaseException, *, was_async: bool = False) -> None:
        me, request = self.server.me.name, self.message
        answer = pack_error(error, me, request)
        try:
            if not answer.body:
                answer.was_lost()  # it travels as text
            if not request.is_read:
                answer.metadata[UNREAD] = True
            self._send(answer)
        except Exception as failure:
            # It pickles, and is too large for a message, say. Its caller must hear of it all the
            # same.
            answer.was_lost()
            failure.__context__ = error
            self._send(pack_error(failure, me, request, text_only=True))
        self._has_ended(was_async=was_async)

    def _send(self, answer: Message) -> None:
        server, caller, message_id = self.server, self.caller, answer.message_id
        answer.source, answer.incarnation = server.me.rank, server.me.incarnation
        may_be_large = answer.tensors or len(answer.body) > INLINE_BYTES
        lender = caller.lender if may_be_large else None
        frames = answer.encode(lender, self._device_map_to, limits=caller.record.limits)
        own_bytes = len(frames[0]) if len(frames) == 1 else sum(map(len, frames))
        self.sent_bytes = answer.lent_bytes + own_bytes
        # Lent memory may be taken back before the answer could be sent again.
        kept = () if answer.lent_bytes else frames
        route = self.lane.answered(message_id, kept, own_bytes)
        has_left = server.reply(route, frames)
        if lender is not None and (not has_left or message_id in caller.given_up):
            lender.end(message_id)  # nobody will have it there

    def _device_map_to(self, _: Worker) -> Mapping[Device, Device] | None:
        # A result goes back the way the arguments came.
        return self.caller.map_back or None

    def _has_ended(self, *, was_async: bool = False) -> None:
        message = self.message
        if (message.inner_type or message.type) not in NOT_COUNTED:
            self.server.counts.request_answered(
                self.received_bytes, self.sent_bytes, was_async=was_async
            )
            if debug_log.of_calls:
                self._tell_end()

    def _tell_end(self) -> None:
        message, me = self.message, self.server.me.rank
        what = f"ended, {self.sent_bytes} bytes sent"
        debug_log.request(me, message.effective_type, message.message_id, self.caller.id, what)


def run_function(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    """Run what a user wrote; return its value, or Later the Future of an async function.

    Raises  whatever it raises; TypeError for an async function that returned no Future
    """
    result = function(*args, **kwargs)
    if not hasattr(function, "_wrapped_async_rpc_function"):
        return result
    if not isinstance(result, Future):
        raise TypeError(
            "Functions decorated with @rpc.functions.async_execution must return a "
            f"fastdist.futures.Future object, but got {type(result).__name__}"
        )
    return Later(result)
