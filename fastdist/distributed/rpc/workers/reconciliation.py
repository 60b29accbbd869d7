"""Reconciliation after a broken connection: a caller queries the state of its calls."""

# callers.py answers the queries, and session.py decides when a query is sent. Each query has a
# serial number. Only the first answer to the last query is used. The answer to an earlier query may
# describe an earlier connection. A second copy of an answer may be older than calls that were sent
# again.

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

# A caller acknowledges answers on lane 0 after this many bytes, or after this many messages: see
# Note [Answers that are kept].
UNREAD_STEP_BYTES: Final = 512 << 10
READ_STEP_MESSAGES: Final = 512
# The most open calls that an acknowledgement lists.
MOST_OPEN: Final = 256


class Acknowledged(NamedTuple):
    """An acknowledgement: how far a caller has read the answers on one lane.

    `bytes` is the number of bytes that were read since the last acknowledgement. Calls with ids
    below `floor` are over and are not sent again, except the calls in `open`.
    """

    bytes: int
    floor: int = 0
    open: tuple[int, ...] = ()


class Reconciliation(NamedTuple):
    """The state of the calls in a query; calls that still run are omitted."""

    answers: list[Sequence[Buffer]]
    never_received: list[int]
    answered_before: list[int]


class Waiting(Protocol):
    """A call that waits for its answer on lane 0. The first three methods each end the call."""

    def answered(self, answer: Message, frames: Sequence[Buffer]) -> None:
        """Complete the call with the answer."""

    def fail(self, error: Exception) -> None:
        """Complete the call with an error: the other worker, or this worker, has ended."""

    def lost(self, *, may_have_run: bool) -> None:
        """Handle a call that was lost with a connection, or whose answer was lost."""

    def frames_again(self) -> Sequence[Buffer]:
        """Return the frames of a request that never arrived; empty if they are not kept."""

    def was_taken(self) -> bool:
        """Return whether data of the request outside of its frames may have been used already."""


def pack_query(serial: int, call_ids: Iterable[int]) -> list[Buffer]:
    """Return the message that queries the state of calls."""
    metadata: dict[str, Value] = {"serial": serial, "calls": (*call_ids,)}
    return Message(MessageType.RECONCILE, metadata=metadata).encode()


def read_query(metadata: Metadata, sender: int) -> tuple[int, tuple[int, ...]]:
    """Return the serial number and the call ids of a query."""
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
    """Return the serial number, the calls that never arrived, and the calls with no kept answer."""
    metadata, sender = notice.metadata, notice.peer.id
    found = numbers(metadata, "never_came", sender), numbers(metadata, "gone", sender)
    return number(metadata, "serial", sender), *found


def apply_result(notice: Message, session: Session, pipe: Pipe[Waiting], name: str) -> None:
    """Send again the calls that never arrived, and end the calls whose answers are gone."""
    serial, never_came, gone = read_result(notice)
    if not session.accepts_result(serial):
        return  # the result describes an earlier connection, or is a copy
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
