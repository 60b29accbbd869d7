"""Calls that this worker makes: how they are packed, waited for, and how they end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fastdist.core.errors import MessageError, RpcError, RpcTimeoutError, WorkerLostError
from fastdist.core.future import Future
from fastdist.distributed.pipe.message import Buffer, Message, decode, encode_plain

from . import interceptors
from .handlers import Reply
from .interceptors import Envelope
from .message_types import MessageType
from .remote_errors import unpack_error
from .wire import deserialize, make_leaves, pack_tensors, serialize, unpack_tensors

if TYPE_CHECKING:
    from fastdist.core.device import Device

    from .peer import Peer

_deadline = threading.local()
# While a request is packed, `packing.peer` is whom it goes to: an RRef in it will live there.
packing = threading.local()


class Call:
    """A request on its way: what it was, whom it went to, and who waits for it.

    Thread  made by the caller; ended once, by whoever is first
    """

    __slots__ = (
        "charged_bytes",
        "deadline",
        "envelope",
        "finish",
        "frames",
        "future",
        "message_id",
        "peer",
        "timeout_s",
        "token",
        "what",
    )

    def __init__(
        self, peer: Peer, envelope: Envelope, message_id: int, deadline: float | None, what: object
    ) -> None:
        self.peer = peer
        self.envelope = envelope
        self.message_id = message_id
        self.deadline = deadline
        self.what = what
        self.frames: Sequence[Buffer] = ()
        self.future: Future[Any] | None = None
        # Tells the agent that this call has ended: (call, answer's bytes, failed).
        self.finish: Callable[[Call, int, bool], None] | None = None
        self.timeout_s = 0.0
        # What the call holds of the peer's credit; -1 if it needs none.
        self.charged_bytes = -1
        # Whoever takes it ends the call: an answer, a timeout and a break may come at once.
        self.token = [True]

    def size_bytes(self) -> int:
        """Return the bytes of the request."""
        return sum(len(frame) for frame in self.frames)

    def describe(self) -> str:
        """Return what was called where, for errors."""
        what = self.what
        name = getattr(what, "__qualname__", None) or str(what)
        return f"{name} on worker {self.peer.info.name!r} (rank {self.peer.info.id})"

    def end(self, value: object, error: BaseException | None, received_bytes: int = 0) -> bool:
        """Complete the Future, once; False if the call had ended."""
        future, finish = self.future, self.finish
        assert future is not None and finish is not None
        try:
            self.token.pop()
        except IndexError:
            return False
        finish(self, received_bytes, error is not None)
        return future.try_complete(value, error)

    def fail(self, error: Exception) -> None:
        """End the call with the pipe's error."""
        self.end(None, fresh(error))

    def timeout_error(self, timeout_s: float) -> RpcTimeoutError:
        """Return the error of a call that ran for too long."""
        return RpcTimeoutError(
            f"RPC ran for more than set timeout ({whole_ms(timeout_s)} ms) and will now be "
            f"marked with an error: {self.describe()}; raise timeout=, or look for what keeps it "
            "busy there"
        )


def deadline_of(timeout_s: float) -> float | None:
    """Return when a call with this timeout ends; a call inside a call ends with the outer one."""
    inherited: float | None = getattr(_deadline, "value", None)
    if timeout_s <= 0:
        return inherited
    own = time.monotonic() + whole_ms(timeout_s) / 1000
    return own if inherited is None else min(own, inherited)


def whole_ms(timeout_s: float) -> int:
    """Return a timeout in whole milliseconds: what is left over is dropped, but none becomes 0."""
    # The small addend is for floats such as 0.57, whose product with 1000 lies just below 570.
    return max(1, int(timeout_s * 1000 + 1e-6)) if timeout_s > 0 else 0


def inherit_deadline(deadline: float | None) -> float | None:
    """Let calls made by this thread end at deadline; return what held before, to be restored."""
    before: float | None = getattr(_deadline, "value", None)
    _deadline.value = deadline
    return before


def pack_request(
    call: Call,
    body_value: object,
    rank: int,
    incarnation: int,
    device_map: Mapping[Device, Device] | None,
) -> None:
    """Fill in the frames of a call.

    Raises  RpcError for what does not pickle; MessageError beyond the wire's limits; DeviceError
    """
    envelope = call.envelope
    packing.peer = call.peer.info.id
    body, encoding = serialize(body_value, envelope.tensors)
    interceptors.request_out(envelope)
    deadline = call.deadline
    left_ms = 0 if deadline is None else max(1, round((deadline - time.monotonic()) * 1000))
    if envelope.is_plain:
        kind, message_id = envelope.message_type, call.message_id
        call.frames = encode_plain(kind, message_id, rank, incarnation, body, encoding, left_ms)
        return
    entries, buffers = pack_tensors(envelope.tensors, device_map)
    call.frames = Message(
        envelope.message_type,
        call.message_id,
        source=rank,
        incarnation=incarnation,
        body=body,
        encoding=encoding,
        tensors=entries,
        buffers=buffers,
        timeout_ms=min(left_ms, 0xFFFFFFFF),
        inner_type=envelope.inner_type,
        metadata=envelope.metadata or None,
        tangents=envelope.tangents,
        autograd=envelope.autograd,
    ).encode()


def open_answer(answer: Message, call: Call) -> Any:
    """Return what an answer carries: the function's result, or a handler's Reply.

    Raises  what the callee raised, with its type where that can be had here
    """
    if answer.is_plain and answer.type in _WITH_VALUE:
        # Nothing that an interceptor could take off.
        return deserialize(answer.body, answer.encoding, ())
    tensors, requires_grad = unpack_tensors(answer)
    envelope = Envelope(answer.type, call.peer.info.id, tensors, answer.metadata)
    if answer.type == MessageType.EXCEPTION:
        raise unpack_error(envelope, bytes(answer.body), answer.encoding)
    if answer.type == MessageType.GREET_FIRST:
        raise NotGreetedError(
            f"the connection to worker {call.peer.info.name!r} broke and came back unnoticed; "
            f"{call.describe()} has not run",
            may_have_run=False,
        )
    envelope.inner_type = answer.inner_type
    envelope.requires_grad = requires_grad
    envelope.tangents = list(answer.tangents)
    envelope.autograd = answer.autograd
    interceptors.response_in(envelope, call.envelope)
    make_leaves(tensors, requires_grad)
    if envelope.effective_type in _WITH_VALUE:
        return deserialize(answer.body, answer.encoding, tensors)
    return Reply(tensors, envelope.metadata)


_WITH_VALUE = frozenset(
    {
        MessageType.PYTHON_RET,
        MessageType.SCRIPT_RET,
        MessageType.PYTHON_RREF_FETCH_RET,
        MessageType.SCRIPT_RREF_FETCH_RET,
    }
)


class NotGreetedError(WorkerLostError):
    """The peer does not know the connection that a call came by; the call has not run."""


def decode_answer(frames: Sequence[Buffer], peer: Peer) -> Message:
    """Return the message of frames from peer.

    Raises  MessageError naming the peer
    """
    try:
        return decode(frames)
    except MessageError as error:
        raise MessageError(f"worker {peer.info.name!r} answered with rubbish: {error}") from error


def fresh(error: Exception) -> Exception:
    # Many calls fail with one error, in many threads: each gets its own, with its own traceback.
    if isinstance(error, WorkerLostError):
        return WorkerLostError(*error.args, may_have_run=error.may_have_run)
    return type(error)(*error.args) if isinstance(error, RpcError) else error
