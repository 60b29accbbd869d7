"""Words to other workers that nobody waits for: told at once, or gathered and told together."""

# Note [Words that gather]
# References end in the garbage collector, in any thread, possibly with a lock of ours held, and
# contexts at the end of a short block. So a note is put into a SimpleQueue, which is safe for that,
# and a thread does what it says. A loop of short calls, or of short passes, makes many notes, none
# of them urgent: the first one wakes the thread, which lets others gather for a moment, and then
# tells each worker in one message of each kind.

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from queue import Empty, SimpleQueue
from typing import Any, Final

from fastdist.concurrency.future import Future
from fastdist.core.errors import RpcError, RpcNotRunningError
from fastdist.system.foreign_text import one_line

from .handlers import Reply
from .message.metadata import Value
from .message.types import MessageType
from .workers.worker import Worker

_logger = logging.getLogger(__name__)

NAME: Final = "fastdist-rpc-telling"
# What is told is kept so much longer where it lives: for some steps of a few milliseconds, a small
# part of a long one. With 5 ms a step of jobs over four processes took 5 to 10 % more processor
# time.
TOGETHER_S: Final = 0.02
_FLUSH_S: Final = 5.0
_MOST: Final = 1000  # what one message may hold
# What is told may be told twice, so it is repeated when it could not be told.
RETRIES: Final = 5

# What to do with all notes of its kind that are for one addressee.
Telling = Callable[[Any, Sequence[Any]], None]
# How an agent sends a request: RpcAgent.send.
Send = Callable[..., Future[Reply]]


class Teller:
    """What one agent tells others without waiting for them, and its thread for what gathers.

    Thread  any; `soon` also from a finalizer
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self._notes: SimpleQueue[tuple[Telling, Any, Any] | None] = SimpleQueue()
        # Something is put in when somebody waits for what was put above, and at the end.
        self._alarms: SimpleQueue[None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = False

    def start(self) -> None:
        """Have a thread."""
        self._thread = threading.Thread(target=self._run, name=NAME, daemon=True)
        self._thread.start()

    def tell(
        self,
        to: Worker,
        kind: MessageType,
        words: Mapping[str, Value],
        *,
        failure: str,
        retries: int = RETRIES,
        timeout_s: float = 0.0,
        level: int = logging.INFO,
        then: Callable[[Reply], None] | None = None,
    ) -> None:
        """Tell one worker now, unless it is over; up to `retries` times more where that fails.

        Never raises: what failed is logged after the text `failure`, at `level`. then(reply) is
        called with the answer, if one comes, in the thread that reads it.
        """

        def look(done: Future[Reply]) -> None:
            error = done.exception()
            if error is not None:
                # With one that has left meanwhile went all that it was told of.
                if not to.is_dead or to.why_lost:
                    _log(level, failure, to, error)
            elif then is not None:
                then(done.value())

        if to.is_dead:
            return
        try:
            told = self._send(to, kind, (), words, timeout_s=timeout_s, retries=retries)
        except Exception as error:  # one worker that cannot be told must not keep others unaware
            _log(level, failure, to, error)
            return
        told.add_done_callback(look)

    def soon(self, tell: Telling, addressee: Any, item: Any) -> None:
        """Let tell(addressee, [..., item, ...]) be called in a moment, from the thread.

        Note    nothing happens after `close`
        """
        if not self._closed:
            self._notes.put((tell, addressee, item))

    def flush(self) -> None:
        """Wait until all notes up to here have been told."""
        if self._thread is None or self._closed:
            return
        told = threading.Event()
        self.soon(lambda _, __: told.set(), None, None)
        self._alarms.put(None)
        told.wait(_FLUSH_S)

    def close(self) -> None:
        """Forget what was not told, and end the thread."""
        self._closed = True
        self._alarms.put(None)
        self._notes.put(None)
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def tell_gathered(self, *, sleep: bool = False) -> None:
        """Tell, in this thread, what has gathered.

        With sleep it waits for the first note, and a moment for others, or until somebody waits for
        them.
        """
        # In a function of its own, so that nothing that a note is about outlives the telling.
        notes = []
        if sleep:
            notes.append(self._notes.get())
            # An Event would make a lock and a dozen calls of Python of each of these naps.
            with contextlib.suppress(Empty):
                self._alarms.get(timeout=TOGETHER_S)
        while not self._closed:
            try:
                notes.append(self._notes.get_nowait())
            except Empty:
                break
        together: dict[tuple[Telling, Any], list[Any]] = {}
        for note in notes:
            if note is not None:
                tell, addressee, item = note
                try:
                    together.setdefault((tell, addressee), []).append(item)
                except Exception:
                    _logger.exception("a note of what is over here was lost")
        for (tell, addressee), items in together.items():
            for start in range(0, len(items), _MOST):
                try:
                    tell(addressee, items[start : start + _MOST])
                except RpcError:
                    _logger.info("what is over here could not be told", exc_info=True)
                except Exception:
                    # Whatever one note ran into, the next ones must be told.
                    _logger.exception("what is over here was not told to all that should know")

    def _run(self) -> None:
        while not self._closed:
            try:
                self.tell_gathered(sleep=True)
            except Exception:
                # The notes of this turn are lost; those that follow must be sent.
                _logger.exception("what is over here was not told to all that should know")


def _log(level: int, failure: str, to: Worker, error: BaseException) -> None:
    if isinstance(error, RpcNotRunningError):
        level = logging.INFO  # no news: all that others hold ends with it
    text = "%s on node %d: worker %r was not told: %s"
    _logger.log(level, text, failure, to.id, to.name, one_line(error))
