"""The watch of a TCPStore."""

from __future__ import annotations

import threading
import time
from typing import Any

from fastdist.core.errors import StoreError

from .answers import Timeout
from .connection import Connection
from .store import Change, Watch


class ServedWatch(Watch):
    """A watch with a separate connection, on which the server sends unrequested messages."""

    def __init__(self, store: Any, connection: Connection) -> None:
        self._store = store
        # Held while a thread uses the connection: `next` holds this lock while it waits, so `close`
        # in another thread waits until `next` returns.
        self._connection_lock = threading.RLock()
        self._connection: Connection | None = connection

    def next(self, timeout: Timeout | None = None) -> Change | None:
        deadline = time.monotonic() + self._store._seconds(timeout)
        with self._connection_lock:
            if self._connection is None:
                raise StoreError(f"this watch on {self._store!r} is closed")
            try:
                reply = self._connection.receive(deadline)
            except StoreError:
                self.close()
                raise
            if reply is None:
                return None
            # After the answer to WATCH only changes arrive on this connection.
            if len(reply.frames) != 3:
                raise StoreError(f"{self._store!r} reported a change in {len(reply.frames)} frames")
            key, is_there, value = reply.frames
            return Change(key.decode(errors="replace"), value if is_there == b"1" else None)

    def fileno(self) -> int | None:
        return None if self._connection is None else self._connection.fileno()

    def close(self) -> None:
        with self._connection_lock:
            connection, self._connection = self._connection, None
        if connection is not None:
            # The server removes the watch when this connection ends.
            self._store._end_watch(self, connection)
