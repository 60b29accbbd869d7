"""Incoming requests: the thread that takes one, the thread that runs it, and its answer."""

from __future__ import annotations

import logging
import select
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, Final

from fastdist.concurrency.future import Future
from fastdist.concurrency.thread_pool import Work
from fastdist.concurrency.unread_errors import log_unread
from fastdist.core.device import Device
from fastdist.core.errors import FastdistError, MessageError, RpcError, RpcTimeoutError
from fastdist.distributed.pipe.batch import (
    MAX_MESSAGES,
    can_join,
    is_batch,
    join,
    split,
    take_batch,
)
from fastdist.distributed.pipe.frames import Buffer
from fastdist.distributed.pipe.listener import Listener, Received, Route
from fastdist.system.foreign_text import many_lines, one_line

from .. import interceptors
from ..debug_log import debug_log
from ..handlers import DeferredResult, Reply, ValueReply, handler_of
from ..message.body import must_be_read
from ..message.layout import INLINE_BYTES
from ..message.message import Message, decode
from ..message.remote_errors import UNREAD, pack_error
from ..message.types import (
    CALLS,
    KINDS,
    NOT_COUNTED,
    REMOTE_CALLS,
    REQUEST,
    RESPONSE_OF,
    USER_WORK,
    MessageType,
)
from ..metrics import CallCounts, TimeSeriesMetricsTracker
from ..workers.callers import CallerLane, Callers
from ..workers.end_reasons import WHY
from ..workers.joining import refuse_twin
from ..workers.reconciliation import acknowledged, pack_result, read_query
from ..workers.stuck import NOT_STUCK, Stuck, all_wait, pack_stuck
from ..workers.worker import Worker
from .outgoing import bytes_of, serving

_logger = logging.getLogger(__name__)

# Requests that run users' code: this worker logs their errors if no caller will read them.
_TOLD_HERE: Final = USER_WORK | {MessageType.BACKWARD_AUTOGRAD_REQ, MessageType.RREF_BACKWARD_REQ}
_REST_MS: Final = 50

_NOTICES: Final = frozenset({MessageType.HELLO, MessageType.BYE, MessageType.PING})


