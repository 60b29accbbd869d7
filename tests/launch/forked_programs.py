"""Python programs in forked processes: `python -m fastdist.run ...`, and its workers.

Imports take most of the time of a short job: 0.4 s of a core for the launcher and for each worker.
A template process has imported the needed modules. Each program is a fork of it, and a forked
launcher forks its workers, which become its children as usual. A fork's environment is in
`os.environ`, but not in /proc. Some tests start new interpreters instead, as users do.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import importlib
import inspect
import io
import os
import pickle
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

if __name__ == "__main__":
    # The folder of this file must not hide modules of the standard library or the project.
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tests.distributed import templates

ROOT = Path(__file__).resolve().parents[2]
# Modules that launchers and workers import, except those that run as programs.
_PRELOADED = (
    *templates.PRELOADED,
    *("fastdist.launch.main", "fastdist.optim", "fastdist.data", "fastdist.func"),
    *("fastdist.distributed.data_parallel", "fastdist.distributed.checkpoint"),
    *("fastdist.distributed.optim", "fastdist.distributed.nn", "fastdist.examples.demo"),
)
_PID = struct.Struct("i")
_MOST_BYTES = 1 << 20  # the largest request: arguments and an environment
_PR_SET_NAME, _PR_SET_CHILD_SUBREAPER = 15, 36
_EXECUTE = inspect.signature(subprocess.Popen._execute_child)  # type: ignore[attr-defined]
_WORKER = "rank "  # a forked worker's process name: this text and the rank
# Environment variables that pass options of `subprocess` to a fork: whether the fork also forks
# the Python programs it starts, the number of a file descriptor, and the working directory.
_FORKS_ALL, _PASSED = "FASTDIST_TEST_FORKS_ALL", "FASTDIST_TEST_PASSED"
_FOLDER = "FASTDIST_TEST_FOLDER"
_READ_LATE = (
    "COLUMNS",
    "JOB_COMPLETION_INDEX",
    "LINES",
    "OMP_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "TERM",
)


def run(
    arguments: Sequence[str],
    folder: Path,
    timeout_s: float = 60.0,
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run `python ARGUMENTS` in a folder, and return its exit code and output.

    Raises  subprocess.TimeoutExpired
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = begin(arguments, folder, (out.fileno(), err.fileno()), environment)
        try:
            status = process.wait(timeout_s)
        finally:
            process.kill()
            process.wait()
        texts = [os.pread(file.fileno(), 1 << 24, 0).decode() for file in (out, err)]
    return subprocess.CompletedProcess([*arguments], status, *texts)


def begin(
    arguments: Sequence[str],
    folder: Path,
    streams: tuple[int, int],
    environment: Mapping[str, str] | None = None,
) -> templates.Process:
    """Start `python ARGUMENTS` in a folder, with the given descriptors as its stdout and stderr.

    The program leads a process group. It is forked, except if the environment contains a variable
    that only takes effect when a process starts.
    """
    whole = {**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})}
    if not templates.is_usual(whole, *_READ_LATE):
        return subprocess.Popen(
            [sys.executable, *arguments],
            cwd=folder,
            env=whole,
            stdin=subprocess.DEVNULL,
            stdout=streams[0],
            stderr=streams[1],
            process_group=0,
        )
    words = ([*arguments], whole, str(folder))
    with open(os.devnull, "rb") as nothing:
        every = (nothing.fileno(), *streams)
        return templates.fork("programs", __file__, words, nothing.fileno(), every)


class Piped:
    """A running program and its output, with the interface of subprocess.Popen."""

    def __init__(
        self, arguments: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        out, there = os.pipe()
        self.stdout = open(out, encoding="utf-8")  # noqa: SIM115
        self._errors = tempfile.TemporaryFile("w+b")  # noqa: SIM115
        self._process = begin(arguments, folder, (there, self._errors.fileno()), environment)
        os.close(there)
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit code, once `communicate` has returned; negative if a signal ended it."""
        return self._process.returncode

    def workers(self) -> dict[int, int]:
        """Return the forked workers of a launcher, by rank."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        names = {int(child): _name_of(int(child)) for child in children}
        return {int(name[len(_WORKER) :]): p for p, name in names.items() if name[:5] == _WORKER}

    def communicate(self, timeout: float) -> tuple[str, str]:
        """Read until stdout is closed and the program has ended; return both texts.

        Raises  subprocess.TimeoutExpired
        """
        until, chunks = time.monotonic() + timeout, [b""]
        while len(chunks) == 1 or chunks[-1]:
            left = max(0.0, until - time.monotonic())
            if not select.select([self.stdout], [], [], left)[0]:
                raise subprocess.TimeoutExpired(["python"], timeout)
            chunks.append(os.read(self.stdout.fileno(), 1 << 16))
        self._process.wait(max(0.1, until - time.monotonic()))
        errors = os.pread(self._errors.fileno(), 1 << 24, 0).decode()
        return b"".join(chunks).decode(), errors

    def close(self) -> None:
        """Kill the launcher if it runs (its watcher then ends the workers), and close the pipes."""
        self._process.kill()
        self._process.wait()
        self.stdout.close()
        self._errors.close()


class ForkedPopen(subprocess.Popen[Any]):
    """A replacement for `subprocess.Popen` in tests (fixture `forks`), which forks Python programs.

    A Python program is started, not forked, if its environment or options only take effect in a
    new interpreter. A fork also forks the Python programs that it starts. Programs that are not
    Python are started as usual.
    """

    _forked: templates.Process | None = None

    def _execute_child(self, *given: Any) -> None:
        words = _words_of(self, given)
        self._forked = self._fork(words)
        if self._forked is None:
            super()._execute_child(*given)  # type: ignore[misc]
            return
        self.pid = self._forked.pid
        _end_of_start(self, words)

    def _fork(self, words: types.SimpleNamespace) -> templates.Process | None:
        """Return the fork that runs a command, or None if the command must be started."""
        environment = {**(words.env or os.environ)}
        if environment.get("PYTHONPATH") == os.environ.get("PYTHONPATH"):
            environment["PYTHONPATH"] = str(ROOT)  # replaces a value that the test run has set
        passed = [*words.pass_fds]
        is_usual = templates.is_usual(environment, *_READ_LATE)
        if not (is_program(words.args) and is_usual and len(passed) <= 1):
            return None
        environment[_FORKS_ALL] = "1"
        if passed:
            environment[_PASSED] = str(passed[0])
        streams = streams_of(words)
        told = ([*map(str, words.args[1:])], environment, str(words.cwd or os.getcwd()))
        connection = passed[0] if passed else streams[0]
        return templates.fork("programs", __file__, told, connection, streams)

    def _internal_poll(self, *given: Any, **named: Any) -> int | None:
        if self._forked is None:
            return super()._internal_poll(*given, **named)  # type: ignore[misc, no-any-return]
        if self.returncode is None:
            self.returncode = self._forked.poll()
        return self.returncode

    def _wait(self, timeout: float | None) -> int:
        if self._forked is None:
            return super()._wait(timeout)  # type: ignore[misc, no-any-return]
        self.returncode = self._forked.wait(timeout)
        return self.returncode

    def send_signal(self, sig: int) -> None:
        """Send a signal, if the process has not ended."""
        if self._forked is None:
            super().send_signal(sig)
        else:
            self._forked.send_signal(sig)


def _words_of(popen: subprocess.Popen[Any], given: tuple[Any, ...]) -> types.SimpleNamespace:
    bound = _EXECUTE.bind(popen, *given)
    return types.SimpleNamespace(**bound.arguments)


def is_program(args: Sequence[str]) -> bool:
    """Return whether a command runs Python without interpreter options."""
    if isinstance(args, str) or len(args) < 2 or args[0] != sys.executable:
        return False
    first = str(args[1])
    return first in ("-m", "-c") or not first.startswith("-")


def streams_of(words: types.SimpleNamespace) -> tuple[int, ...]:
    """Return the descriptors of a child's stdin, stdout and stderr."""
    ends = (words.p2cread, words.c2pwrite, words.errwrite)
    return tuple(place if end == -1 else end for place, end in enumerate(ends))


