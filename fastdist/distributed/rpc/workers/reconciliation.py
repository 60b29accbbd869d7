"""Reconciliation after a broken connection: a caller queries what became of its calls."""

# See callers.py for the other end, and session.py for when a query is sent. Each query has a serial
# number, and only the result of the last one counts, once: an earlier result may describe an
# earlier connection, and a copy may date from before calls were sent again.

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, Protocol

from fastdist.distributed.pipe.frames import Buffer
from fastdist.distributed.pipe.pipe import Pipe

from ..debug_log import debug_log
from ..message.ids import RANK_SHIFT, id_text
from ..message.message import Message
from ..message.metadata import Value
from ..message.metadata_fields import (
    Metadata,
    filled_with_defaults,
    metadata_of,
    number,
    numbers,
    refuse,
)
from ..message.types import MessageType
from .session import Session

# How much of lane 0 a caller reads before it acknowledges that: see Note [Answers that are kept].
UNREAD_STEP_BYTES: Final = 512 << 10
READ_STEP_MESSAGES: Final = 512
# The most calls without answer that an acknowledgement lists.
MOST_OPEN: Final = 256


class Acknowledged(NamedTuple):
    """An acknowledgement: how far a caller has read the answers on one lane.

    `bytes` were read since the last acknowledgement. Calls with an id below `floor` have ended
    there and are not sent (again), but for those in `open`.
    """

    bytes: int
    floor: int = 0
    open: tuple[int, ...] = ()


class Reconciliation(NamedTuple):
    """The state of the calls in a query; calls that still run are not in it."""

    answers: list[Sequence[Buffer]]
    never_received: list[int]
    answered_before: list[int]


class Waiting(Protocol):
    """A call that waits for its answer on lane 0. The first three end it."""

    def answered(self, answer: Message, frames: Sequence[Buffer]) -> None:
        """Take the answer."""

    def fail(self, error: Exception) -> None:
        """Take the error for the end of the worker, or of this one."""

    def lost(self, *, may_have_run: bool) -> None:
        """Handle a call that a broken connection took, or whose answer it took."""

    def frames_again(self) -> Sequence[Buffer]:
        """Return the frames of a request that never came; none if it is not here any more."""

    def was_taken(self) -> bool:
        """Return whether what of the request is not in its frames may have been taken."""


def pack_query(serial: int, call_ids: Iterable[int]) -> list[Buffer]:
    """Return the message that queries what became of calls."""
    metadata: dict[str, Value] = {"serial": serial, "calls": (*call_ids,)}
    return Message(MessageType.RECONCILE, metadata=metadata).encode()


def read_query(metadata: Metadata, sender: int) -> tuple[int, tuple[int, ...]]:
    """Return the serial number and the calls of a query."""
    return number(metadata, "serial", sender), numbers(metadata, "calls", sender)


def acknowledge(read: Acknowledged) -> list[Buffer]:
    """Return the message that acknowledges answers."""
    return Message(MessageType.CREDIT, metadata=metadata_of(read)).encode()


def acknowledged(metadata: Metadata, sender: int) -> Acknowledged:
    """Return the acknowledgement in a caller's message.

    Raises  MessageError for anything that `acknowledge` does not write
    """
    read = filled_with_defaults(Acknowledged, metadata, sender)
    if read.bytes < 0:
        refuse(metadata, "bytes", sender, "0 or more")
    if len(read.open) > MOST_OPEN:
        refuse(metadata, "open", sender, f"{MOST_OPEN} ids at most")
    return read


def pack_result(serial: int, result: Reconciliation) -> list[Buffer]:
    """Return the message that answers a query; kept answers are sent separately."""
    found = (*result.never_received,), (*result.answered_before,)
    metadata: dict[str, Value] = {"serial": serial, "never_came": found[0], "gone": found[1]}
    return Message(MessageType.RECONCILED, metadata=metadata).encode()


def read_result(notice: Message) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """Return the serial number, the calls that never came, and those whose answer is gone."""
    metadata, sender = notice.metadata, notice.peer.id
    found = numbers(metadata, "never_came", sender), numbers(metadata, "gone", sender)
    return number(metadata, "serial", sender), *found


def apply_result(notice: Message, session: Session, pipe: Pipe[Waiting], name: str) -> None:
    """Let calls go again that never came to a worker, and end those whose answers are gone."""
    serial, never_came, gone = read_result(notice)
    if not session.accepts_result(serial):
        return  # of an earlier connection, or a copy
    for call_id in never_came:
        call = pipe.pending(call_id)
        if call is not None and (frames := call.frames_again()):
            text = "call %s never came to %r: sent again"
            debug_log.worker(call_id >> RANK_SHIFT, text, id_text(call_id), name)
            pipe.notify(list(frames))
        elif (call := pipe.take_pending(call_id)) is not None:
            call.lost(may_have_run=call.was_taken())
    for call_id in gone:
        if (call := pipe.take_pending(call_id)) is not None:
            call.lost(may_have_run=True)
