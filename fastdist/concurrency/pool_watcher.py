"""The thread that watches a thread pool for long work."""

from __future__ import annotations

import logging
import threading
from queue import Empty, SimpleQueue
from typing import Final, Protocol

_logger = logging.getLogger(__name__)

LOOK_EVERY_S: Final = 0.001
_LOOKS_BEFORE_SLEEP: Final = 3
# Seconds until the next check after a failed check.
_AFTER_FAILURE_S: Final = 0.5


class Pool(Protocol):
    """The interface of a pool that the watcher checks."""

    name: str

    def look(self, seen: int) -> tuple[int, bool, float]:
        """Check the pool. Return the number of units of work that the leader has run, whether to go
        on watching, and the seconds until the next check.
        """


class PoolWatcher:
    """The thread that checks a pool while it has work, and sleeps otherwise.

    Thread  any thread may read `awake`, without the lock
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        # Guards the next three attributes.
        self._lock = threading.RLock()
        self.awake = False
        self._stopped = False
        self._thread: threading.Thread | None = None
        self._alarms: SimpleQueue[None] = SimpleQueue()

    def attend(self, *, hurry: bool = False) -> None:
        """Start to watch, and go on while there is work. If the watcher is awake, this is cheap."""
        if self.awake:
            if hurry:
                self._alarms.put(None)
            return
        with self._lock:
            if self.awake or self._stopped or not (self._thread or self._start()):
                return
            self.awake = True
        self._alarms.put(None)

    def stop(self) -> None:
        """End the thread, and wait until it has ended."""
        with self._lock:
            self._stopped = True
            thread = self._thread
        self._alarms.put(None)
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _start(self) -> bool:
        thread = threading.Thread(target=self._watch, name=f"{self._pool.name}-watch", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            # Work continues without a watcher, and the next call of attend() tries again to start
            # one. An exception here would end the thread that reads messages.
            _logger.warning("the threads of %s are not watched: %s", self._pool.name, error)
            return False
        self._thread = thread
        return True

    def _watch(self) -> None:
        seen = quiet_looks = 0
        nap_s = LOOK_EVERY_S
        while not self._stopped:
            if quiet_looks < _LOOKS_BEFORE_SLEEP:
                self._nap(nap_s)
            else:
                # Clear `awake` first, then check. The check sees work that began earlier; work
                # that begins later finds the watcher asleep, and wakes it.
                self.awake = False
                if not self._look(-1)[1]:
                    self._alarms.get()
                self.awake = True
                quiet_looks = 0
            works_led, watching, nap_s = self._look(seen)
            quiet_looks = 0 if watching or works_led != seen else quiet_looks + 1
            seen = works_led

    def _look(self, seen: int) -> tuple[int, bool, float]:
        try:
            return self._pool.look(seen)
        except Exception:
            # For example, the pool could not start a thread. The watcher must not end: the pool
            # has no other watcher.
            _logger.exception("%s could not be checked for stuck threads", self._pool.name)
            return seen, True, _AFTER_FAILURE_S

    def _nap(self, seconds: float) -> None:
        try:
            self._alarms.get(timeout=seconds)
        except Empty:
            return
