"""The launcher's signals as bytes on a pipe, for a selector."""

from __future__ import annotations

import os
import signal
from types import FrameType, TracebackType

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Signals that notify a program and do not end it, for example by Slurm's --signal.
_PASSED_ON = (signal.SIGUSR1, signal.SIGUSR2)


class SignalPipe:
    """Receives signals inside its `with` block: signals that end, suspend or notify a job, and
    SIGCHLD and SIGWINCH.

    Thread  main thread only, as Python requires
    Note    uses handlers: workers would inherit a mask of blocked signals, and ignore Ctrl-C
    """

    def __init__(self) -> None:
        self._read_fd, self._write_fd = os.pipe()
        os.set_blocking(self._read_fd, False)
        # Python rejects a wake-up pipe that could block a signal handler.
        os.set_blocking(self._write_fd, False)
        self._former: dict[signal.Signals, object] = {}
        self._former_fd = -1

    def __enter__(self) -> SignalPipe:
        self._former_fd = signal.set_wakeup_fd(self._write_fd, warn_on_full_buffer=False)
        for number in (*_ENDING, *_PASSED_ON, signal.SIGTSTP, signal.SIGCHLD, signal.SIGWINCH):
            ignored = signal.getsignal(number) is signal.SIG_IGN
            if number in (signal.SIGHUP, signal.SIGTSTP, *_PASSED_ON) and ignored:
                # As with nohup: the job survives the terminal. Workers inherit this.
                continue
            self._former[number] = signal.signal(number, _do_nothing)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._former.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        signal.set_wakeup_fd(self._former_fd)
        os.close(self._read_fd)
        os.close(self._write_fd)

    def fileno(self) -> int:
        """Return a descriptor that is readable while signals are pending."""
        return self._read_fd

    def take(self) -> list[signal.Signals]:
        """Return the signals since the last call, in order."""
        try:
            return [signal.Signals(number) for number in os.read(self._read_fd, 4096)]
        except BlockingIOError:
            return []


def suspend_process() -> None:
    """Stop this process as an unhandled Ctrl-Z would; return when it is continued."""
    handler = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
    signal.raise_signal(signal.SIGTSTP)
    signal.signal(signal.SIGTSTP, handler)


def _do_nothing(number: int, frame: FrameType | None) -> None:
    """Do nothing: Python writes to the pipe only for signals with a handler."""


def is_ending(number: signal.Signals) -> bool:
    """Return whether the signal requests the end of the job."""
    return number in _ENDING


def comes_twice(number: signal.Signals) -> bool:
    """Return whether one request arrives as two signals in quick succession.

    A shell and the kernel both send SIGHUP when a terminal closes. GNU's `timeout` sends a signal
    to its child, and then again to its process group.
    """
    if number is signal.SIGHUP:
        return True
    try:
        with open(f"/proc/{os.getppid()}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().strip() == "timeout"
    except OSError:
        return False


def is_passed_on(number: signal.Signals) -> bool:
    """Return whether the signal is forwarded to the workers' programs."""
    return number in _PASSED_ON
