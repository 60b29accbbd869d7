"""A request on a lane of its own, whose answer its sender takes in person."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from fastdist.core.future import Future
from fastdist.core.thread_pool import hand_on_lead
from fastdist.distributed.pipe.lane import LaneClosed, LaneTimeout
from fastdist.distributed.pipe.message import NO_CALL, Message

from .handlers import Reply
from .message_types import MessageType
from .outgoing import Call, bytes_of, decode_answer, open_answer

if TYPE_CHECKING:
    from fastdist.distributed.pipe.pipe import OwnLane

    from .metrics import CallCounts


class LaneCall:
    """Waits as often as its owner likes; the answer comes to the thread that waits, with no hop.

    Must be ended by `result` or `give_up`.

    Thread  one at a time
    """

    def __init__(
        self,
        call: Call,
        own: OwnLane,
        counts: CallCounts,
        send_again: Callable[[], Future[Reply]],
        lost_error: Callable[[OwnLane, Call], Exception],
    ) -> None:
        self._call, self._own, self._counts = call, own, counts
        self._send_again, self._lost_error = send_again, lost_error
        self._answer: Message | None = None
        self._size = 0
        self._error: Exception | None = None
        # Of the same request once more, by the shared lane, after this one had lost its connection.
        self._again: Future[Reply] | None = None
        self._is_over = False
        counts.call_sent(call.peer.info.name, call.size_bytes())
        try:
            if own.greeting is not None:
                own.lane.send(own.greeting, None)
                own.greeting = None
            own.lane.send(call.frames, None)
        except LaneClosed:
            self._error = lost_error(own, call)

    def wait(self, timeout_s: float | None) -> bool:
        """Return whether the answer, or an error, is there; after timeout_s at the latest."""
        if self._again is not None:
            return _is_done(self._again, timeout_s)
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        hand_on_lead()
        while self._answer is None and self._error is None:
            try:
                frames = self._own.lane.receive(deadline)
            except LaneTimeout:
                return False
            except LaneClosed:
                self._error = self._lost_error(self._own, self._call)
                return True
            answer = decode_answer(frames, self._call.peer)
            # Older answers are those of calls that took too long; that to no call refuses the
            # greeting.
            if answer.message_id in (self._call.message_id, NO_CALL):
                self._answer, self._size = answer, bytes_of(answer, frames)
        if self._answer is not None and self._answer.type == MessageType.GREET_FIRST:
            # The lane had lost its connection unnoticed. The request has not run: once more.
            self._end(broken=True, failed=True)
            self._again = self._send_again()
            left_s = None if deadline is None else max(0.0, deadline - time.monotonic())
            return _is_done(self._again, left_s)
        return True

    def result(self) -> Reply:
        """Return the answer, which wait has seen; its tensors have passed the interceptors.

        Raises  what the callee raised; WorkerLostError
        """
        if self._again is not None:
            return self._again.value()
        answer, failed = self._answer, True
        try:
            if self._error is not None:
                raise self._error
            assert answer is not None, "wait has not seen an answer yet"
            reply: Reply = open_answer(answer, self._call)
            failed = False
            return reply
        finally:
            broken = answer is None or answer.message_id == NO_CALL
            self._end(broken=broken, failed=failed)

    def give_up(self) -> None:
        """Do without the answer; nothing happens if it was taken."""
        # Not broken: whoever has the lane next drops what comes late.
        self._end(broken=False, failed=True)

    def _end(self, *, broken: bool, failed: bool) -> None:
        if self._is_over:
            return
        self._is_over = True
        peer = self._call.peer
        peer.pipe.check_in(self._own, broken=broken)
        self._call.take_back()
        self._counts.call_ended(peer.info.name, self._size, failed=failed)


def _is_done(future: Future[Reply], timeout_s: float | None) -> bool:
    try:
        future.wait(timeout_s)
    except Exception:
        # Its own error, unless the time is up: result() raises it.
        return future.done()
    return True
