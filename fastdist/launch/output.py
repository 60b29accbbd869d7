"""The workers' output: read from their pipes, prefixed by rank, shown or held back."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from selectors import EVENT_READ, BaseSelector
from typing import IO, NamedTuple

from fastdist.distributed.constants import PREEMPTED_EXIT_STATUS
from fastdist.launch.failure_text import FailureText, refer_to
from fastdist.launch.log_files import LogFile
from fastdist.launch.output_lines import Line, LineSplitter
from fastdist.launch.screen import Screen
from fastdist.launch.worker_process import WorkerProcess

# A process that has printed its traceback usually ends soon. A busy machine, or exit handlers (RPC
# waits for running calls), may take a while. A process that lives longer had caught the error.
HELD_TEXT_S = 5.0
_READ_BYTES = 1 << 16
# The most reads from the pipe of an ended worker. A pipe holds at most a megabyte: more data comes
# from another process that still writes.
_LAST_READS = 32
_STATUS_OF_A_TRACEBACK = 1


@dataclass
class _Stream:
    """One pipe of one worker."""

    worker: WorkerProcess
    pipe: IO[bytes]
    is_stderr: bool
    log: LogFile | None
    splitter: LineSplitter = field(default_factory=LineSplitter)
    failure: FailureText = field(default_factory=FailureText)
    is_open: bool = True
    # Whether the last line was one that redraws itself, such as a progress bar.
    is_redrawn: bool = False

    @property
    def is_shown(self) -> bool:
        """Whether the screen shows the stream, and not only a log file."""
        return self.log is None or self.log.is_shown

    @property
    def written_to(self) -> str:
        """The log file of a stream that the screen does not show; empty if the screen shows it."""
        return "" if self.log is None or self.is_shown else self.log.path


class LastWords(NamedTuple):
    """The traceback with which a worker ended, and its start in time.monotonic().

    If a worker ended without a traceback, for example by sys.exit("text"), `reference` contains the
    last line of the worker's stderr, which is already on the screen. Otherwise it is empty.
    """

    text: list[bytes]
    began: float | None
    reference: list[bytes]


class Output:
    """The pipes of all workers of this node.

    Thread  only the launcher's main thread
    """

    def __init__(self, screen: Screen, selector: BaseSelector) -> None:
        self._screen = screen
        self._selector = selector
        self._streams: list[_Stream] = []
        self._is_listening = True

    def add(self, worker: WorkerProcess) -> None:
        """Start to show the output of a worker."""
        for pipe, is_stderr in ((worker.stdout, False), (worker.stderr, True)):
            stream = _Stream(worker, pipe, is_stderr, worker.logs[is_stderr])
            self._streams.append(stream)
            self._listen_to(stream)

    def forget(self, worker: WorkerProcess) -> None:
        """Drop the data of an ended worker that is replaced."""
        self._streams = [stream for stream in self._streams if stream.worker is not worker]

    def keep_pace(self) -> None:
        """Do not read the pipes while the screen is full, so that the workers block."""
        if self._screen.is_full != self._is_listening:
            return
        for stream in self._streams:
            if stream.is_open and self._is_listening:
                self._selector.unregister(stream.pipe)
            elif stream.is_open:
                self._listen_to(stream)
        self._is_listening = not self._is_listening

    def last_words(self, worker: WorkerProcess) -> LastWords:
        """Show the remaining output of an ended worker; return the worker's last traceback."""
        text: list[bytes] = []
        reference: list[bytes] = []
        began: float | None = None
        for stream in self._streams:
            if stream.worker is not worker:
                continue
            reads = 0
            while stream.is_open and reads < _LAST_READS and self._take(stream):
                reads += 1
            if stream.is_open:
                # Children of the worker may keep the pipe open, but the worker itself has ended.
                self._close(stream)
            if worker.status == 0:
                self._print(stream, stream.failure.release())
            elif stream.failure.since is not None:
                began = stream.failure.began
                text += stream.failure.release()
            elif worker.status == _STATUS_OF_A_TRACEBACK and stream.failure.shown:
                text.append(refer_to("traceback", stream.failure.shown, stream.written_to))
            elif stream.is_stderr and _has_failed(worker) and stream.failure.last_line:
                reference.append(refer_to("line", stream.failure.last_line, stream.written_to))
        worker.close()
        if worker.rank == 0:
            self._screen.redraw(b"")
        return LastWords(text, began, reference)

    def read_errors(self) -> None:
        """Read what stderr contains by now."""
        for stream in self._streams:
            if stream.is_stderr and stream.is_open:
                self._take(stream)

    def holds_text_of(self, worker: WorkerProcess) -> bool:
        """Return whether a worker has begun a traceback, and may therefore be about to end."""
        return any(s.worker is worker and s.failure.since is not None for s in self._streams)

    def print_held(self, rank: int, text: Sequence[bytes]) -> None:
        """Show held lines of a worker that did not fail after all."""
        for stream in self._streams:
            if stream.worker.rank == rank and stream.is_stderr:
                self._print(stream, text)

    def next_release(self) -> float | None:
        """Return the time.monotonic() at which held text must be shown if its worker still runs."""
        since = [s.failure.since for s in self._streams if s.failure.since is not None]
        return min(since) + HELD_TEXT_S if since else None

    def release_held(self, now: float) -> None:
        """Show the held tracebacks of workers that still run."""
        for stream in self._streams:
            if stream.failure.since is not None and now >= stream.failure.since + HELD_TEXT_S:
                self._print(stream, stream.failure.release())

    def _listen_to(self, stream: _Stream) -> None:
        self._selector.register(stream.pipe, EVENT_READ, lambda: self._take(stream))

    def _take(self, stream: _Stream) -> bool:
        """Read and show the contents of one pipe; return whether there may be more."""
        if not stream.is_open:
            # The stream was closed by another event of the same turn.
            return False
        try:
            chunk = os.read(stream.pipe.fileno(), _READ_BYTES)
        except BlockingIOError:
            return False
        if not chunk:
            self._close(stream)
            return False
        if stream.log is not None:
            stream.log.write(chunk)
        self._show(stream, stream.splitter.feed(chunk))
        return True

    def _close(self, stream: _Stream) -> None:
        if self._is_listening:
            self._selector.unregister(stream.pipe)
        stream.is_open = False
        if stream.log is not None:
            stream.log.close()
        self._show(stream, stream.splitter.finish())

    def _show(self, stream: _Stream, lines: Sequence[Line]) -> None:
        for line in lines:
            was_redrawn, stream.is_redrawn = stream.is_redrawn, line.redraws
            if line.redraws:
                # Only rank 0's line is redrawn, because ranks would overwrite each other's lines.
                if stream.worker.rank == 0 and stream.is_shown:
                    self._screen.redraw(line.text)
            elif stream.is_stderr:
                now = time.monotonic()
                self._print(stream, stream.failure.feed(line.text, now, is_redrawn=was_redrawn))
            else:
                self._print(stream, [line.text])

    def _print(self, stream: _Stream, lines: Sequence[bytes]) -> None:
        for text in lines if stream.is_shown else ():
            prefix = b"[rank %d] " % stream.worker.rank
            self._screen.print(prefix + text, to_stderr=stream.is_stderr)


def _has_failed(worker: WorkerProcess) -> bool:
    """Return whether a worker has ended with an exit status that reports an error."""
    return (worker.status or 0) > 0 and worker.status != PREEMPTED_EXIT_STATUS
