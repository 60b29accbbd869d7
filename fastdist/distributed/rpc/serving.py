"""Requests that come in: who takes them, on which thread they run, how they are answered."""

from __future__ import annotations

import logging
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

from fastdist.core.errors import FastdistError, MessageError, RpcError, StaleIncarnationError
from fastdist.core.future import Future
from fastdist.core.thread_pool import Work
from fastdist.distributed.pipe.batch import MAX_MESSAGES, can_join, join, split, take_batch
from fastdist.distributed.pipe.listener import Listener, Received
from fastdist.distributed.pipe.message import Buffer, Message, decode, encode_plain

from . import gate, interceptors
from .handlers import Reply, ValueReply, handler_of
from .interceptors import Envelope
from .message_types import CALLS, NOT_COUNTED, RESPONSE_OF, USER_WORK, MessageType
from .metrics import CallCounts, TimeSeriesMetricsTracker
from .outgoing import inherit_deadline, packing
from .remote_errors import pack_error
from .wire import deserialize, make_leaves, pack_tensors, serialize, unpack_tensors

if TYPE_CHECKING:
    from fastdist.core.device import Device

    from .membership import Record

_logger = logging.getLogger(__name__)


# Note [Answers in batches]
# Requests that came in one batch are run one after the other. While more of them wait, the answers
# of the leader go to the outbox, and leave together when the batch is done. None is held up for
# longer than a look of the pool's watcher: if a function takes long its thread loses the lead, and
# the next leader empties the outbox first.


class Incoming:
    """A request, where its answer goes, and until when it is wanted."""

    __slots__ = ("caller", "deadline", "message", "received_bytes", "route", "sent_bytes")

    def __init__(self, received: Received, caller: Record, message: Message) -> None:
        self.route = received.route
        self.caller = caller
        self.message = message
        self.received_bytes = sum([len(frame) for frame in received.frames])
        self.sent_bytes = 0
        timeout_ms = message.timeout_ms
        self.deadline = time.monotonic() + timeout_ms / 1000 if timeout_ms else None


