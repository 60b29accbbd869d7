"""Messages of other machines that belong to collectives, until the member that waits takes them."""

from __future__ import annotations

import threading
from collections import deque
from typing import Final

from fastdist.distributed.pipe.frames import Buffer

from .alarm import LOOK_S, Alarm, Waiting
from .wire import Head

# A member may be one collective ahead: what is of an earlier one came after its failure.
_MOST_TURNS_AHEAD: Final = 2


class Inbox:
    """Messages by sender, turn, kind and step; pieces of one array in the order of their arrival.

    Thread  put: the hub's reader; take: the one that carries out the group's collective
    """

    def __init__(self, alarm: Alarm) -> None:
        self._alarm = alarm
        # Guards all below it.
        self._changed = threading.Condition()
        self._messages: dict[tuple[int, int, int, int], deque[tuple[Head, list[Buffer]]]] = {}
        self._turn = 0
        alarm.wakers.append(self._wake)

    def put(self, head: Head, body: list[Buffer]) -> None:
        """Keep a message until it is taken; drop one of an earlier turn."""
        with self._changed:
            if not self._turn <= head.turn <= self._turn + _MOST_TURNS_AHEAD:
                return
            key = head.sender, head.turn, head.kind, head.step
            self._messages.setdefault(key, deque()).append((head, body))
            self._changed.notify_all()

    def begin(self, turn: int) -> None:
        """Forget what is of earlier turns."""
        with self._changed:
            self._turn = turn
            for key in [key for key in self._messages if key[1] < turn]:
                del self._messages[key]

    def take(
        self, sender: int, turn: int, kind: int, step: int, waiting: Waiting, grace_s: float = 0.0
    ) -> tuple[Head, list[Buffer]]:
        """Wait for the next message of a sender.

        Raises  the error of the alarm; CollectiveTimeoutError that names the sender
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
        """Return whether take would find a message at once."""
        with self._changed:
            return (sender, turn, kind, step) in self._messages

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()
