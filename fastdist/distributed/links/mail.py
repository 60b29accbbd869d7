"""send and recv: messages from one member to another, distinguished by tags."""

# A small message is sent immediately, and is stored at its receiver until recv is called. For a
# larger message, only an announcement is sent at first. The sender waits until the receiver has
# called recv and allocated memory, and then sends the data. One of every MOST_EAGER small messages
# is announced in the same way, so that no sender can fill the memory of a receiver that does not
# call recv.

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fastdist.core.errors import CollectiveMismatchError, CollectiveTimeoutError, MessageError
from fastdist.distributed.pipe.frames import Buffer
from fastdist.distributed.process_group.transport import Call
from fastdist.system.foreign_text import one_line, printable

from .alarm import LOOK_S, Alarm, Waiting
from .members import Members
from .wire import ANNOUNCE, CLEAR, PART, PIECE_BYTES, REFUSE, SEND, WITHDRAW, Head

EAGER_BYTES: Final = 64 << 10
# One of this many messages from one member to another with one tag waits for its receiver, even if
# it is small.
MOST_EAGER: Final = 64

Send = Callable[[int, Head, Sequence[Buffer], Call], None]


class _Letter:
    """A message that has arrived or was announced."""

    __slots__ = ("body", "number", "sender", "tag", "text", "total")

    def __init__(self, head: Head, text: bytes, body: Buffer | None) -> None:
        self.sender = head.sender
        self.number = head.turn
        self.tag = head.tag
        self.total = head.total
        self.text = text
        self.body = body  # None if the message was only announced, and its sender waits


class _Arrival:
    """Memory for the data of an announced message, and the number of bytes still missing."""

    def __init__(self, total: int) -> None:
        self.memory = np.empty(total, np.uint8)
        self.left = total
        self.is_withdrawn = False


