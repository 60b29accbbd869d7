"""Notices to other workers, sent without waiting for an answer: immediately or in batches."""

# Note [Batches of notices]
# References end in the garbage collector, in any thread, possibly while that thread holds a lock of
# this package. Contexts end at the end of a short `with` block. The end of a reference or a context
# puts a note (the content of one notice) into a SimpleQueue, which is safe in a finalizer. A
# separate thread sends the notes. A loop of short calls or passes produces many notes, none of
# which is urgent. So the thread wakes at the first note, waits a moment for further notes, and then
# sends each worker all its notes of one kind in one message.
#
# On a busy machine the thread may get no core for tenths of a second. Meanwhile a loop of short
# passes ends dozens of contexts, and the workers that they reached keep the values of all of them:
# 4 MB instead of 0.7 in the digits demo. So the end of a context waits for the thread if it is
# late.

from __future__ import annotations

import contextlib
import logging
import threading
import time
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

NAME: Final = "fastdist-rpc-notices"
# Seconds for which notes are collected. The values that these notes release stay on their owners
# for that time. With 5 ms, jobs of four processes took 5 to 10 % more processor time per step.
TOGETHER_S: Final = 0.02
_FLUSH_S: Final = 5.0
# The thread is late if more notes than these wait, and it has sent none for so many seconds. The
# end of a context then waits for it, at most for a moment.
_FEW: Final = 16
_LATE_S: Final = 3 * TOGETHER_S
_FOR_A_MOMENT_S: Final = 0.25
_MOST: Final = 1000  # the most notes in one message
# How often a failed notice is sent again: a notice may arrive twice without harm.
RETRIES: Final = 5

# A function that sends all notes of one kind to one addressee: called as f(addressee, notes).
SendNotices = Callable[[Any, Sequence[Any]], None]
# The type of RpcAgent.send, which sends a request.
Send = Callable[..., Future[Reply]]


class NoticeSender:
    """Sends the notices of one agent, and runs the thread that sends batches.

    Thread  any; `enqueue` also from a finalizer
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self._notes: SimpleQueue[tuple[SendNotices, Any, Any] | None] = SimpleQueue()
        # `flush` and `close` put an item into this queue, to wake the thread early.
        self._alarms: SimpleQueue[None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._sent_at = time.monotonic()  # when the thread last had sent all notes
        # Whether there was ever a notice to send.
        self.was_used = False

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name=NAME, daemon=True)
        self._thread.start()

    def send(
        self,
        to: Worker,
        kind: MessageType,
        metadata: Mapping[str, Value],
        *,
        failure: str,
        retries: int = RETRIES,
        timeout_s: float = 0.0,
        level: int = logging.INFO,
        then: Callable[[Reply], None] | None = None,
    ) -> None:
        """Send one worker a notice now, unless the worker is dead; retry up to `retries` times.

        Never raises: an error is logged after the text `failure`, at `level`. If a reply arrives,
        then(reply) is called in the thread that reads the reply.
        """

        def look(done: Future[Reply]) -> None:
            error = done.exception()
            if error is not None:
                # Log nothing if the worker has left normally: that has released everything that the
                # notice is about.
                if not to.is_dead or to.why_lost:
                    _log(level, failure, to, error)
            elif then is not None:
                then(done.value())

        if to.is_dead:
            return
        self.was_used = True
        try:
            sent = self._send(to, kind, (), metadata, timeout_s=timeout_s, retries=retries)
        except Exception as error:  # not raised: the caller must still notify the other workers
            _log(level, failure, to, error)
            return
        sent.add_done_callback(look)

    def enqueue(self, send: SendNotices, addressee: Any, item: Any) -> None:
        """Add an item to the next batch: the thread calls send(addressee, [..., item, ...]).

        Note    does nothing after `close`
        """
        if not self._closed:
            self.was_used = True
            self._notes.put((send, addressee, item))

    def flush(self, timeout_s: float = _FLUSH_S) -> None:
        """Wait until all notes that were enqueued before this call have been sent."""
        if self._thread is None or self._closed:
            return
        sent = threading.Event()
        self.enqueue(lambda _, __: sent.set(), None, None)
        self._alarms.put(None)
        sent.wait(timeout_s)

    def wait_if_late(self) -> None:
        """Wait for the thread to send its notes if it is late. See Note [Batches of notices]."""
        if self._notes.qsize() > _FEW and time.monotonic() - self._sent_at > _LATE_S:
            self.flush(_FOR_A_MOMENT_S)

    def close(self) -> None:
        """Drop the remaining notes, and end the thread."""
        self._closed = True
        self._alarms.put(None)
        self._notes.put(None)
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def send_gathered(self, *, sleep: bool = False) -> None:
        """Send the collected notes in this thread.

        With `sleep`, first wait for one note, and then a moment for further notes; `flush` ends the
        second wait.
        """
        # This is not a part of `_run`, so that no variable of its loop refers to a note's objects.
        notes = []
        if sleep:
            notes.append(self._notes.get())
            # `_alarms` is not an Event: each wait for an Event creates a lock and runs a dozen
            # Python calls.
            with contextlib.suppress(Empty):
                self._alarms.get(timeout=TOGETHER_S)
        while not self._closed:
            try:
                notes.append(self._notes.get_nowait())
            except Empty:
                break
        together: dict[tuple[SendNotices, Any], list[Any]] = {}
        for note in notes:
            if note is not None:
                send, addressee, item = note
                try:
                    together.setdefault((send, addressee), []).append(item)
                except Exception:
                    _logger.exception("a notice of an ended context or reference was lost")
        for (send, addressee), items in together.items():
            for start in range(0, len(items), _MOST):
                try:
                    send(addressee, items[start : start + _MOST])
                except RpcError:
                    _logger.info(
                        "could not send notices of ended contexts or references", exc_info=True
                    )
                except Exception:
                    # An error with one batch must not stop the others.
                    _logger.exception("notices of ended contexts or references were not all sent")
        self._sent_at = time.monotonic()

    def _run(self) -> None:
        while not self._closed:
            try:
                self.send_gathered(sleep=True)
            except Exception:
                # The notes of this batch are lost; the next notes must be sent.
                _logger.exception("notices of ended contexts or references were not all sent")


def _log(level: int, failure: str, to: Worker, error: BaseException) -> None:
    if isinstance(error, RpcNotRunningError):
        level = logging.INFO  # expected: this worker's shutdown also ends what the notice is about
    text = "%s on node %d: worker %r was not notified: %s"
    _logger.log(level, text, failure, to.id, to.name, one_line(error))
