"""A request on a lane of its own, whose answer its sender takes in person."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from fastdist.core.errors import GivenUpError, RpcError
from fastdist.core.thread_pool import hand_on_lead
from fastdist.distributed.pipe.lane import LaneClosed, LaneTimeout
from fastdist.distributed.pipe.message import NO_CALL, Message

from .handlers import Reply
from .lane_answer import ask, receive_answer
from .outgoing import Call, open_answer

if TYPE_CHECKING:
    from fastdist.distributed.pipe.pipe import OwnLane

    from .metrics import CallCounts


ASK_EVERY_S: Final = 2.0


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
        lost_error: Callable[[OwnLane, Call], Exception],
    ) -> None:
        self._call, self._own, self._counts = call, own, counts
        self._lost_error = lost_error
        self._answer: Message | None = None
        self._size = 0
        self._error: Exception | None = None
        self._is_over = False
        self._asked_at = time.monotonic()
        counts.call_sent(call.peer.info.name, call.size_bytes())
        try:
            if own.greeting is not None:
                own.lane.send(own.greeting, None)
                own.greeting = None
            own.lane.send(call.frames, None)
        except LaneClosed:
            self._error = lost_error(own, call)
        except BaseException:
            # Nobody will end it: there is no LaneCall.
            counts.call_ended(call.peer.info.name, 0, failed=True)
            raise

    def wait(self, timeout_s: float | None) -> bool:
        """Return whether the answer, or an error, is there; after timeout_s at the latest."""
        if self._answer is not None or self._error is not None:
            return True
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        hand_on_lead()
        try:
            self._answer, self._size = receive_answer(self._call, self._own, deadline)
        except LaneTimeout:
            # Who waits in short steps would never see the lane itself fall into doubt.
            if time.monotonic() - self._asked_at >= ASK_EVERY_S:
                self._asked_at = time.monotonic()
                ask(self._call, self._own)
            return False
        except LaneClosed:
            self._error = self._lost_error(self._own, self._call)
        except RpcError as error:
            self._error = error
        return True

    def result(self) -> Reply:
        """Return the answer, which wait has seen; its tensors have passed the interceptors.

        Raises  what the callee raised; WorkerLostError
        """
        answer, failed = self._answer, True
        try:
            if self._error is not None:
                raise self._error
            assert answer is not None, "wait has not seen an answer yet"
            reply: Reply = open_answer(answer, self._call)
            failed = False
            return reply
        except GivenUpError as error:
            if answer is not None and answer.message_id == NO_CALL:
                self._call.peer.refuse_and_wait(error)
            raise
        finally:
            broken = answer is None or answer.message_id == NO_CALL
            self._end(broken=broken, failed=failed)

    def give_up(self) -> None:
        """Do without the answer; nothing happens if it was taken."""
        # Not broken: what comes late is dropped.
        if not self._is_over and self._answer is None and self._error is None:
            self._own.num_late += 1
        self._end(broken=False, failed=True)

    def _end(self, *, broken: bool, failed: bool) -> None:
        if self._is_over:
            return
        self._is_over = True
        peer = self._call.peer
        peer.pipe.check_in(self._own, broken=broken)
        if self._call.lent_bytes:
            self._call.take_back()
        self._counts.call_ended(peer.info.name, self._size, failed=failed)