class Incoming:
    """A received request, the lane for its answer, and the caller's deadline.

    Thread  run once, by one thread; answered by that thread, or by the thread that completes its
            Future
    """

    sent_bytes = 0

    def __init__(
        self, server: Server, lane: CallerLane, message: Message, received_bytes: int
    ) -> None:
        self.server = server
        self.lane = lane
        self.caller = lane.caller
        self.message = message
        self.kind = message.effective_type
        # The worker that greeted on the message's connection, not the sender that it names.
        message.peer = lane.caller
        self.received_bytes = received_bytes
        timeout_ms = message.timeout_ms
        self.deadline = time.monotonic() + timeout_ms / 1000 if timeout_ms else None

    def run(self) -> None:
        """Run the request, and answer it: immediately, or when its Future is done."""
        message = self.message
        if self.deadline is not None and time.monotonic() > self.deadline:
            # The caller has given up, and would not read the answer.
            self._drop()
            self.lane.ended_unanswered(message.message_id)
            self._has_ended()
            return
        if self.lane.over_unread_limit and self.kind in USER_WORK and self.lane.hold(self):
            return
        outer, serving.deadline = serving.deadline, self.deadline
        try:
            if message.is_bare and message.type in CALLS:
                # No interceptor has added anything to this request.
                if message.entries:
                    message.open_leaves()
                result = run_function(*message.value())
            else:
                message.open()
                result = self._handle()
        except BaseException as error:  # errors of a user's function are sent to its caller
            self._answer_error(error)
            return
        finally:
            serving.deadline = outer
        if result.__class__ is DeferredResult:
            self._answer_when_done(result)
        else:
            self._answer(result)

    def _drop(self) -> None:
        """Read the parts of a request that must be read even if the request does not run.

        See Note [Packing].
        """
        message = self.message
        is_remote = self.kind in REMOTE_CALLS
        is_of_context = message.autograd is not None
        is_wanted = must_be_read(message.body, message.encoding)
        if not (is_remote or is_of_context or is_wanted):
            return
        handler = handler_of(self.kind) if is_remote else None
        if handler is not None:
            message.refusal = RpcTimeoutError(
                f"worker {self.server.me.name!r} did not run the remote call of worker "
                f"{self.caller.name!r} that should have made this value: it had waited until its "
                "timeout was over"
            )
        try:
            message.open()
            # A distributed pass needs the report that no gradients come from this request.
            with (is_of_context and interceptors.request_in(message)) or nullcontext():
                if handler is not None:
                    # Other workers may wait for the value that this request should have created.
                    handler(message)
                elif is_wanted:
                    message.value()
        except Exception:
            trace = many_lines(traceback.format_exc())
            _logger.info("a request that came too late could not be read\n%s", trace)

    def _handle(self) -> Any:
        request = self.message
        with interceptors.request_in(request) or nullcontext():
            request.make_leaves()
            if self.kind in CALLS:
                return run_function(*request.value())
            handler = handler_of(self.kind)
            if handler is None:
                raise MessageError(
                    f"worker {self.server.me.name!r} has no handler for messages of type "
                    f"{self.kind:#x}"
                )
            result = handler(request)
            return DeferredResult(result) if isinstance(result, Future) else result

    def _answer_when_done(self, deferred: DeferredResult) -> None:
        counts = self.server.counts
        if self.kind not in NOT_COUNTED:
            name = deferred.what or f"a message of type {self.kind:#x}"
            what = f"{name} (called by worker {self.caller.name!r})"
            counts.request_became_async(self, what)

        def answer(done: Future[Any]) -> None:
            counts.async_request_ended(self)
            error = done.exception()
            if error is None:
                self._answer(done.value(), was_async=True)
            else:
                self._answer_error(error, was_async=True)

        deferred.future.add_done_callback(answer)

    def _answer(self, result: Any, *, was_async: bool = False) -> None:
        """Send the result of a function or of a handler."""
        request, kind = self.message, self.kind
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
            answer.undo_packing()
            self._answer_error(error, was_async=was_async)
            return
        self._has_ended(was_async=was_async)

    def _answer_error(self, error: BaseException, *, was_async: bool = False) -> None:
        me, request = self.server.me.name, self.message
        if self._is_for_nobody() and not isinstance(error, RpcError):
            log_unread(error, f"a call of worker {self.caller.name!r}, which no longer waits,")
        answer = pack_error(error, me, request)
        try:
            if not answer.body:
                answer.undo_packing()  # the error is sent as text
            if not request.is_read:
                answer.metadata[UNREAD] = True
            self._send(answer)
        except Exception as failure:
            # The error can be pickled but not sent: it may be too large for a message. The caller
            # must get an error in any case.
            answer.undo_packing()
            failure.__context__ = error
            self._send(pack_error(failure, me, request, text_only=True))
        self._has_ended(was_async=was_async)

    def _is_for_nobody(self) -> bool:
        """Return whether the request runs users' code, but its caller is dead or has given up."""
        is_late = self.deadline is not None and time.monotonic() > self.deadline
        return self.kind in _TOLD_HERE and (is_late or self.caller.is_dead)

    def _send(self, answer: Message) -> None:
        server, caller, message_id = self.server, self.caller, answer.message_id
        answer.source, answer.incarnation = server.me.rank, server.me.incarnation
        may_be_large = answer.tensors or len(answer.body) > INLINE_BYTES
        lender = caller.lender if may_be_large else None
        frames = answer.encode(lender, self._device_map_to, limits=caller.record.limits)
        own_bytes = len(frames[0]) if len(frames) == 1 else sum(map(len, frames))
        self.sent_bytes = answer.lent_bytes + own_bytes
        # Lent memory may be taken back before a resend, so do not keep an answer with lent memory.
        kept = () if answer.lent_bytes else frames
        route = self.lane.answered(message_id, kept, own_bytes)
        has_left = server.reply(route, frames)
        if lender is not None and (not has_left or message_id in caller.given_up):
            lender.end(message_id)  # the answer will not be read

    def _device_map_to(self, _: Worker) -> Mapping[Device, Device] | None:
        # The device map of a result is the reverse of the map for arguments.
        return self.caller.map_back or None

    def _has_ended(self, *, was_async: bool = False) -> None:
        if self.kind not in NOT_COUNTED:
            self.server.counts.request_answered(
                self.received_bytes, self.sent_bytes, was_async=was_async
            )
            if debug_log.of_calls:
                what = f"ended, {self.sent_bytes} bytes sent"
                rank, call_id, caller = self.server.me.rank, self.message.message_id, self.caller.id
                debug_log.request(rank, self.kind, call_id, caller, what)


