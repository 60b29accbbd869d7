"""A request that came in: how it is run, and how it is answered."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol

from fastdist.core.errors import MessageError, RpcTimeoutError
from fastdist.core.future import Future
from fastdist.distributed.pipe.message import Buffer, Message, encode_plain

from . import interceptors
from .body import deserialize, deserialize_call, must_be_read, serialize
from .handlers import Reply, ValueReply, handler_of
from .interceptors import Envelope
from .message_types import CALLS, NOT_COUNTED, RESPONSE_OF, USER_WORK, MessageType
from .outgoing import packing, serving, undo
from .remote_errors import UNREAD, pack_error
from .wire import encode_bare, make_leaves, pack_tensors, unpack_leaves, unpack_tensors

if TYPE_CHECKING:
    from fastdist.core.device import Device
    from fastdist.distributed.pipe.message import Lender

    from .membership import Record
    from .metrics import CallCounts
    from .received_calls import CallerLane

_logger = logging.getLogger(__name__)


class Later(NamedTuple):
    """What a function of this package returns to say that its Future is the answer."""

    future: Future[Any]


class Host(Protocol):
    """What a request needs of the server that took it in."""

    me: Record
    counts: CallCounts
    lender_of: Callable[[Record], Lender | None]

    def reply(self, route: bytes, frames: Sequence[Buffer]) -> bool:
        """Send an answer; False if its connection is gone."""


class Incoming:
    """A request, where its answer goes, and until when it is wanted.

    Thread  run once, by one thread; answered by that one, or by the one that ends its Future
    """

    __slots__ = (
        "caller",
        "deadline",
        "is_read",
        "lane",
        "message",
        "received_bytes",
        "sent_bytes",
        "server",
        "undo",
    )

    is_answer = True  # this is the Parcel of its answer

    def __init__(
        self, server: Host, lane: CallerLane, message: Message, received_bytes: int
    ) -> None:
        self.server = server
        self.lane = lane
        self.caller = lane.record
        self.message = message
        self.received_bytes = received_bytes
        self.sent_bytes = 0
        # Whether the value in the request's body has been read.
        self.is_read = False
        self.undo: list[Callable[[], None]] | None = None
        timeout_ms = message.timeout_ms
        self.deadline = time.monotonic() + timeout_ms / 1000 if timeout_ms else None

    @property
    def goes_to(self) -> int:
        """The worker to which the answer goes."""
        return self.caller.rank

    @property
    def message_id(self) -> int:
        """The call that is answered."""
        return self.message.message_id

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
        request: Envelope | None = None
        outer, serving.deadline = serving.deadline, self.deadline
        try:
            if message.is_bare and message.type in CALLS:
                # Nothing that an interceptor could take off.
                result = self._call(unpack_leaves(message) if message.tensors else ())
            else:
                request = self._open()
                result = self._handle(request)
        except BaseException as error:  # what a user's function raises belongs to its caller
            self._answer_error(error)
            return
        finally:
            serving.deadline = outer
        if result.__class__ is Later:
            self._answer_later(request, result.future)
        else:
            self._answer(request, result)

    def _drop(self) -> None:
        """Do what the end of a request that does not run asks for; see outgoing.Note [Parcels]."""
        message = self.message
        kind = message.effective_type
        is_remote = kind == MessageType.PYTHON_REMOTE_CALL
        is_of_context = message.autograd is not None
        is_wanted = must_be_read(message.body, message.encoding)
        if not (is_remote or is_of_context or is_wanted):
            return
        try:
            request = self._open()
            request.read_value = lambda: self._refuse_late(request)
            handler = handler_of(kind) if is_remote else None
            # Of tensors that came in a context a pass must hear from here that nothing follows.
            with (is_of_context and interceptors.request_in(request)) or nullcontext():
                if handler is not None:
                    # Others may wait for what it should have made.
                    handler(request)
                elif is_wanted:
                    self._read(request.tensors)
        except Exception:
            _logger.info("a request that came too late could not be read", exc_info=True)

    def _refuse_late(self, request: Envelope) -> NoReturn:
        self._read(request.tensors)
        raise RpcTimeoutError(
            f"worker {self.server.me.name!r} did not run the remote call of worker "
            f"{self.caller.name!r} that should have made this value: it had waited until its "
            "timeout was over"
        )

    def _read(self, tensors: Sequence[Any]) -> Any:
        """Return the value in the body: of a call, function, args and kwargs."""
        message = self.message
        is_call = message.effective_type in USER_WORK
        read = deserialize_call if is_call else deserialize
        value = read(message.body, message.encoding, tensors)
        self.is_read = True
        return value

    def _call(self, tensors: Sequence[Any]) -> Any:
        message = self.message
        function, args, kwargs = deserialize_call(message.body, message.encoding, tensors)
        self.is_read = True
        return run_function(function, args, kwargs)

    def _open(self) -> Envelope:
        message = self.message
        request = Envelope(message.type, self.caller.rank, [], message.metadata)
        request.inner_type = message.inner_type
        request.tensors, request.requires_grad = unpack_tensors(message)
        request.tangents = list(message.tangents)
        request.autograd = message.autograd
        return request

    def _handle(self, request: Envelope) -> Any:
        with interceptors.request_in(request) or nullcontext():
            make_leaves(request.tensors, request.requires_grad)
            if request.effective_type in CALLS:
                return self._call(request.tensors)
            request.read_value = lambda: self._read(request.tensors)
            handler = handler_of(request.effective_type)
            if handler is None:
                raise MessageError(
                    f"worker {self.server.me.name!r} has nobody who answers messages of type "
                    f"{request.effective_type:#x}"
                )
            result = handler(request)
            return Later(result) if isinstance(result, Future) else result

    def _answer_later(self, request: Envelope | None, future: Future[Any]) -> None:
        if self._is_counted():
            self.server.counts.request_became_async()

        def answer(done: Future[Any]) -> None:
            error = done.exception()
            if error is None:
                self._answer(request, done.value(), was_async=True)
            else:
                self._answer_error(error, was_async=True)

        future.add_done_callback(answer)

    def _answer(self, request: Envelope | None, result: Any, *, was_async: bool = False) -> None:
        """Send what a function returned, or what a handler did."""
        try:
            if request is None or request.effective_type in CALLS:
                self._send_value(request, result)
            elif isinstance(result, ValueReply):
                self._send_value(request, result.value)
            elif isinstance(result, Reply):
                self._send(request, list(result.tensors), dict(result.metadata), b"", 0)
            elif result is None:
                self._send(request, [], None, b"", 0)
            else:
                raise TypeError(
                    f"a handler returned {result!r}; expected None, a Reply or a Future"
                )
        except BaseException as error:
            self._answer_error(error, was_async=was_async)
            return
        self._has_ended(was_async=was_async)

    def _send_value(self, request: Envelope | None, value: Any) -> None:
        tensors: list[Any] = []
        packing.parcel = self
        try:
            body, encoding = serialize(value, tensors, "the result")
        finally:
            packing.parcel = None
        if request is None and not tensors:
            message, me = self.message, self.server.me
            kind = RESPONSE_OF[message.type]
            self._reply(
                encode_plain(
                    *(kind, message.message_id, me.rank, me.incarnation, body, encoding, 0),
                    self.caller.limits,
                )
            )
            return
        self._send(request or self._envelope(), tensors, None, body, encoding)

    def _envelope(self) -> Envelope:
        return Envelope(self.message.type, self.caller.rank, [])

    def _send(
        self,
        request: Envelope,
        tensors: list[Any],
        metadata: dict[str, Any] | None,
        body: bytes,
        encoding: int,
    ) -> None:
        envelope = Envelope(RESPONSE_OF[request.effective_type], request.peer, tensors, metadata)
        interceptors.response_out(envelope, request)
        self._send_envelope(envelope, body, encoding)

    def _answer_error(self, error: BaseException, *, was_async: bool = False) -> None:
        me = self.server.me.name
        undo(self)
        try:
            packing.parcel = self
            packed = pack_error(error, me, self.goes_to)
            if not packed[1]:
                undo(self)  # it travels as text
            if not self.is_read:
                packed[0].metadata[UNREAD] = True
            self._send_envelope(*packed)
        except Exception as failure:
            # It pickles, and is too large for a message, say. Its caller must hear of it all the
            # same.
            undo(self)
            failure.__context__ = error
            self._send_envelope(*pack_error(failure, me, self.goes_to, text_only=True))
        finally:
            packing.parcel = None
        self._has_ended(was_async=was_async)

    def _send_envelope(self, envelope: Envelope, body: bytes, encoding: int) -> None:
        message_id, me = self.message.message_id, self.server.me
        if envelope.is_bare:
            kind, tensors, limits = envelope.message_type, envelope.tensors, self.caller.limits
            bare = encode_bare(kind, message_id, me, tensors, body, encoding, 0, limits)
            if bare is not None:
                self._reply(bare)
                return
        device_map = self._device_map_back() if envelope.tensors else None
        entries, buffers = pack_tensors(envelope.tensors, device_map)
        answer = Message(
            envelope.message_type,
            message_id,
            source=me.rank,
            incarnation=me.incarnation,
            body=body,
            encoding=encoding,
            tensors=entries,
            buffers=buffers,
            inner_type=envelope.inner_type,
            metadata=envelope.metadata or None,
            tangents=envelope.tangents,
            autograd=envelope.autograd,
        )
        lender = self.server.lender_of(self.caller)
        frames = answer.encode(lender, limits=self.caller.limits)
        if not self._reply(frames, answer.lent_bytes) and lender is not None:
            lender.end(message_id)

    def _reply(self, frames: Sequence[Buffer], lent_bytes: int = 0) -> bool:
        own_bytes = sum(map(len, frames))
        self.sent_bytes = lent_bytes + own_bytes
        # Lent memory may be taken back before the answer could be sent again.
        kept = () if lent_bytes else frames
        route = self.lane.answered(self.message.message_id, kept, own_bytes)
        return self.server.reply(route, frames)

    def _device_map_back(self) -> dict[Device, Device] | None:
        # A result goes back the way the arguments came.
        if not self.caller.device_maps:
            return None
        forward = self.caller.device_map_to(self.server.me.name)
        return {theirs: mine for mine, theirs in forward.items()}

    def _is_counted(self) -> bool:
        return self.message.effective_type not in NOT_COUNTED

    def _has_ended(self, *, was_async: bool = False) -> None:
        if self._is_counted():
            self.server.counts.request_answered(
                self.received_bytes, self.sent_bytes, was_async=was_async
            )


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
