"""A request on a lane of its own, whose sender waits for the answer itself."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from fastdist.core.errors import GivenUpError, RpcError
from fastdist.core.thread_pool import hand_on_lead
from fastdist.distributed.pipe.lane import LaneClosed, LaneTimeout

from ..debug_log import debug_log
from ..message.layout import NO_CALL
from ..message.message import Message
from .lane_answer import ask, receive_answer
from .outgoing import Call, cancel, closed_error, open_answer, undo

if TYPE_CHECKING:
    from fastdist.distributed.pipe.pipe import OwnLane

    from ..metrics import CallCounts


ASK_EVERY_S: Final = 2.0


class LaneCall:
    """Is sent when it is made; the answer comes to the thread that waits, with no hop.

    Must be ended by `wait`, `result` or `give_up`. It has to do with `charged_bytes` of the peer's
    credit, and tells `gave_up` of an end without the answer.

    Thread  one at a time
    """

    __slots__ = (
        "_answer",
        "_asked_at",
        "_call",
        "_charged_bytes",
        "_counts",
        "_error",
        "_gave_up",
        "_is_broken",
        "_is_over",
        "_is_sent",
        "_own",
        "_size",
    )

    def __init__(
        self,
        call: Call,
        own: OwnLane,
        size_bytes: int,
        charged_bytes: int,
        counts: CallCounts,
        gave_up: Callable[[Call], None],
    ) -> None:
        self._call, self._own = call, own
        self._charged_bytes, self._counts, self._gave_up = charged_bytes, counts, gave_up
        self._answer: Message | None = None
        self._size = 0
        self._error: Exception | None = None
        # Whether the lane cannot be used again: nobody knows what it will bring.
        self._is_broken = self._is_sent = self._is_over = False
        self._asked_at = 0.0
        counts.call_sent(call.peer.info.name, size_bytes)
        hand_on_lead()
        try:
            if own.greeting is not None:
                own.send_greeting(call.deadline)
            own.lane.send(call.frames, call.deadline)
            self._is_sent = True
        except LaneTimeout:
            undo(call)
            self._error = self._timeout_error()
        except LaneClosed:
            self._is_broken, self._error = True, closed_error(call)
        except BaseException:
            # What was sent of it in part would be read as the beginning of the next.
            self._is_broken = True
            self._end(failed=True)
            raise

    def has_come(self, timeout_s: float | None) -> bool:
        """Return whether the answer, or an error, is there; after timeout_s at the latest."""
        if self._answer is not None or self._error is not None:
            return True
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        hand_on_lead()
        try:
            self._receive(deadline)
        except LaneTimeout:
            # Who waits in short steps would never see the lane itself fall into doubt.
            now = time.monotonic()
            self._asked_at = self._asked_at or now
            if now - self._asked_at >= ASK_EVERY_S:
                self._asked_at = now
                ask(self._call, self._own)
            return False
        return True

    def wait(self) -> Any:
        """Wait for the answer, until the call's deadline, and return what it holds.

        Raises  what the callee raised; RpcTimeoutError; WorkerLostError
        """
        call, own = self._call, self._own
        if self._answer is None and self._error is None:
            try:
                self._receive(call.deadline)
            except LaneTimeout:
                # By another connection, maybe, which the peer does not listen to before a greeting;
                # and with the former one what the answer lent was lost.
                own.lane.try_send(own.greet())
                own.lane.try_send(cancel(call))
                self._error = self._timeout_error()
            except BaseException:
                self._is_broken = True
                self._end(failed=True)
                raise
        return self.result()

    def result(self) -> Any:
        """Return what the answer holds, which has come; its tensors have passed the interceptors.

        Raises  what the callee raised; WorkerLostError
        """
        call, answer, failed = self._call, self._answer, True
        is_refused = answer is not None and answer.message_id == NO_CALL
        try:
            if answer is None:
                raise self._take_error()
            if is_refused:
                undo(call)  # the peer does not know this worker, and has not taken the call in
            value = open_answer(answer, call)
            failed = False
            return value
        except GivenUpError as error:
            if is_refused:
                call.peer.refuse_and_wait(error)
            raise
        finally:
            self._is_broken |= is_refused
            self._end(failed=failed)

    def give_up(self) -> None:
        """Do without the answer; nothing happens if it was taken."""
        # Not broken: what comes late is dropped.
        self._end(failed=True)

    def _receive(self, deadline: float | None) -> None:
        call = self._call
        try:
            self._answer, self._size = receive_answer(call, self._own, deadline)
        except LaneClosed:
            self._is_broken, self._error = True, closed_error(call)
        except RpcError as error:
            self._is_broken, self._error = True, error

    def _timeout_error(self) -> Exception:
        if debug_log.of_calls:
            debug_log.call(self._call, "timed out")
        return self._call.timeout_error()

    def _take_error(self) -> Exception:
        # Whoever raises an error that it keeps is kept by it.
        error, self._error = self._error, None
        assert error is not None, "neither an answer nor an error has come yet"
        return error

    def _end(self, *, failed: bool) -> None:
        if self._is_over:
            return
        self._is_over = True
        call = self._call
        peer = call.peer
        if self._charged_bytes:
            peer.credit.give_back(self._charged_bytes)
        peer.pipe.check_in(self._own, broken=self._is_broken)
        if call.lent_bytes:
            call.take_back()
        if self._is_sent and not self._size:
            self._gave_up(call)
        self._counts.call_ended(peer.info.name, self._size, failed=failed)
        if debug_log.of_calls:
            debug_log.call(call, "failed" if failed else "answered")
