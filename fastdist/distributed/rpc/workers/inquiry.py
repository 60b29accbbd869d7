"""What became of a call? The question of a caller whose connection broke, and its answer."""

# See received_calls.py for the other end, session.py for when what is asked. Each question has a
# serial number, and only the answer to the last one counts, once: an earlier answer may tell of an
# earlier connection, and a copy of what was before the calls that never came went again.

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Protocol

from fastdist.core.errors import MessageError
from fastdist.distributed.pipe.frames import Buffer
from fastdist.distributed.pipe.pipe import Pipe

from ..debug_log import debug_log
from ..message.ids import RANK_SHIFT, id_text
from ..message.limits import Limits
from ..message.message import Message, decode
from ..message.types import MessageType
from .received_calls import Findings
from .session import Session


class Waiting(Protocol):
    """A call that waits for its answer on lane 0. The first three end it."""

    def answered(self, answer: Message, frames: Sequence[Buffer]) -> None:
        """Take the answer."""

    def fail(self, error: Exception) -> None:
        """Take what the end of the worker, or of this one, is told with."""

    def lost(self, *, may_have_run: bool) -> None:
        """Take note that a broken connection took the call, or its answer."""

    def frames_again(self) -> Sequence[Buffer]:
        """Return the frames of a request that never came; none if it is not here any more."""

    def was_taken(self) -> bool:
        """Return whether what of the request is not in its frames may have been taken."""


def ask_about(serial: int, call_ids: Sequence[int]) -> list[Buffer]:
    """Return the message that asks what became of calls."""
    return Message(
        MessageType.INQUIRY, metadata={"serial": serial, "calls": _pack(call_ids)}
    ).encode()


def calls_asked_about(message: Message) -> tuple[int, list[int]]:
    """Return the serial number and the calls of an inquiry."""
    metadata = message.metadata
    return _number(metadata.get("serial")), _unpack(metadata.get("calls"))


def tell_read(size_bytes: int) -> list[Buffer]:
    """Return the message that says how much of lane 0 was read since the last one."""
    return Message(MessageType.CREDIT, metadata={"bytes": size_bytes}).encode()


def bytes_told(message: Message) -> int:
    """Return how much was read, as the caller says."""
    size_bytes = message.metadata.get("bytes")
    if not isinstance(size_bytes, int) or size_bytes < 0:
        raise MessageError(f"a caller that has read {size_bytes!r} bytes")
    return size_bytes


def tell(serial: int, findings: Findings) -> list[Buffer]:
    """Return the message that answers an inquiry; kept answers travel by themselves."""
    metadata: dict[str, object] = {
        "serial": serial,
        "never_came": _pack(findings.never_came),
        "answered_before": _pack(findings.answered_before),
    }
    return Message(MessageType.FINDINGS, metadata=metadata).encode()  # type: ignore[arg-type]


def read_findings(message: Message) -> tuple[int, list[int], list[int]]:
    """Return the serial number, the calls that never came, and those whose answer is gone."""
    metadata = message.metadata
    never_came, gone = metadata.get("never_came"), metadata.get("answered_before")
    return _number(metadata.get("serial")), _unpack(never_came), _unpack(gone)


def act_on_findings(word: Message, session: Session, pipe: Pipe[Waiting], name: str) -> None:
    """Let calls go again that never came to a worker, and end those whose answers are gone."""
    serial, never_came, gone = read_findings(word)
    if not session.takes_findings(serial):
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


class Answering(Protocol):
    """A worker that answers: a Worker, which stands above this file."""

    name: str
    takes: Limits


def decode_answer(frames: Sequence[Buffer], peer: Answering) -> Message:
    """Return the message of frames from peer.

    Raises  MessageError naming the peer
    """
    try:
        return decode(frames, peer.takes, peer)
    except MessageError as error:
        raise MessageError(f"worker {peer.name!r} answered with rubbish: {error}") from error


def _pack(call_ids: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(call_ids)}Q", *call_ids)


def _unpack(packed: object) -> list[int]:
    if not isinstance(packed, bytes) or len(packed) % 8:
        raise MessageError(f"an inquiry about {packed!r}; expected 8 bytes for each call")
    return list(struct.unpack(f"<{len(packed) // 8}Q", packed))


def _number(value: object) -> int:
    if not isinstance(value, int):
        raise MessageError(f"an inquiry with the serial number {value!r}")
    return value
