"""The thread that tells other workers which contexts are over, many in one message."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ...core.future import Future
from ..rpc.agent import get_current_agent
from ..rpc.message_types import MessageType

_logger = logging.getLogger(__name__)

NAME = "fastdist-autograd-clean-up"
NUM_CLEANUP_CONTEXT_RETRIES = 20
# Releases that come within this time travel together: a loop of short passes then sends one
# message now and then, instead of one more for each pass.
TOGETHER_S = 0.005
# After so long without a release the thread sleeps until the next one wakes it.
AWAKE_S = 0.2


class Cleaner:
    """Collects releases for each worker, and hands them to `tell(worker id, context ids)`.

    Thread  any may add; `_condition` guards all below it. Nothing is told while it is held
    """

    def __init__(self, tell: Callable[[int, Sequence[int]], None]) -> None:
        self._tell = tell
        self._condition = threading.Condition(threading.Lock())
        self._waiting: dict[int, list[int]] = {}
        self._thread: threading.Thread | None = None
        self._is_asleep = False

    def add(self, worker_ids: Iterable[int], context_id: int) -> None:
        """Let workers hear, soon, that a context is over."""
        with self._condition:
            for worker_id in worker_ids:
                self._waiting.setdefault(worker_id, []).append(context_id)
            if self._is_asleep:
                self._condition.notify()
            elif self._thread is None:
                thread = threading.Thread(target=self._loop, name=NAME, daemon=True)
                thread.start()
                self._thread = thread

    def flush(self) -> None:
        """Tell, in this thread, what waits to be told."""
        with self._condition:
            waiting, self._waiting = self._waiting, {}
        for worker_id, context_ids in waiting.items():
            self._tell(worker_id, context_ids)

    def stop(self) -> None:
        """Forget what waits, and end the thread; a later release starts a new one."""
        with self._condition:
            thread, self._thread = self._thread, None
            self._waiting.clear()
            self._is_asleep = False
            # All: a later thread may have begun to wait before the one that ends here has woken.
            self._condition.notify_all()
        if thread is not None:
            thread.join()

    def _loop(self) -> None:
        idle_s = 0.0
        while self._wait_for_some(may_sleep=idle_s >= AWAKE_S):
            idle_s = 0.0 if self._waiting else idle_s + TOGETHER_S
            try:
                self.flush()
            except Exception:
                # Whatever one message ran into, the next ones must go out.
                _logger.exception("contexts were not released on other workers")

    def _wait_for_some(self, *, may_sleep: bool) -> bool:
        """Wait for what may travel together, after sleeping for its first; False at the end."""
        me = threading.current_thread()

        def is_over() -> bool:
            # Asked of the thread, not of a flag: a release may start another one before this ends.
            return self._thread is not me

        with self._condition:
            if may_sleep and not is_over():
                self._is_asleep = True
                self._condition.wait_for(lambda: self._waiting or is_over())
                if not is_over():
                    self._is_asleep = False
            # Nobody wakes this thread now, so a release costs its caller nothing but an entry.
            self._condition.wait_for(is_over, TOGETHER_S)
            return not is_over()


def ask_to_release(worker_id: int, context_ids: Sequence[int]) -> None:
    """Tell one worker; what comes of it is logged, and nobody waits for it."""

    def look(done: Future[Any]) -> None:
        error = done.exception()
        if error is not None:
            _log_not_released(worker_id, error)

    try:
        future = get_current_agent().send(
            worker_id,
            MessageType.CLEANUP_AUTOGRAD_CONTEXT_REQ,
            (),
            {"context_ids": [*context_ids]},
            retries=NUM_CLEANUP_CONTEXT_RETRIES,
        )
    except Exception as error:  # one dead worker must not keep the others from hearing of it
        _log_not_released(worker_id, error)
        return
    future.add_done_callback(look)


def _log_not_released(worker_id: int, error: BaseException) -> None:
    _logger.info("Could not release Dist Autograd Context on node %d: %s", worker_id, error)
