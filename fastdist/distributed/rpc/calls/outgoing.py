"""Calls that this worker makes: how they are packed, waited for, and how they end."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from fastdist.core.errors import RpcTimeoutError, WorkerLostError
from fastdist.core.future import Future
from fastdist.distributed.pipe.frames import Buffer

from .. import interceptors
from ..debug_log import debug_log
from ..durations import seconds
from ..handlers import Reply
from ..message.body import serialize, serialize_call
from ..message.error_parts import fresh
from ..message.message import Message
from ..message.remote_errors import UNREAD, unpack_error
from ..message.types import USER_WORK, MessageType

if TYPE_CHECKING:
    from fastdist.core.device import Device

    from ..workers.worker import Worker


class _Serving(threading.local):
    """What this thread does for others: `deadline` is when the request that it runs ends."""

    deadline: float | None = None


serving = _Serving()


class Parcel(Protocol):
    """A message that is being packed: whom it goes to, what must be undone if it is lost, and what
    is to be done when it is known to have been read, which only requests may ask for.
    """

    undo: list[Callable[[], None]] | None
    came: list[Callable[[], None]] | None

    @property
    def goes_to(self) -> Any:
        """The life at the other end: a Worker, or what a Server knows of one."""

    @property
    def message_id(self) -> int:
        """The call that it is, or answers."""

    @property
    def is_answer(self) -> bool:
        """Whether it answers a call."""


class _Packing(threading.local):
    """What this thread packs: an RRef in it will live where it goes."""

    parcel: Parcel | None = None


# Note [Parcels]
# To pack an RRef is to promise its owner one more reference, which the receiver keeps by reading
# it, whatever it then does with it. So a message that is not sent, or comes to nobody, undoes what
# packing it did; a request that nobody wants when it comes is read all the same, if it holds
# references, and a receiver that cannot read it says so. A caller that wants an answer no more says
# so as well (references/forks.py), and does not read it.
packing = _Packing()


def undo(parcel: Parcel) -> None:
    """Take back what packing a message did: nobody has read it, and nobody will."""
    steps, parcel.undo, parcel.came = parcel.undo, None, None
    for step in steps or ():
        step()


def _has_come(call: Call) -> None:
    """Take note that a request was read: it has been answered."""
    steps, call.came = call.came, None
    for step in steps or ():
        step()


class Keeper(Protocol):
    """What keeps account of calls that end in Futures: the client."""

    def answer_came(self, call: Call, answer: Message, size_bytes: int) -> None:
        """Read an answer, and end its call with that."""

    def finish(self, call: Call, received_bytes: int, *, failed: bool) -> None:
        """Give back what a call holds, and count its end."""

    def give_up(self, call: Call) -> None:
        """Take note that nobody waits any more for a call that may have come."""


class Call:
    """A request on its way: what it was, whom it went to, and who waits for it.

    Thread  made by the caller; ended once, by whoever takes it out of the pipe's pending calls: an
            answer, a timeout and a break may come at once
    """

    __slots__ = (
        "came",
        "charged_bytes",
        "deadline",
        "frames",
        "future",
        "is_over",
        "keeper",
        "lent_bytes",
        "message",
        "message_id",
        "peer",
        "timeout_s",
        "undo",
        "what",
    )

    is_answer = False  # this is the Parcel of its request

    def __init__(self, peer: Worker, message: Message, timeout_s: float, what: object) -> None:
        self.peer = peer
        self.message = message
        self.message_id = message.message_id
        self.timeout_s = timeout_s
        self.deadline, timeout_ms = deadline_of(timeout_s)
        message.timeout_ms = min(timeout_ms, 0xFFFFFFFF)
        self.what = what
        self.frames: Sequence[Buffer] = ()
        self.undo: list[Callable[[], None]] | None = None
        self.came: list[Callable[[], None]] | None = None
        # What of the request is not in its frames but in memory lent to the peer.
        self.lent_bytes = 0

    def await_in_future(self, future: Future[Any], keeper: Keeper) -> None:
        """Let the call end in a Future; its keeper finishes it before."""
        self.future: Future[Any] = future
        self.keeper = keeper
        # What the call holds of the peer's credit; -1 if it needs none.
        self.charged_bytes = -1
        self.is_over = False

    @property
    def goes_to(self) -> Worker:
        """The life that is called."""
        return self.peer

    def size_bytes(self) -> int:
        """Return the bytes of the request."""
        return self.lent_bytes + sum(map(len, self.frames))

    def take_back(self) -> None:
        """Take back what was lent and not taken: the call is over."""
        if self.peer.lender is not None:
            self.peer.lender.end(self.message_id)

    def frames_again(self) -> Sequence[Buffer]:
        """Return the frames of a request that never came; none if it is not here any more."""
        frames = self.frames
        if not frames or not self.lent_bytes:
            return frames
        lender = self.peer.lender
        return frames if lender is not None and lender.renew(self.message_id) else ()

    def was_not_sent(self) -> None:
        """Undo what packing the request did."""
        undo(self)
        self.take_back()

    def describe(self) -> str:
        """Return what was called where, for errors."""
        what = self.what
        name = getattr(what, "__qualname__", None) or str(what)
        return f"{name} on worker {self.peer.info.name!r} (rank {self.peer.info.id})"

    def end(self, value: object, error: BaseException | None, received_bytes: int = 0) -> None:
        """Complete the Future."""
        self.is_over = True
        self.keeper.finish(self, received_bytes, failed=error is not None)
        self.future.try_complete(value, error)

    def answered(self, answer: Message, frames: Sequence[Buffer]) -> None:
        """Take the answer that came on lane 0."""
        self.keeper.answer_came(self, answer, bytes_of(answer, frames))

    def fail(self, error: Exception) -> None:
        """End the call with the pipe's error."""
        self.end(None, fresh(error))

    def lost(self, *, may_have_run: bool) -> None:
        """End a call that a broken connection took, or the answer of which."""
        self.fail(lost_error(self, may_have_run=may_have_run))
        self.keeper.give_up(self)

    def expire(self) -> None:
        """End the call, whose time is over, unless something else has."""
        # Once it is taken out its id is unknown: a late answer is dropped.
        if self.peer.pipe.take_pending(self.message_id) is not None:
            self.peer.pipe.notify(cancel(self))
            if debug_log.of_calls:
                debug_log.call(self, "timed out")
            self.end(None, self.timeout_error())
            self.keeper.give_up(self)

    def timeout_error(self) -> RpcTimeoutError:
        """Return the error of a call that ran for too long."""
        return RpcTimeoutError(
            f"RPC ran for more than set timeout ({whole_ms(self.timeout_s)} ms) and will now be "
            f"marked with an error: {self.describe()}; raise timeout=, or look for what keeps it "
            "busy there"
        )


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
    """Return a timeout in whole milliseconds: what is left over is dropped, but none becomes 0.

    Raises  TypeError for what is no number, ValueError for a negative one
    """
    timeout_s = seconds("timeout", timeout_s)
    # The small addend is for floats such as 0.57, whose product with 1000 lies just below 570.
    return max(1, int(timeout_s * 1000 + 1e-6)) if timeout_s > 0 else 0


