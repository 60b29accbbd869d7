"""Log files of the workers' output: one per stream, worker and start of the worker."""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass

from fastdist.core.errors import FastdistError

# Bits of the numbers by which torchrun selects streams.
STDOUT, STDERR = 1, 2
_BOTH = STDOUT | STDERR
_OF_ONE = re.compile(r"([0-9]{1,9}):([0-3])")


@dataclass(frozen=True)
class LogOptions:
    """The streams that are written to log files below `folder` (`kept`), and the streams that the
    screen shows (`shown`); the index is the local rank.
    """

    folder: str
    kept: tuple[int, ...]
    shown: tuple[int, ...]


def log_options(
    folder: str | None, redirects: str | None, tee: str | None, workers: int
) -> LogOptions | None:
    """Return the log settings of the command line; None if no stream is written to a log file.

    Raises  ValueError for streams that are not in torchrun's format
    """
    if redirects is None and tee is None:
        tee = "0" if folder is None else str(_BOTH)
    alone = _streams("--redirects", "0" if redirects is None else redirects, workers)
    teed = _streams("--tee", "0" if tee is None else tee, workers)
    kept = tuple(one | other for one, other in zip(alone, teed))
    if not any(kept):
        return None
    shown = tuple(~one | other for one, other in zip(alone, teed))
    return LogOptions(tempfile.gettempdir() if folder is None else folder, kept, shown)


def _streams(flag: str, text: str, workers: int) -> tuple[int, ...]:
    if re.fullmatch("[0-3]", text):
        return (int(text),) * workers
    streams = [0] * workers
    for part in text.split(","):
        match = _OF_ONE.fullmatch(part)
        if match is None or int(match[1]) >= workers:
            raise ValueError(
                f"{flag} must be 0 (none), 1 (stdout), 2 (stderr) or 3 (both), or that for some "
                f"local ranks of {workers}, such as 0:3,1:2; got {text!r}"
            )
        streams[int(match[1])] = int(match[2])
    return tuple(streams)


class LogFile:
    """One stream of one worker. If its file becomes unwritable, the screen shows the rest.

    Thread  only the launcher's main thread
    """

    def __init__(self, path: str, *, is_shown: bool, complain: Callable[[str], None]) -> None:
        self.path = path
        # Whether the screen shows the stream as well.
        self.is_shown = is_shown
        self._complain = complain
        self._fd: int | None = None
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        except OSError as error:
            self._give_up(error)

    def write(self, data: bytes) -> None:
        """Write data from the worker."""
        left = memoryview(data)
        try:
            while left and self._fd is not None:
                left = left[os.write(self._fd, left) :]
        except OSError as error:
            self._give_up(error)

    def close(self) -> None:
        """Close the file; a second call has no effect."""
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)

    def _give_up(self, error: OSError) -> None:
        self.close()
        self.is_shown = True
        self._complain(
            f"{self.path} cannot be written ({error.strerror}): from now on its worker's output "
            "is only shown here"
        )


class LogFolder:
    """A new folder for one run's logs: attempt_0/RANK/stdout.log and so on, as in torchrun.

    Raises  FastdistError if the folder cannot be created
    """

    def __init__(self, options: LogOptions, complain: Callable[[str], None]) -> None:
        self._options = options
        self._complain = complain
        prefix = time.strftime("%Y%m%d-%H%M%S-")
        try:
            os.makedirs(options.folder, exist_ok=True)
            self.path = tempfile.mkdtemp(prefix=prefix, dir=os.path.abspath(options.folder))
        except OSError as error:
            raise FastdistError(
                f"--log-dir {options.folder}: no folder can be made there: {error.strerror}"
            ) from error

    def open(self, local_rank: int, rank: int, attempt: int) -> list[LogFile | None]:
        """Return the open log files for stdout and stderr of a started worker; None for a stream
        without a file.
        """
        return [
            self._open(f"attempt_{attempt}/{rank}/{name}.log", local_rank, stream)
            for name, stream in (("stdout", STDOUT), ("stderr", STDERR))
        ]

    def _open(self, name: str, local_rank: int, stream: int) -> LogFile | None:
        if not self._options.kept[local_rank] & stream:
            return None
        is_shown = bool(self._options.shown[local_rank] & stream)
        path = os.path.join(self.path, name)
        return LogFile(path, is_shown=is_shown, complain=self._complain)
