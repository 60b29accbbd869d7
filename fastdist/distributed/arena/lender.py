"""Lends large tensors to one peer through this process's arena, after an accepted offer."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from enum import Enum
from typing import Any, Final

from ..pipe.frames import Buffer
from .owner import Arena

# Smaller buffers are faster in the message: see the figures in arena/__init__.py.
LEAST_BYTES: Final = 192 << 10
# Negative ids, which no message has, for the blocks of offers.
offer_ids: Final = itertools.count(-1, -1)


class State(Enum):
    """Whether this worker has offered its arena to a peer, and what the peer answered."""

    UNTRIED = "no large tensor was sent there yet"
    OFFERED = "offered, and not answered yet"
    OPEN = ""
    REFUSED = "refused"
    CLOSED = "closed"


class Lender:
    """Lends blocks to one peer; tensors that it cannot lend go in the message.

    `offer(lender)` is called at the first large tensor. The peer's answer to the offer leads to a
    call of `open` or `refuse`.

    Thread  any
    """

    def __init__(self, offer: Callable[[Lender], None], least_bytes: int = LEAST_BYTES) -> None:
        self.least_bytes = least_bytes
        self._offer = offer
        # Guards the three attributes below. Senders read _arena without this lock.
        self._lock = threading.RLock()
        self._state = State.UNTRIED
        self._reason = ""
        self._arena: Arena | None = None
        # The lender of this process's GPU memory, if the peer may share GPU memory.
        self.devices: Any = None

    def arena(self) -> Arena | None:
        """Return the arena, or None until the peer has accepted it; make the offer if it is due."""
        arena = self._arena
        if arena is None and self._state is State.UNTRIED:
            self._offer_once()
        return arena

    def lend(self, data: Buffer, message_id: int) -> bytes | None:
        """Return the descriptor of a block with a copy of data; None if no block is available."""
        arena = self._arena
        if arena is not None:
            return arena.lend(data, self, message_id)
        if self._state is State.UNTRIED:
            self._offer_once()
        return None

    def end(self, message_id: int) -> None:
        """Take back the untaken blocks of a message whose call has ended."""
        arena = self._arena
        if arena is not None:
            arena.end(message_id)

    def renew_if_untaken(self, message_id: int) -> bool:
        """Return whether a lost message may be sent again: none of its blocks was taken."""
        arena = self._arena
        return arena is not None and arena.renew_if_untaken(message_id)

    def open(self, arena: Arena) -> None:
        """Lend blocks of arena from now on: the peer has proved that it can read them."""
        with self._lock:
            # State and arena change in one step: a concurrent close must return the arena, so that
            # its blocks are taken back.
            if self._state is State.OFFERED:
                self._state, self._arena = State.OPEN, arena

    def refuse(self, reason: str) -> None:
        """Send all tensors in messages: the peer cannot share the memory."""
        self._reason = reason
        self._move(State.OFFERED, State.REFUSED)

    def offer_again(self) -> None:
        """Allow another offer at the next large tensor, as there was no answer."""
        self._move(State.OFFERED, State.UNTRIED)

    def connection_broke(self) -> None:
        """Schedule the return of blocks whose messages were lost with the connection."""
        arena = self._arena
        if arena is not None:
            arena.connection_broke(self)

    def close(self) -> Arena | None:
        """Stop lending; return the arena if the peer may still hold blocks of it."""
        with self._lock:
            self._state = State.CLOSED
            arena, self._arena = self._arena, None
            return arena

    @property
    def why_refused(self) -> str | None:
        """Why there will never be an arena; None while there may be one."""
        if self._state in (State.REFUSED, State.CLOSED):
            return self._reason or self._state.value
        return None

    def describe(self) -> str:
        """Return the channel for large tensors, and the reason."""
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
