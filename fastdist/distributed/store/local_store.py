"""The base of stores whose dictionary is in this process; threads wait for its changes."""

from __future__ import annotations

import copy
import itertools
import math
import threading
import time
from collections import deque
from collections.abc import Iterator

from fastdist.core.errors import StoreError
from fastdist.distributed.sockets import Doorbell

from .answers import Timeout, require_ok
from .requests import Answer, Op, Request, Status
from .state import StoreState
from .store import DEFAULT_TIMEOUT, Change, Store, Watch


class LocalStore(Store):
    """The base of HashStore and FileStore: one StoreState, one condition, a ticket per waiter."""

    # False for a store that finds changes by polling, so that no descriptor can report them.
    _hears_of_changes = True

    def __init__(self, timeout: Timeout = DEFAULT_TIMEOUT) -> None:
        super().__init__(timeout)
        self._state = StoreState()
        # Guards _state and all attributes below. Waiting threads sleep on this condition. No
        # callback runs while it is held.
        self._changed = threading.Condition()
        self._answers: dict[int, Answer] = {}
        self._watches: dict[int, LocalWatch] = {}
        self._tickets = itertools.count(1)
        self._is_closed = False

    def watch(self, prefix: str) -> Watch:
        """Return a watch on all keys that begin with `prefix`; close the watch after use."""
        self._require_own_process()
        with self._changed:
            self._require_open()
            watch = LocalWatch(self, next(self._tickets))
            self._watches[watch.ticket] = watch
            request = Request(Op.WATCH, [prefix.encode()], watch.ticket, math.inf)
            self._deliver(self._state.submit(request, time.monotonic()))
            self._answers.pop(watch.ticket)
            return watch

    def close(self) -> None:
        """Close the store; waiting calls of other threads raise StoreError. Repeats do nothing."""
        if self._is_forked():
            return
        with self._changed:
            self._is_closed = True
            for watch in self._watches.values():
                watch.hush()
            self._changed.notify_all()

    def clone(self) -> LocalStore:
        """Return another store with the same keys and its own timeout; close both stores."""
        return copy.copy(self)

    def _ask(self, op: Op, arguments: list[bytes], timeout: Timeout | None = None) -> list[bytes]:
        self._require_own_process()
        waited_s = self._seconds(timeout)
        deadline = time.monotonic() + waited_s
        with self._changed:
            self._require_open()
            ticket = next(self._tickets)
            self._submit(Request(op, arguments, ticket, deadline))
            pauses = self._pauses()
            while ticket not in self._answers:
                remaining_s = max(0.0, deadline - time.monotonic())
                self._changed.wait(min(remaining_s, next(pauses)))
                self._require_open()
                self._refresh()
                self._deliver(self._state.expire(time.monotonic()))
            answer = self._answers.pop(ticket)
        return require_ok(repr(self), op, arguments, answer.status, answer.frames, waited_s)

    def _submit(self, request: Request) -> None:
        """Apply a request of this process; _changed is held."""
        self._deliver(self._state.submit(request, time.monotonic()))

    def _refresh(self) -> None:
        """Apply the requests of other processes; _changed is held."""

    def _pauses(self) -> Iterator[float]:
        """Return the pauses between calls of _refresh while a thread waits."""
        return itertools.repeat(math.inf)

    def _deliver(self, answers: list[Answer]) -> None:
        for answer in answers:
            ticket = answer.owner
            assert isinstance(ticket, int)
            if answer.status is Status.CHANGED:
                self._watches[ticket].put(answer.frames)
            else:
                self._answers[ticket] = answer
        if answers:
            self._changed.notify_all()

    def _require_open(self) -> None:
        if self._is_closed:
            raise StoreError(f"{self!r} is closed")


class LocalWatch(Watch):
    """The watch of a LocalStore."""

    def __init__(self, store: LocalStore, ticket: int) -> None:
        self.ticket = ticket
        self._store = store
        self._changes: deque[Change] = deque()
        self._bell = Doorbell()

    def put(self, frames: list[bytes]) -> None:
        """Add one change; the store's condition is held."""
        key, is_there, value = frames
        name = key.decode(errors="replace")
        self._changes.append(Change(name, value if is_there == b"1" else None))
        self._bell.ring()

    def next(self, timeout: Timeout | None = None) -> Change | None:
        """Wait for the next change and return it; None at the timeout (the store's by default)."""
        store = self._store
        store._require_own_process()
        deadline = time.monotonic() + store._seconds(timeout)
        with store._changed:
            pauses = store._pauses()
            while True:
                store._require_open()
                store._refresh()
                if self._changes:
                    return self._changes.popleft()
                self._bell.clear()
                remaining_s = deadline - time.monotonic()
                if remaining_s <= 0:
                    return None
                store._changed.wait(min(remaining_s, next(pauses)))

    def fileno(self) -> int | None:
        """Return a descriptor for poll; None if `next` must be called repeatedly instead."""
        return self._bell.fileno() if self._store._hears_of_changes else None

    def close(self) -> None:
        """End the watch; a second call does nothing."""
        with self._store._changed:
            self._store._watches.pop(self.ticket, None)
            self._store._state.unwatch([self.ticket])
        self.hush()

    def hush(self) -> None:
        """Close the descriptor."""
        self._bell.close()