def _end_of_start(popen: Any, words: types.SimpleNamespace) -> None:
    """Close the child's ends of pipes in this process, as `subprocess` does once a child runs."""
    popen._child_created = True
    popen._close_pipe_fds(
        *(words.p2cread, words.p2cwrite, words.c2pread, words.c2pwrite),
        *(words.errread, words.errwrite),
    )


def _name_of(process: int) -> str:
    try:
        return Path(f"/proc/{process}/comm").read_text().strip()
    except OSError:
        return ""  # the process has just ended


class ForkedChild(subprocess.Popen[bytes]):
    """A child that runs a Python program in a process that `Spare` forks."""

    def _execute_child(self, *given: Any) -> None:
        words = _words_of(self, given)
        if spare is None or words.pass_fds or not is_program(words.args):
            super()._execute_child(*given)  # type: ignore[misc]
            return
        environment = {**(words.env or os.environ)}
        if words.cwd is not None:
            environment[_FOLDER] = str(words.cwd)
        self.pid = spare.fork(([*map(str, words.args[1:])], environment), streams_of(words))
        _end_of_start(self, words)


class Spare:
    """A fork of the launcher that forks the workers.

    It is made before the launcher has used anything that must not be forked, such as ZeroMQ. The
    workers become children of the launcher, because the intermediate process ends.
    """

    def __init__(self) -> None:
        self._ask, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if os.fork() == 0:
            self._ask.close()
            _serve_launcher(there)
        there.close()

    def fork(self, words: tuple[list[str], dict[str, str]], streams: tuple[int, ...]) -> int:
        """Fork a worker as a child of this process, and return its id."""
        _adopt_orphans(True)
        try:
            socket.send_fds(self._ask, [pickle.dumps(words)], streams)
            return _PID.unpack(self._ask.recv(_PID.size))[0]
        finally:
            _adopt_orphans(False)


