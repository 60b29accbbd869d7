"""The way of large tensors to one peer: through this process's arena, once both have proved it."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from enum import Enum
from typing import Any, Final

from ..pipe.frames import Buffer
from .owner import Arena

# Smaller buffers are cheaper in the message: see the figures in the room's note.
LEAST_BYTES: Final = 192 << 10
# Ids that no message has, for what the blocks of offers are lent for.
offer_ids: Final = itertools.count(-1, -1)


class State(Enum):
    """How far a peer and this worker are on the way to common memory."""

    UNTRIED = "no large tensor was sent there yet"
    OFFERED = "offered, and not answered yet"
    OPEN = ""
    REFUSED = "refused"
    CLOSED = "closed"


class Lender:
    """Lends blocks to one peer; where it cannot, tensors travel in the message.

    `offer(lender)` is called at the first tensor that is large, and leads to open or refuse.

    Thread  any
    """

    def __init__(self, offer: Callable[[Lender], None], least_bytes: int = LEAST_BYTES) -> None:
        self.least_bytes = least_bytes
        self._offer = offer
        # Guards the three below it. A sender reads _arena alone, without it.
        self._lock = threading.RLock()
        self._state = State.UNTRIED
        self._reason = ""
        self._arena: Arena | None = None
        # The lender of this process's GPU memory, where the peer may have some.
        self.devices: Any = None

    def arena(self) -> Arena | None:
        """Return the arena from which it lends; None until it is open, for which it is offered."""
        arena = self._arena
        if arena is None and self._state is State.UNTRIED:
            self._offer_once()
        return arena

    def lend(self, data: Buffer, message_id: int) -> bytes | None:
        """Return the descriptor of a block with a copy of data; None if it must go otherwise."""
        arena = self._arena
        if arena is not None:
            return arena.lend(data, self, message_id)
        if self._state is State.UNTRIED:
            self._offer_once()
        return None

    def end(self, message_id: int) -> None:
        """Take back what a message lent and nobody took: its call is over."""
        arena = self._arena
        if arena is not None:
            arena.end(message_id)

    def renew_if_untaken(self, message_id: int) -> bool:
        """Return whether a message that was lost may be sent again: what it lent lies untaken."""
        arena = self._arena
        return arena is not None and arena.renew_if_untaken(message_id)

    def open(self, arena: Arena) -> None:
        """Lend blocks of arena from now on: the peer has proved that it sees them."""
        with self._lock:
            # Both at once: who closes this in between would not see what must be taken back.
            if self._state is State.OFFERED:
                self._state, self._arena = State.OPEN, arena

    def refuse(self, reason: str) -> None:
        """Send all tensors in messages: the memory is not common."""
        self._reason = reason
        self._move(State.OFFERED, State.REFUSED)

    def offer_again(self) -> None:
        """Offer again at the next large tensor: there was no answer."""
        self._move(State.OFFERED, State.UNTRIED)

    def connection_broke(self) -> None:
        """Take back, when it cannot be on its way any more, what was lost with the connection."""
        arena = self._arena
        if arena is not None:
            arena.connection_broke(self)

    def close(self) -> Arena | None:
        """Lend nothing any more; return the arena of which the peer may still hold blocks."""
        with self._lock:
            self._state = State.CLOSED
            arena, self._arena = self._arena, None
            return arena

    @property
    def why_refused(self) -> str | None:
        """Why there will never be an arena; None while there may."""
        if self._state in (State.REFUSED, State.CLOSED):
            return self._reason or self._state.value
        return None

    def describe(self) -> str:
        """Return by which way large tensors go, and why."""
        state = self._state
        if state is State.OPEN:
            return "large tensors by arena"
        return f"large tensors in messages ({self._reason or state.value})"

    def _offer_once(self) -> None:
        if self._move(State.UNTRIED, State.OFFERED):
            self._offer(self)

    def _move(self, before: State, after: State) -> bool:
        with self._lock:
            if self._state is not before:
                return False
            self._state = after
            return True