class Mail:
    """The messages of send and recv in one group.

    Thread  send, receive: any, in parallel; arrived: the hub's reader
    """

    def __init__(
        self, rank: int, group: int, members: Members, alarm: Alarm, notice_s: float, send: Send
    ) -> None:
        self._rank = rank
        self._group = group
        self._members = members
        self._alarm = alarm
        self._notice_s = notice_s
        self._send = send
        # Guards the fields below.
        self._changed = threading.Condition()
        self._numbers = itertools.count()
        self._letters: deque[_Letter] = deque()
        self._arrivals: dict[tuple[int, int], _Arrival] = {}
        # The answers to this member's announced messages. None: there is no answer yet. "": the
        # message may be sent. Any other text is the reason why it may not be sent.
        self._answers: dict[tuple[int, int], str | None] = {}
        alarm.wakers.append(self._wake)

    def send(self, call: Call, array: NDArray[Any], to: int, tag: int) -> None:
        """Send an array; return when the array may be changed."""
        data = array.reshape(-1).view(np.uint8)
        total, text = data.nbytes, _text_of(call)
        with self._changed:
            number = next(self._numbers)
        is_eager = total <= EAGER_BYTES and call.sequence % MOST_EAGER != MOST_EAGER - 1
        head = Head(SEND, self._group, self._rank, number, total=total, tag=tag)
        if is_eager:
            self._send(to, head, (text, data.data), call)
            return
        with self._changed:
            self._answers[to, number] = None
        try:
            self._send(to, head._replace(kind=ANNOUNCE), (text,), call)
            self._await_clear(call, to, number)
        finally:
            with self._changed:
                del self._answers[to, number]
        for start in range(0, total, PIECE_BYTES):
            piece = data[start : start + PIECE_BYTES]
            part = head._replace(kind=PART, offset=start)
            self._send(to, part, (piece.data,), call)

    def receive(self, call: Call, array: NDArray[Any], sender: int | None, tag: int) -> int:
        """Fill an array with the next message of `sender` (None: any member); return the sender's
        rank.
        """
        # Calls of send and recv are compared under the name "recv", which both sides use.
        its = call._replace(name="recv")
        waiting = Waiting(its, self._members, self._alarm, self._notice_s)
        others = [one for one in range(len(self._members.records)) if one != self._rank]
        missing = others if sender is None else [sender]
        while True:
            letter = self._await_letter(waiting, missing, sender, tag)
            text = _text_of(call)
            if _shared(letter.text) != _shared(text) or letter.total != array.nbytes:
                raise self._mismatch(call, letter, array)
            if letter.body is not None:
                array.reshape(-1).view(np.uint8)[:] = np.frombuffer(letter.body, np.uint8)
                return letter.sender
            if self._fetch(call, waiting, letter, array):
                return letter.sender

    def arrived(self, head: Head, body: list[Buffer]) -> None:
        """Handle a message of send or recv.

        Raises  MessageError for an invalid message
        """
        key = head.sender, head.turn
        with self._changed:
            if head.kind in (SEND, ANNOUNCE):
                is_whole = head.kind == SEND
                if len(body) != 1 + is_whole or (is_whole and len(body[1]) != head.total):
                    raise MessageError(f"a message of {head.total} bytes has {len(body)} parts")
                self._letters.append(_Letter(head, bytes(body[0]), body[1] if is_whole else None))
            elif head.kind == PART:
                arrival = self._arrivals.get(key)
                if arrival is None:
                    return  # the call of recv has timed out or failed
                if head.total != len(arrival.memory) or len(body) != 1:
                    raise MessageError(f"a piece of a message of {head.total} bytes: not this one")
                piece = np.frombuffer(body[0], np.uint8)
                arrival.memory[head.offset : head.offset + len(piece)] = piece
                arrival.left -= len(piece)
            elif head.kind == WITHDRAW:
                self._letters = deque(
                    one for one in self._letters if (one.sender, one.number) != key
                )
                if key in self._arrivals:
                    self._arrivals[key].is_withdrawn = True
            elif key in self._answers:
                text = bytes(body[0]).decode(errors="replace") if head.kind == REFUSE else ""
                self._answers[key] = printable(text)
            self._changed.notify_all()

    def _await_clear(self, call: Call, to: int, number: int) -> None:
        waiting = Waiting(call, self._members, self._alarm, self._notice_s)
        with self._changed:
            try:
                while (answer := self._answers[to, number]) is None:
                    self._alarm.look()
                    self._changed.wait(min(waiting.look([to]), LOOK_S))
            except CollectiveTimeoutError:
                head = Head(WITHDRAW, self._group, self._rank, number)
                self._send(to, head, (b"",), call._replace(deadline=time.monotonic() + 1.0))
                raise
        if answer:
            raise CollectiveMismatchError(answer)

    def _await_letter(
        self, waiting: Waiting, missing: list[int], sender: int | None, tag: int
    ) -> _Letter:
        with self._changed:
            while True:
                for letter in self._letters:
                    if letter.tag == tag and sender in (None, letter.sender):
                        self._letters.remove(letter)
                        return letter
                self._alarm.look()
                self._changed.wait(min(waiting.look(missing), LOOK_S))

    def _fetch(self, call: Call, waiting: Waiting, letter: _Letter, array: NDArray[Any]) -> bool:
        """Request an announced message and copy its data to `array`; return False if the sender
        has withdrawn the message.
        """
        key = letter.sender, letter.number
        arrival = _Arrival(letter.total)
        with self._changed:
            self._arrivals[key] = arrival
        try:
            head = Head(CLEAR, self._group, self._rank, letter.number)
            self._send(letter.sender, head, (b"",), call)
            with self._changed:
                while arrival.left and not arrival.is_withdrawn:
                    self._alarm.look()
                    self._changed.wait(min(waiting.look([letter.sender]), LOOK_S))
        finally:
            with self._changed:
                del self._arrivals[key]
        if arrival.left:
            return False
        array.reshape(-1).view(np.uint8)[:] = arrival.memory
        return True

    def _mismatch(
        self, call: Call, letter: _Letter, array: NDArray[Any]
    ) -> CollectiveMismatchError:
        theirs, _, line = letter.text.decode(errors="replace").partition("\n")
        text = (
            f"{self._members.name(letter.sender)} sent {one_line(theirs)} ({letter.total} bytes) "
            f"at {one_line(line)}; {self._members.name(self._rank)} expected "
            f"{one_line(call.agreed)} ({array.nbytes} bytes) at {one_line(call.line)}"
        )
        if letter.body is None:
            head = Head(REFUSE, self._group, self._rank, letter.number)
            self._send(letter.sender, head, (text.encode(),), call)
        return CollectiveMismatchError(text)

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()


def _text_of(call: Call) -> bytes:
    return f"{call.agreed}\n{call.line}".encode(errors="replace")


def _shared(text: bytes) -> bytes:
    return text.partition(b"\n")[0]