def _adopt_orphans(now: bool) -> None:
    """Make this process adopt its orphaned descendants, or no longer adopt them."""
    assert ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(now), 0, 0, 0) == 0


def _serve_launcher(ask: socket.socket) -> NoReturn:
    """Fork a worker for each request of the launcher, until the launcher has ended."""
    os.setpgid(0, 0)  # so that signals to the launcher's group do not arrive here
    while True:
        words, descriptors, _, _ = socket.recv_fds(ask, _MOST_BYTES, 3)
        if not words:
            os._exit(0)
        reader, writer = os.pipe()
        until_adopted, is_orphan = os.pipe()
        between = os.fork()
        if between == 0:
            worker = os.fork()
            if worker == 0:
                os.close(is_orphan)
                os.read(until_adopted, 1)
                for each in (ask.detach(), reader, writer, until_adopted):
                    os.close(each)
                _begin_worker(pickle.loads(words), descriptors)
            with contextlib.suppress(OSError):  # the worker also sets its group, or has ended
                os.setpgid(worker, worker)
            os.write(writer, _PID.pack(worker))
            os._exit(0)
        # A process that ends closes its files before its children get another parent. So this end
        # of the pipe stays open until then: the worker must see the launcher as its parent.
        os.waitpid(between, 0)
        for each in (until_adopted, is_orphan):
            os.close(each)
        ask.send(os.read(reader, _PID.size))
        for each in (reader, writer, *descriptors):
            os.close(each)


def _begin_worker(words: tuple[list[str], dict[str, str]], streams: Sequence[int]) -> NoReturn:
    arguments, environment = words
    os.setpgid(0, 0)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(os.environ.pop(_FOLDER, os.curdir))
    # /proc shows the template's environment for the worker, so the process name gives its rank.
    name = f"{_WORKER}{environment.get('RANK', '')}"
    ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)
    be(arguments)


def be(arguments: Sequence[str]) -> NoReturn:
    """Run `python ARGUMENTS` in this process, and exit."""
    if os.environ.get("OMP_NUM_THREADS") == "1":  # libraries read this when an interpreter starts
        # OpenBLAS starts threads in this call. If the program blocks a signal and waits for the
        # signal, these threads must not receive it. An interpreter without imports has no threads.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        importlib.import_module("fastdist.namespace.threads").use_one_thread()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    _open_streams()
    first, *rest = arguments
    try:
        if first in ("-m", "-c"):
            sys.argv[:] = [first, *rest[1:]]
            sys.path[0] = os.getcwd()
        else:
            sys.argv[:] = arguments
            sys.path[0] = str(Path(first).resolve().parent)
        if first == "-m":
            runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        elif first == "-c":
            exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__"})
        else:
            runpy.run_path(first, run_name="__main__")
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        if isinstance(ended.code, str):
            sys.stderr.write(f"{ended.code}\n")
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        status = -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # the program may have closed it
            stream.flush()
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


def _open_streams() -> None:
    """Reopen Python's standard streams: the template's streams are buffered for other files."""
    sys.stdin = sys.__stdin__ = open(0, closefd=False)  # type: ignore[misc]  # noqa: SIM115
    at_once = bool(os.environ.get("PYTHONUNBUFFERED"))
    for name, number, errors in (("stdout", 1, "strict"), ("stderr", 2, "backslashreplace")):
        raw = open(number, "wb", buffering=0 if at_once else -1, closefd=False)  # noqa: SIM115
        is_by_line = name == "stderr"
        stream = io.TextIOWrapper(
            raw, errors=errors, line_buffering=is_by_line, write_through=at_once
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


spare: Spare | None = None


def _fork_workers() -> None:
    """Make a launcher in this process fork its workers."""
    global spare
    import fastdist.launch.worker_process as started

    spare = Spare()
    if os.environ.pop(_FORKS_ALL, None):
        subprocess.Popen = ForkedChild  # type: ignore[misc]
    started.subprocess = types.SimpleNamespace(**{**vars(subprocess), "Popen": ForkedChild})  # type: ignore[assignment]


if __name__ == "__main__":
    passed = templates.serve(int(sys.argv[1]), _PRELOADED, leads=True)
    number = int(os.environ.pop(_PASSED, -1))
    if number not in (-1, passed):
        os.dup2(passed, number)
    if number != passed:
        os.close(passed)
    _fork_workers()
    be(sys.argv[1:])
