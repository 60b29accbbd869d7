"""A request on a lane of its own, whose sender waits for the answer itself."""

from __future__ import annotations

import time
from typing import Any, Final

from fastdist.core.errors import GivenUpError, RpcError, WorkerLostError
from fastdist.core.thread_pool import hand_on_lead
from fastdist.distributed.pipe.lane import LaneClosed, LaneInDoubt, LaneTimeout
from fastdist.distributed.pipe.pipe import OwnLane

from ..message.error_parts import fresh
from ..message.layout import NO_CALL
from ..message.message import Message
from ..message.types import MessageType
from ..workers.inquiry import ask_about, read_findings
from .outgoing import Call, bytes_of, open_answer

ASK_EVERY_S: Final = 2.0


class LaneCall(Call):
    """Ends in the thread that waits for it, to which the answer comes with no hop.

    Once it was sent, it must be ended by `wait`, `result` or `give_up`.

    Thread  one at a time
    """

    _answer: Message | None = None
    _size = 0
    _error: Exception | None = None
    # Whether the lane cannot be used again: nobody knows what it will bring.
    _is_broken = False
    _is_sent = _is_over = False
    _asked_at = 0.0

    def send(self, own: OwnLane, size_bytes: int) -> None:
        """Send the request; what the lane runs into is heard by who waits."""
        self._own = own
        self._client.counts.call_sent(self.peer.info.name, size_bytes)
        hand_on_lead()
        try:
            if own.greeting is not None:
                own.send_greeting(self.deadline)
            own.lane.send(self.frames, self.deadline)
            self._is_sent = True
        except LaneTimeout:
            self.message.was_lost()
            self._error = self.timeout_error()
        except LaneClosed:
            self._is_broken, self._error = True, self._closed_error()
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
                self._ask()
            return False
        return True

    def wait(self) -> Any:
        """Wait for the answer, until the call's deadline, and return what it holds.

        Raises  what the callee raised; RpcTimeoutError; WorkerLostError
        """
        if self._answer is None and self._error is None:
            try:
                self._receive(self.deadline)
            except LaneTimeout:
                # By another connection, maybe, which the peer does not listen to before a greeting;
                # and with the former one what the answer lent was lost.
                self._own.lane.try_send(self._own.greet())
                self._own.lane.try_send(self.cancel())
                self._error = self.timeout_error()
            except BaseException:
                self._is_broken = True
                self._end(failed=True)
                raise
        return self.result()

    def result(self) -> Any:
        """Return what the answer holds, which has come; its tensors have passed the interceptors.

        Raises  what the callee raised; WorkerLostError
        """
        answer, failed = self._answer, True
        is_refused = answer is not None and answer.message_id == NO_CALL
        try:
            if answer is None:
                raise self._take_error()
            if is_refused:
                # The peer does not know this worker, and has not taken the call in.
                self.message.was_lost()
            value = open_answer(answer, self)
            failed = False
            return value
        except GivenUpError as error:
            if is_refused:
                self.peer.refuse_and_wait(error)
            raise
        finally:
            self._is_broken |= is_refused
            self._end(failed=failed)

    def give_up(self) -> None:
        """Do without the answer; nothing happens if it was taken."""
        # Not broken: what comes late is dropped.
        self._end(failed=True)

    def _receive(self, deadline: float | None) -> None:
        try:
            self._answer, self._size = self._receive_answer(deadline)
        except LaneClosed:
            self._is_broken, self._error = True, self._closed_error()
        except RpcError as error:
            self._is_broken, self._error = True, error

    def _receive_answer(self, deadline: float | None) -> tuple[Message, int]:
        """Return the answer, or the refusal of the greeting, through all that may happen to the
        lane's connection; and its size.

        Whenever the connection may have been replaced the other end is asked, and if the call was
        lost on its way it is sent again.

        Raises  LaneTimeout, LaneClosed; WorkerLostError if the answer is lost
        """
        own = self._own
        while True:
            try:
                frames = own.lane.receive(deadline)
            except LaneInDoubt:
                self._ask()
                continue
            answer = self.peer.decode(frames)
            if answer.message_id == self.message.message_id:
                if answer.type != MessageType.GREET_FIRST:
                    return answer, bytes_of(answer, frames)
                self._ask()
            elif answer.message_id == NO_CALL:
                if answer.type != MessageType.FINDINGS:
                    return answer, bytes_of(answer, frames)
                serial, never_came, gone = read_findings(answer)
                if serial != own.serial:
                    continue
                own.serial += 1  # used up: a copy does not know of a call that went again since
                if self.message.message_id in never_came:
                    again = self.frames_again()
                    if not again:
                        raise self.lost_error(may_have_run=self.was_taken())
                    own.lane.send(again, deadline)
                elif self.message.message_id in gone:
                    raise self.lost_error(may_have_run=True)
            # Else it is of a call that took too long, whose caller has been told so.

    def _ask(self) -> None:
        """Greet again, and ask what became of the call."""
        own = self._own
        own.serial += 1
        # What cannot leave now would be asked for nothing: the connection has broken again.
        if own.lane.try_send(own.greet()):
            own.lane.try_send(ask_about(own.serial, [self.message.message_id]))

    def _closed_error(self) -> Exception:
        error = self.peer.pipe.error
        if error is None:
            error = WorkerLostError(f"the lane of {self.describe()} was closed")
        return fresh(error)

    def _take_error(self) -> Exception:
        # Whoever raises an error that it keeps is kept by it.
        error, self._error = self._error, None
        assert error is not None, "neither an answer nor an error has come yet"
        return error

    def _end(self, *, failed: bool) -> None:
        if self._is_over:
            return
        self._is_over = True
        self.peer.pipe.check_in(self._own, broken=self._is_broken)
        if self._is_sent and not self._size:
            self._client.give_up(self)
        self._settle(self._size, failed=failed)
