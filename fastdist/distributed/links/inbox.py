"""Messages from other machines that wait until a member's collective takes them."""

from __future__ import annotations

import threading
from collections import deque
from typing import Final

from fastdist.distributed.pipe.frames import Buffer

from .alarm import LOOK_S, Alarm, Waiting
from .wire import Head

# Messages of turns further ahead than this are dropped: a member is at most one collective ahead.
# Messages of earlier turns are dropped too, because they belong to a collective that failed.
_MOST_TURNS_AHEAD: Final = 2


class Inbox:
    """Messages by sender, turn, kind and step; pieces of one array stay in order.

    Thread  put: the hub's reader; take: the thread that runs the group's collective
    """

    def __init__(self, alarm: Alarm) -> None:
        self._alarm = alarm
        # Guards the fields below.
        self._changed = threading.Condition()
        self._messages: dict[tuple[int, int, int, int], deque[tuple[Head, list[Buffer]]]] = {}
        self._turn = 0
        alarm.wakers.append(self._wake)

    def put(self, head: Head, body: list[Buffer]) -> None:
        """Store a message until it is taken; drop it if its turn is over or too far ahead."""
        with self._changed:
            if not self._turn <= head.turn <= self._turn + _MOST_TURNS_AHEAD:
                return
            key = head.sender, head.turn, head.kind, head.step
            self._messages.setdefault(key, deque()).append((head, body))
            self._changed.notify_all()

    def begin(self, turn: int) -> None:
        """Begin a turn, and drop the messages of earlier turns."""
        with self._changed:
            self._turn = turn
            for key in [key for key in self._messages if key[1] < turn]:
                del self._messages[key]

    def take(
        self, sender: int, turn: int, kind: int, step: int, waiting: Waiting, grace_s: float = 0.0
    ) -> tuple[Head, list[Buffer]]:
        """Wait for the next message from a sender, and return it.

        Raises  the error of the alarm; CollectiveTimeoutError with the name of the sender
        """
        key = sender, turn, kind, step
        with self._changed:
            while True:
                found = self._messages.get(key)
                if found:
                    message = found.popleft()
                    if not found:
                        del self._messages[key]
                    return message
                self._alarm.look()
                self._changed.wait(min(waiting.look([sender], grace_s), LOOK_S))

    def has(self, sender: int, turn: int, kind: int, step: int) -> bool:
        """Return whether `take` would find a message without waiting."""
        with self._changed:
            return (sender, turn, kind, step) in self._messages

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()
