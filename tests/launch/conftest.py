"""Start `fastdist run` in a separate process, with deadlines; a test's processes end with it."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

import fastdist
from tests.distributed import templates
from tests.launch import launchers
from tests.short_folders import short_folder
from tests.standstill import Standstill

# This limit only ends a test that hangs; each guarantee is tested with its own, tighter limit.
BOUND_S = 60.0
# Scripts find fastdist through this path even if it is not installed.
_ROOT = str(Path(fastdist.__file__).parents[1])


@pytest.fixture
def private() -> Iterator[Path]:
    """Yield a directory with a short name for private files; fastdist would not use a long name."""
    with short_folder() as path:
        yield Path(path)


class Run:
    """A started launcher; its output is read until a text appears or the launcher has ended."""

    def __init__(self, process: templates.Process, out: int, err: int) -> None:
        self.process = process
        self.out = b""
        self.err = b""
        self._open = {out: "out", err: "err"}

    def wait_for(self, text: str, timeout_s: float = BOUND_S, of: str = "out") -> None:
        """Read until the text has appeared on stdout, or on stderr if `of` is "err"."""
        until = time.monotonic() + timeout_s
        while text.encode() not in getattr(self, of):
            assert self._read(until), f"never saw {text!r} in {self.out!r}; stderr {self.err!r}"

    def number_after(self, text: str) -> int:
        """Wait for the text on stdout and a number after it; return the number."""
        self.wait_for(text)
        self.wait_for_line_after(text)
        return int(self.out.decode().split(text, 1)[1].split()[0])

    def wait_for_line_after(self, text: str) -> None:
        until = time.monotonic() + BOUND_S
        while b"\n" not in self.out.split(text.encode(), 1)[1]:
            assert self._read(until)

    def end(self, timeout_s: float = BOUND_S) -> int:
        """Read until the launcher has ended, and return its exit status; fail after `timeout_s`.

        If this process is stopped for a time, that time does not count: the launcher was stopped
        too.
        """
        with Standstill() as stood:
            began = time.monotonic()
            until = began + max(timeout_s, BOUND_S)
            while self._open:
                assert self._read(until), f"did not end: {self.out!r} {self.err!r}"
            status = self.process.wait(max(0.1, until - time.monotonic()))
        took_s = time.monotonic() - began - stood.seconds
        assert took_s < timeout_s, f"ended after {took_s:.2f} s: {self.out!r} {self.err!r}"
        return status

    def _read(self, until: float) -> bool:
        left = until - time.monotonic()
        ready = select.select(list(self._open), [], [], left)[0] if left > 0 and self._open else []
        for fd in ready:
            try:
                chunk = os.read(fd, 1 << 16)
            except OSError:
                # Linux raises EIO after the last program on a terminal has ended.
                chunk = b""
            name = self._open[fd]
            setattr(self, name, getattr(self, name) + chunk)
            if not chunk:
                self._close(fd)
        return bool(ready)

    def close_stdout(self) -> None:
        """Close our end of the launcher's stdout, as `head` does."""
        self._close(next(fd for fd, name in self._open.items() if name == "out"))

    def _close(self, fd: int) -> None:
        del self._open[fd]
        os.close(fd)

    def close(self) -> None:
        """Kill the launcher if it runs; its watcher then ends the workers."""
        self.process.kill()
        self.process.wait()
        for fd in list(self._open):
            self._close(fd)


def _start(
    arguments: Sequence[str],
    environment: Mapping[str, str] | None,
    columns: int | None,
    is_child: bool,
    starts_workers: bool,
) -> Run:
    out, out_end = os.pipe() if columns is None else _terminal(columns)
    err, err_end = os.pipe()
    whole = {**os.environ, "TERM": "xterm", "PYTHONPATH": _ROOT, **(environment or {})}
    process = launchers.begin(arguments, whole, out_end, err_end, is_child, starts_workers)
    os.close(out_end)
    os.close(err_end)
    return Run(process, out, err)


def _terminal(columns: int) -> tuple[int, int]:
    screen, program = pty.openpty()
    fcntl.ioctl(program, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    return screen, program


@pytest.fixture
def run_command() -> Iterator[Callable[..., Run]]:
    """Yield a function that starts `python -m fastdist.run ARGUMENTS`, on a terminal if `columns`
    is given.

    The launcher is forked from a process that has imported the launcher's modules. If `is_child`
    is true, it is started as a child of this process instead. The workers are forked too, unless
    `starts_workers` is true; in a new process, imports take 0.4 s of a core.
    """
    runs: list[Run] = []

    def start(
        *arguments: str,
        environment: Mapping[str, str] | None = None,
        columns: int | None = None,
        is_child: bool = False,
        starts_workers: bool = False,
    ) -> Run:
        runs.append(_start(arguments, environment, columns, is_child, starts_workers))
        return runs[-1]

    yield start
    for run in runs:
        run.close()


@pytest.fixture
def start_run(tmp_path: Path, run_command: Callable[..., Run]) -> Callable[..., Run]:
    """Yield a function that writes a worker's script and runs `python -m fastdist.run` with it."""

    def start(
        text: str,
        *flags: str,
        environment: Mapping[str, str] | None = None,
        columns: int | None = None,
        is_child: bool = False,
        starts_workers: bool = False,
    ) -> Run:
        # Each call writes another file, so that two nodes of a test can have different scripts.
        script = tmp_path / f"worker{len(list(tmp_path.glob('*.py')))}.py"
        script.write_text(textwrap.dedent(text))
        return run_command(
            *flags,
            str(script),
            environment=environment,
            columns=columns,
            is_child=is_child,
            starts_workers=starts_workers,
        )

    return start


class Watched:
    """Detects the end of a process that is not our child, even if nothing reaps it."""

    def __init__(self, pid: int) -> None:
        self._fd = os.pidfd_open(pid)

    def ends_within(self, timeout_s: float) -> bool:
        """Wait for the process; return whether it ended in time."""
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        return bool(poll.poll(timeout_s * 1000))

    def kill(self) -> None:
        """Send SIGKILL."""
        signal.pidfd_send_signal(self._fd, signal.SIGKILL)

    def close(self) -> None:
        """Stop watching the process."""
        os.close(self._fd)


@pytest.fixture
def watch() -> Iterator[Callable[[int], Watched]]:
    """Yield a function that watches a process by its id."""
    watched: list[Watched] = []

    def start(pid: int) -> Watched:
        watched.append(Watched(pid))
        return watched[-1]

    yield start
    for process in watched:
        process.close()
