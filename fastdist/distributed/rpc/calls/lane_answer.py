"""Waiting for the answer on a lane of one's own, through all that may happen to its connection."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastdist.distributed.pipe.lane import LaneInDoubt

from ..message.layout import NO_CALL
from ..message.message import Message
from ..message.types import MessageType
from ..workers.inquiry import ask_about, decode_answer, read_findings
from .outgoing import Call, bytes_of, lost_error

if TYPE_CHECKING:
    from fastdist.distributed.pipe.pipe import OwnLane


def receive_answer(call: Call, own: OwnLane, deadline: float | None) -> tuple[Message, int]:
    """Return the answer to a call on a lane of its own, or the refusal of the greeting; its size.

    Whenever the connection may have been replaced the other end is asked, and if the call was lost
    on its way it is sent again.

    Raises  LaneTimeout, LaneClosed; WorkerLostError if the answer is lost
    """
    while True:
        try:
            frames = own.lane.receive(deadline)
        except LaneInDoubt:
            ask(call, own)
            continue
        answer = decode_answer(frames, call.peer)
        if answer.message_id == call.message_id:
            if answer.type != MessageType.GREET_FIRST:
                return answer, bytes_of(answer, frames)
            ask(call, own)
        elif answer.message_id == NO_CALL:
            if answer.type != MessageType.FINDINGS:
                return answer, bytes_of(answer, frames)
            serial, never_came, gone = read_findings(answer)
            if serial != own.serial:
                continue
            own.serial += 1  # used up: a copy does not know of a call that went again since
            if call.message_id in never_came:
                again = call.frames_again()
                if not again:
                    raise lost_error(call, may_have_run=False)
                own.lane.send(again, deadline)
            elif call.message_id in gone:
                raise lost_error(call, may_have_run=True)
        # Else it is of a call that took too long, whose caller has been told so.


def ask(call: Call, own: OwnLane) -> None:
    """Greet again, and ask what became of a call."""
    own.serial += 1
    # What cannot leave now would be asked for nothing: the connection has broken again.
    if own.lane.try_send(own.greet()):
        own.lane.try_send(ask_about(own.serial, [call.message_id]))
