"""A request that goes again after a failure that leaves the worker alive; it may run twice."""

# What it is about belongs to one life of the worker: it does not go to one that follows it.

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, Protocol

from fastdist.core.errors import RpcError, RpcNotRunningError
from fastdist.core.future import Future

from ..debug_log import debug_log
from ..message.types import OURS_ALONE

if TYPE_CHECKING:
    from fastdist.core.thread_pool import ThreadPool

    from ..message.types import MessageType
    from ..workers.progress import Progress
    from ..workers.worker import Worker

_RETRY_FIRST_S: Final = 1.0
_RETRY_FACTOR: Final = 1.5


class Sender(Protocol):
    """What sends the request each time, and remembers what waits for its next one."""

    rank: int
    pool: ThreadPool
    progress: Progress
    resends: set[Resend]

    def request(self, to: Worker, kind: MessageType) -> Future[Any]:
        """Send a request and return a Future of what the answer holds."""


class Resend:
    """A request that goes again until it succeeds, the worker dies, or its retries are used up."""

    def __init__(self, client: Sender, request: tuple[Any, ...], retries: int) -> None:
        executor = None if request[1] in OURS_ALONE else client.pool
        self.outcome: Future[Any] = Future(executor=executor)
        self._client = client
        self._request = request
        self._left = retries
        self._wait_s = _RETRY_FIRST_S

    def send(self) -> None:
        """Send once more."""
        try:
            self._client.request(*self._request).add_done_callback(self._look_at)
        except Exception as error:
            self._again_or(error)

    def _look_at(self, done: Future[Any]) -> None:
        error = done.exception()
        if error is None:
            self.outcome.try_complete(done.value())
        else:
            self._again_or(error)

    def _again_or(self, error: BaseException) -> None:
        to = self._request[0]
        # Of a life that is over, or where this worker was given up, nothing gets better.
        if self._left == 0 or to.is_dead or _ends_all(error):
            self.outcome.try_complete(error=error)
            return
        self._left -= 1
        debug_log.worker(
            self._client.rank,
            "%s to rank %d goes again in %.1f s, %d times at most: %s",
            *(self._request[1].name, to.id, self._wait_s, self._left + 1, error),
        )
        when = time.monotonic() + self._wait_s
        self._wait_s *= _RETRY_FACTOR
        progress, pool = self._client.progress, self._client.pool

        def resend() -> None:
            waiting.discard(self)
            if not pool.submit_uncounted(self.send):
                self.outcome.try_complete(error=error)

        waiting = self._client.resends
        waiting.add(self)
        progress.post(progress.call_at, when, resend)


def _ends_all(error: BaseException) -> bool:
    return not isinstance(error, RpcError) or isinstance(error, RpcNotRunningError)