class Server:
    """The source of the pool's work: reads the listener, runs requests, answers them.

    `admit(rank, incarnation, meant_for)` returns the record of a caller that may come in, and
    raises otherwise; `left(rank)` is told of a goodbye.

    Thread  take from the pool's leader; run on pool threads
    """

    def __init__(
        self,
        listener: Listener,
        me: Record,
        counts: CallCounts,
        admit: Callable[[int, int, str], Record],
        left: Callable[[int, int], None],
    ) -> None:
        self._listener = listener
        self._me = me
        self._counts = counts
        self._admit = admit
        self._left = left
        # Guards _callers: written by the leader, pruned by the progress thread.
        self._callers_lock = threading.Lock()
        self._callers: dict[bytes, Record] = {}
        self.num_rubbish = 0
        # The rest of a batch that came in, and answers that are to leave as one: see Note
        # [Answers in batches]. The leader alone takes from _inbox.
        self._inbox: deque[Received] = deque()
        self._outbox_lock = threading.Lock()  # guards _outbox
        self._outbox: dict[bytes, list[Sequence[Buffer]]] = {}
        self._leader = 0
        # How long requests wait for the interpreter lock, while somebody wants to know.
        self.gil_waits: TimeSeriesMetricsTracker | None = None

    def take(self) -> Work | None:
        """Wait for a request that is more than a short notice, and return it as work."""
        me = threading.get_ident()
        if me != self._leader:
            # The leader before may be stuck in a function, with answers of others in the outbox.
            self._leader = me
            self._flush()
        while True:
            try:
                if not self._inbox and not self._fill_inbox():
                    return None
            except MessageError as error:
                self._dropped(error)
                continue
            try:
                work = self._sort(self._inbox.popleft())
            except Exception as error:  # this thread reads for all: no message may end it
                self._dropped(error)
                continue
            if work is not None:
                return work

    def wake(self) -> None:
        """Let take return None soon."""
        self._listener.wake()

    def forget(self, rank: int) -> None:
        """Take no more requests from a worker that is lost or has left."""
        with self._callers_lock:
            for route in [r for r, caller in self._callers.items() if caller.rank == rank]:
                del self._callers[route]

    def _dropped(self, error: Exception) -> None:
        self.num_rubbish += 1
        if not isinstance(error, MessageError):
            _logger.error("a message could not be taken in, and was dropped", exc_info=error)
        elif self.num_rubbish == 1:
            # A stranger, or a member that speaks another version. Told once, counted always.
            _logger.warning("a message that cannot be read was dropped: %s", error)

    def _fill_inbox(self) -> bool:
        if self._outbox:
            self._flush()
        received = self._listener.receive()
        if received is None:
            return False
        if self.gil_waits is not None:
            self.gil_waits.add_data(_time_to_get_the_gil_us())
        for frames in split(received.frames):
            self._inbox.append(Received(received.route, frames, received.rank))
        return True

    def _sort(self, received: Received) -> Work | None:
        message = decode(received.frames)
        kind = message.type
        if kind == MessageType.HELLO:
            self._greet(received, message)
            return None
        caller = self._callers.get(received.route)
        if caller is None:
            if kind & 0x100:
                refusal = Message(MessageType.GREET_FIRST, message.message_id)
                self._listener.reply(received.route, refusal.encode())
            return None
        if received.rank is not None and received.rank != caller.rank:
            # The connection of a member has ended, and another took its route.
            raise MessageError(f"rank {received.rank} spoke as rank {caller.rank}")
        if kind == MessageType.BYE:
            self._left(caller.rank, message.incarnation)
            return None
        if not kind & 0x100:
            return None
        effective = message.inner_type or kind
        incoming = Incoming(received, caller, message)
        if effective not in NOT_COUNTED:
            self._counts.request_came()
        return Work(self._run, incoming, effective in USER_WORK)

    def _greet(self, received: Received, message: Message) -> None:
        try:
            meant_for = str((message.metadata or {}).get("to", ""))
            if received.rank is not None and received.rank != message.source:
                raise RpcError(
                    f"the connection has proved to be rank {received.rank}, but says that it is "
                    f"rank {message.source}"
                )
            record = self._admit(message.source, message.incarnation, meant_for)
        except FastdistError as error:
            envelope, body, encoding = pack_error(error, self._me.name, message.source)
            refusal = Message(
                envelope.message_type, body=body, encoding=encoding, metadata=envelope.metadata
            )
            self._listener.reply(received.route, refusal.encode())
            return
        with self._callers_lock:
            for route in [one for one in self._callers if not self._listener.knows(one)]:
                del self._callers[route]
            self._callers[received.route] = record

    def _run(self, incoming: Incoming) -> None:
        message = incoming.message
        if incoming.deadline is not None and time.monotonic() > incoming.deadline:
            # Its caller has given up: it would run for nobody.
            self._answered(incoming)
            return
        request = Envelope(message.type, incoming.caller.rank, [], message.metadata)
        request.inner_type = message.inner_type
        try:
            if not message.is_plain:
                request.tensors, request.requires_grad = unpack_tensors(message)
                request.tangents = list(message.tangents)
                request.autograd = message.autograd
            result = self._run_inside(incoming, request)
        except BaseException as error:  # what a user's function raises belongs to its caller
            self._answer_error(incoming, error)
            return
        if isinstance(result, Future):
            if request.effective_type not in NOT_COUNTED:
                self._counts.request_became_async()
            result.add_done_callback(lambda done: self._answer_later(incoming, request, done))
        else:
            self._answer(incoming, request, result)

    def _run_inside(self, incoming: Incoming, request: Envelope) -> Any:
        message = incoming.message
        before = inherit_deadline(incoming.deadline)
        try:
            with interceptors.request_in(request) or nullcontext():
                make_leaves(request.tensors, request.requires_grad)
                if request.effective_type in CALLS:
                    return run_function(
                        *deserialize(message.body, message.encoding, request.tensors)
                    )
                request.read_value = lambda: deserialize(
                    message.body, message.encoding, request.tensors
                )
                handler = handler_of(request.effective_type)
                if handler is None:
                    raise MessageError(
                        f"worker {self._me.name!r} has nobody who answers messages of type "
                        f"{request.effective_type:#x}"
                    )
                return handler(request)
        finally:
            inherit_deadline(before)

    def _answer_later(self, incoming: Incoming, request: Envelope, done: Future[Any]) -> None:
        error = done.exception()
        if error is not None:
            self._answer_error(incoming, error, was_async=True)
            return
        result = done.value()
        if request.effective_type in CALLS:
            result = ValueReply(result)
        self._answer(incoming, request, result, was_async=True)

    def _answer(
        self, incoming: Incoming, request: Envelope, result: Any, *, was_async: bool = False
    ) -> None:
        try:
            envelope = Envelope(RESPONSE_OF[request.effective_type], request.peer, [])
            body, encoding = b"", 0
            if isinstance(result, ValueReply):
                packing.peer = request.peer
                body, encoding = serialize(result.value, envelope.tensors, "the result")
            elif isinstance(result, Reply):
                envelope.tensors, envelope.metadata = list(result.tensors), dict(result.metadata)
            elif result is not None:
                raise TypeError(
                    f"a handler returned {result!r}; expected None, a Reply or a Future"
                )
            interceptors.response_out(envelope, request)
            self._send(incoming, envelope, body, encoding)
        except BaseException as error:
            self._answer_error(incoming, error, was_async=was_async)
            return
        self._answered(incoming, was_async=was_async)

    def _answer_error(
        self, incoming: Incoming, error: BaseException, *, was_async: bool = False
    ) -> None:
        envelope, body, encoding = pack_error(error, self._me.name, incoming.caller.rank)
        self._send(incoming, envelope, body, encoding)
        self._answered(incoming, was_async=was_async)

    def _send(self, incoming: Incoming, envelope: Envelope, body: bytes, encoding: int) -> None:
        message = incoming.message
        if envelope.is_plain:
            kind, me = envelope.message_type, self._me
            message_id = message.message_id
            frames = encode_plain(kind, message_id, me.rank, me.incarnation, body, encoding)
            self._reply(incoming, frames)
            return
        device_map = None
        if envelope.tensors:
            device_map = self._device_map_back(incoming.caller)
        entries, buffers = pack_tensors(envelope.tensors, device_map)
        answer = Message(
            envelope.message_type,
            message.message_id,
            source=self._me.rank,
            incarnation=self._me.incarnation,
            body=body,
            encoding=encoding,
            tensors=entries,
            buffers=buffers,
            inner_type=envelope.inner_type,
            metadata=envelope.metadata or None,
            tangents=envelope.tangents,
            autograd=envelope.autograd,
        )
        self._reply(incoming, answer.encode())

    def _reply(self, incoming: Incoming, frames: Sequence[Buffer]) -> None:
        route = incoming.route
        incoming.sent_bytes = sum([len(frame) for frame in frames])
        if not self._inbox or threading.get_ident() != self._leader or not can_join(frames):
            self._listener.reply(route, frames)
            return
        with self._outbox_lock:
            answers = self._outbox.setdefault(route, [])
            answers.append(frames)
            is_full = len(answers) >= MAX_MESSAGES
        if is_full:
            self._flush()

    def _flush(self) -> None:
        with self._outbox_lock:
            outbox, self._outbox = self._outbox, {}
        for route, answers in outbox.items():
            while answers:
                count = take_batch(answers)
                self._listener.reply(route, join(answers[:count]))
                del answers[:count]

    def _device_map_back(self, caller: Record) -> dict[Device, Device] | None:
        # A result goes back the way the arguments came.
        if not caller.device_maps:
            return None
        forward = caller.device_map_to(self._me.name)
        return {theirs: mine for mine, theirs in forward.items()}

    def _answered(self, incoming: Incoming, *, was_async: bool = False) -> None:
        message = incoming.message
        if (message.inner_type or message.type) not in NOT_COUNTED:
            self._counts.request_answered(
                incoming.received_bytes, incoming.sent_bytes, was_async=was_async
            )


def _time_to_get_the_gil_us() -> int:
    # A poll that does not wait gives the lock up and takes it again: what it takes is the wait.
    began = time.perf_counter_ns()
    select.poll().poll(0)
    return (time.perf_counter_ns() - began) // 1000


class Later(NamedTuple):
    """What a function of this package returns to say that its Future is the answer."""

    future: Future[Any]


def run_function(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run what a user wrote; return its ValueReply, or the Future of an async function.

    Raises  whatever it raises; TypeError for an async function that returned no Future
    """
    gate.require_callable_by_others(function)
    result = function(*args, **kwargs)
    if isinstance(result, Later):
        return result.future
    if not hasattr(function, "_wrapped_async_rpc_function"):
        return ValueReply(result)
    if not isinstance(result, Future):
        raise TypeError(
            "Functions decorated with @rpc.functions.async_execution must return a "
            f"fastdist.futures.Future object, but got {type(result).__name__}"
        )
    return result


def stale_error(name: str, rank: int) -> StaleIncarnationError:
    """Return the refusal of a worker's earlier life, or of one that was declared lost."""
    return StaleIncarnationError(
        f"worker {name!r} (rank {rank}) was declared lost, or this is a message of its earlier "
        "life; restart it, it cannot come back"
    )