def pack_request(
    call: Call, value: Any, device_map_to: Callable[[Worker], Mapping[Device, Device]]
) -> None:
    """Fill in the frames of a call; value is (function, args, kwargs) where its type asks for it.

    Raises  RpcError for what does not pickle; MessageError beyond the wire's limits; DeviceError
    """
    message, peer = call.message, call.peer
    # What is being pickled may make a call itself.
    outer, packing.parcel = packing.parcel, call
    try:
        if message.type in USER_WORK:
            function, args, kwargs = value
            packed = serialize_call(function, args, kwargs, message.tensors)
        else:
            packed = serialize(value, message.tensors)
        message.body, message.encoding = packed
        interceptors.request_out(message)
        call.frames = message.encode(peer.lender, device_map_to, limits=peer.record.limits)
        call.lent_bytes = message.lent_bytes
        message.body = b""  # the frames have it
    except BaseException:
        undo(call)
        raise
    finally:
        packing.parcel = outer


def cancel(call: Call) -> list[Buffer]:
    """Return the word that nobody waits for a call any more."""
    return Message(MessageType.CANCEL, call.message_id).encode()


def open_answer(answer: Message, call: Call) -> Any:
    """Return what an answer carries: the function's result, or a handler's Reply.

    Raises  what the callee raised, with its type where that can be had here
    """
    if call.undo is not None and answer.metadata.get(UNREAD):
        undo(call)
    elif call.came is not None:
        _has_come(call)
    if answer.type == MessageType.EXCEPTION:
        raise unpack_error(answer)
    if answer.is_bare and answer.type in _WITH_VALUE:
        # Nothing that an interceptor could take off.
        if answer.entries:
            answer.open_leaves()
        return answer.value()
    answer.open()
    interceptors.response_in(answer, call.message)
    answer.make_leaves()
    if answer.effective_type in _WITH_VALUE:
        return answer.value()
    return Reply(answer.tensors, answer.metadata)


_WITH_VALUE = frozenset(
    {
        MessageType.PYTHON_RET,
        MessageType.SCRIPT_RET,
        MessageType.PYTHON_RREF_FETCH_RET,
        MessageType.SCRIPT_RREF_FETCH_RET,
    }
)


def closed_error(call: Call) -> Exception:
    """Return why a call fails whose lane was closed."""
    error = call.peer.pipe.error
    if error is None:
        error = WorkerLostError(f"the lane of {call.describe()} was closed")
    return fresh(error)


def lost_error(call: Call, *, may_have_run: bool) -> WorkerLostError:
    """Return the error of a call that a broken connection took, with or without its having run."""
    if not may_have_run:
        undo(call)
    what = "its answer is lost, and it has run" if may_have_run else "it has not run"
    return WorkerLostError(
        f"the connection to worker {call.peer.info.name!r} (rank {call.peer.info.id}) broke and "
        f"came back during {call.describe()}: {what}",
        may_have_run=may_have_run,
    )


def bytes_of(message: Message, frames: Sequence[Buffer]) -> int:
    """Return how much a message that came was, what came by shared memory included."""
    if not message.buffers:
        return len(frames[0])
    return max(sum(map(len, frames)), message.size_bytes())