def run_function(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    """Run a user's function; return its value, or a DeferredResult for an async function.

    Raises  the errors of the function; RpcError for an async function that returned no Future
    """
    result = function(*args, **kwargs)
    if not hasattr(function, "_wrapped_async_rpc_function"):
        return result
    if not isinstance(result, Future):
        raise RpcError(
            "Functions decorated with @rpc.async_function must return a torch.futures.Future "
            f"object, but got {type(result).__name__}: return what rpc_async or then gives, or do "
            "without @rpc.functions.async_execution"
        )
    return DeferredResult(result, name_of(function))


def name_of(function: object) -> str:
    """Return the name of a user's function, for error messages."""
    return getattr(function, "__qualname__", None) or str(function)


# Note [Answers in batches]
# Requests that came in one batch run one after the other. While requests of the batch wait, the
# leader puts answers into the outbox, and sends all of them when the batch is done. If a function
# takes long, the pool's watcher makes another thread the leader. The new leader first sends the
# answers in the outbox.


class Server:
    """The source of the pool's work: reads the listener, runs requests, answers them.

    `admit(rank, incarnation, meant_for)` returns the worker that sent a greeting, or raises the
    reason for a refusal; `parted(worker)` is called when a worker acknowledges a goodbye.

    Thread  `take` on the pool's leader; requests run on pool threads
    """

    def __init__(
        self,
        listener: Listener,
        callers: Callers,
        counts: CallCounts,
        admit: Callable[[int, int, str], Worker],
        parted: Callable[[Worker], None],
    ) -> None:
        self.me = callers.me
        self.counts = counts
        self._limits = callers.me.limits
        self._listener = listener
        self._admit = admit
        self._parted = parted
        self._callers = callers
        self.num_rubbish = self._num_rests = 0
        # The messages of a batch that wait for processing: see Note [Answers in batches]. Only the
        # leader takes messages from _inbox.
        self._inbox: deque[Received] = deque()
        # Guards the outbox and _leader, the thread that may add answers to the outbox.
        self._outbox_lock = threading.RLock()
        self._outbox: dict[Route, list[Sequence[Buffer]]] = {}
        self._leader = 0
        # Returns which worker, this one or one that it waits for, has no free thread for functions.
        self.stuck: Callable[[], Stuck] = lambda: NOT_STUCK
        # Measures how long requests wait for the interpreter lock; None if not enabled.
        self.gil_waits: TimeSeriesMetricsTracker | None = None

    def take(self) -> Work | None:
        """Wait for a request that is not a short notice, and return it as work."""
        me = threading.get_ident()
        if me != self._leader:
            # The previous leader may be busy in a function, with answers in the outbox.
            with self._outbox_lock:
                self._leader = me
            self._flush()
        while True:
            while not self._inbox:
                if self._callers.released:
                    return Work(Incoming.run, self._callers.released.popleft(), counted=True)
                if not self._fill_inbox():
                    return None
            try:
                work = self._sort(self._inbox.popleft())
            except Exception as error:  # this thread reads for all callers; no message may end it
                self._dropped(error)
                continue
            if work is not None:
                return work

    def wake(self) -> None:
        """Make `take` return None soon."""
        self._listener.wake()

    def all_wait(self, num_threads: int) -> None:
        """Log that no thread is left for calls, and report it to all callers."""
        stuck = Stuck(self.me.name, num_threads, time.monotonic())
        text = "%scalls of others wait for a thread; give it more by num_worker_threads="
        _logger.warning(text, all_wait(stuck))
        for lane in list(self._callers.by_route.values()):
            if lane.number == 0:
                self._listener.reply(lane.route, _pong(stuck))

    def reply(self, route: Route, frames: Sequence[Buffer]) -> bool:
        """Send an answer, now or with other answers; return False if the connection is gone."""
        if not self._inbox or threading.get_ident() != self._leader or not can_join(frames):
            return self._listener.reply(route, frames)
        with self._outbox_lock:
            # Check again under the lock: if another thread is the leader now, it may have emptied
            # the outbox already, and may be waiting for a request.
            is_leader = threading.get_ident() == self._leader
            if is_leader:
                answers = self._outbox.setdefault(route, [])
                answers.append(frames)
                is_full = len(answers) >= MAX_MESSAGES
        if not is_leader:
            return self._listener.reply(route, frames)
        if is_full:
            self._flush()
        return True

    def _fill_inbox(self) -> bool:
        if self._outbox:
            self._flush()
        try:
            received = self._listener.receive()
        except Exception as error:
            self._rest(error)
            return False
        if received is None:
            return False
        if self.gil_waits is not None:
            self.gil_waits.add_data(_time_to_get_the_gil_us())
        if not is_batch(received.frames):
            self._inbox.append(received)
            return True
        try:
            for frames in split(received.frames):
                self._inbox.append(Received(received.route, frames, received.rank))
        except MessageError as error:
            self._dropped(error)
        return True

    def _rest(self, error: Exception) -> None:
        """Wait 50 ms after an error of the listener; the leader then tries again.

        Causes of such errors: the machine lacks a resource, or the listener is closing.
        """
        self._num_rests += 1
        if self._num_rests & (self._num_rests - 1) == 0:  # the 1st, 2nd, 4th ... error
            text = "requests could not be read, %d times so far; trying again"
            _logger.error(text, self._num_rests, exc_info=error)
        select.poll().poll(_REST_MS)

    def _dropped(self, error: Exception) -> None:
        self.num_rubbish += 1
        if not isinstance(error, MessageError):
            trace = many_lines("".join(traceback.format_exception(error)))
            _logger.error("a message could not be processed, and was dropped\n%s", trace)
        elif self.num_rubbish == 1:
            # The sender is not a member, or has another wire version. The first such message is
            # logged, and all are counted.
            _logger.warning("a message that cannot be read was dropped: %s", one_line(error))

    def _sort(self, received: Received) -> Work | None:
        frames = received.frames
        caller = self._callers.by_route.get(received.route)
        if caller is None and not self._may_read(received):
            return None
        message = decode(frames, self._limits, None if caller is None else caller.caller)
        kind = message.type
        if caller is None or kind in _NOTICES or not kind & REQUEST:
            self._take_notice(received, caller, message)
            return None
        if received.rank is not None:
            _require_same_rank(received.rank, caller)
        incoming = Incoming(self, caller, message, bytes_of(message, frames))
        if not caller.accept_request(message.message_id, incoming):
            return None
        kind = incoming.kind
        if kind not in NOT_COUNTED:
            self.counts.request_came()
            if debug_log.of_calls:
                sender = caller.caller.id
                debug_log.request(self.me.rank, kind, message.message_id, sender, "received")
        return Work(Incoming.run, incoming, kind in USER_WORK)

    def _may_read(self, received: Received) -> bool:
        """Return whether an unknown connection sent a greeting; reply GREET_FIRST to others.

        Note    other requests are not processed, so the sender may lend their memory again
        """
        header = decode(received.frames, header_alone=True)
        kind = header.type
        if kind not in KINDS:
            raise MessageError(f"unknown message type {kind:#x}")
        if kind & REQUEST and kind != MessageType.HELLO:
            refusal = Message(MessageType.GREET_FIRST, header.message_id)
            self._listener.reply(received.route, refusal.encode())
        return kind == MessageType.HELLO

    def _take_notice(self, received: Received, caller: CallerLane | None, message: Message) -> None:
        if message.type == MessageType.HELLO:
            self._greet(received, message)
        elif caller is not None:
            _require_same_rank(received.rank, caller)
            self._take_notice_of(caller, message)

    def _take_notice_of(self, caller: CallerLane, message: Message) -> None:
        metadata, sender = message.metadata, caller.caller.id
        if message.type == MessageType.PING:
            self._listener.reply(caller.route, _pong(self.stuck()))
        elif message.type == MessageType.BYE:
            caller.caller.said_goodbye(str(metadata.get(WHY, "")))
        elif message.type == MessageType.FAREWELL:
            self._parted(caller.caller)
        elif message.type == MessageType.CANCEL:
            request = caller.running(message.message_id)
            if request is not None:
                # If the request still waits for a thread, it will not run.
                request.deadline = 0.0
        elif message.type == MessageType.CREDIT:
            read = acknowledged(metadata, sender)
            caller.forget_below(read.floor, {*read.open})
            self._callers.released.extend(caller.acknowledge(read.bytes))
        elif message.type == MessageType.RECONCILE:
            serial, call_ids = read_query(metadata, sender)
            result = caller.reconcile(call_ids)
            for frames in result.answers:
                self._listener.reply(caller.route, frames)
            self._listener.reply(caller.route, pack_result(serial, result))

    def _greet(self, received: Received, message: Message) -> None:
        try:
            meant_for = str(message.metadata.get("to", ""))
            if received.rank is not None and received.rank != message.source:
                raise RpcError(
                    f"the connection has proved to be rank {received.rank}, but says that it is "
                    f"rank {message.source}"
                )
            refuse_twin(self.me, message)
            worker = self._admit(message.source, message.incarnation, meant_for)
            self._callers.greeted(worker, message.lane, received.route, _count_of(message))
            debug_log.worker(self.me.rank, "worker %r has connected", worker.name)
            try:
                # Check again: handling a loss before greeted() did not remove this connection.
                self._admit(message.source, message.incarnation, meant_for)
            except FastdistError:
                self._callers.forget(worker)
                raise
        except FastdistError as error:
            self._callers.refuse([received.route], error)

    def _flush(self) -> None:
        with self._outbox_lock:
            outbox, self._outbox = self._outbox, {}
        for route, answers in outbox.items():
            while answers:
                count = take_batch(answers)
                self._listener.reply(route, join(answers[:count]))
                del answers[:count]


def _pong(stuck: Stuck) -> list[Buffer]:
    """Return the answer to a ping, which reports if a worker has no free thread."""
    return Message(MessageType.PONG, metadata=pack_stuck(stuck)).encode()


def _count_of(greeting: Message) -> int:
    count = greeting.metadata.get("greeting", 0)
    if not isinstance(count, int):
        raise MessageError(f"a greeting whose count is {count!r}; expected a number")
    return count


def _require_same_rank(proved: int | None, caller: CallerLane) -> None:
    if proved is not None and proved != caller.caller.id:
        # The connection of a member has ended, and another member has got the same route.
        raise MessageError(f"rank {proved} sent a message as rank {caller.caller.id}")


def _time_to_get_the_gil_us() -> int:
    # poll(0) releases the interpreter lock and acquires it again, so the duration of poll(0) is the
    # wait for the lock.
    began = time.perf_counter_ns()
    select.poll().poll(0)
    return (time.perf_counter_ns() - began) // 1000
