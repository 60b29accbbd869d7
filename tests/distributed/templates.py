"""Template processes that fork the workers of tests, so that each rank imports modules only once.

Starting a worker takes half a second of a core, nearly all of it for imports, and a run of all
tests starts some two thousand workers. A template has imported the modules but has not used them;
it waits for requests to fork. Each of the first ranks has its own template, so that hashes and
addresses differ between workers, as in processes that are started independently. Test files that
use devices have further templates: each is forked from the template of a rank and imports one more
module.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import os
import pickle
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import warnings
import zlib
from collections.abc import Iterator, Mapping, Sequence

from tests.suite import lock_order

_HERE = os.path.dirname(os.path.abspath(__file__))
_WORKERS = os.path.join(_HERE, "workers.py")
_ROOT = os.path.dirname(os.path.dirname(_HERE))
PRELOADED = (
    *("pytest", "fastdist.distributed.autograd", "tests.distributed.members"),
    # Half of the test files import fastdist.nn; workers import the other modules when they join.
    *("fastdist.nn", "fastdist.distributed.profiler", "concurrent.futures", "encodings.idna"),
    # Without the template, each member of a process group would spend 25 ms on these imports.
    *("fastdist.distributed.distributed_c10d", "fastdist.distributed.process_group.init"),
    *("fastdist.distributed.process_group.rounds", "fastdist.distributed.links.hub"),
    *("fastdist.system.own_folder", "fastdist.distributed.explain", "encodings.ascii"),
    # Half of the workers compute, and would spend 25 ms each on these modules, which load no Numba.
    *("concurrent.futures.thread", "fastdist.kernels.cpu.jit.background"),
    *("fastdist.kernels.cpu.linalg.product", "fastdist.kernels.cpu.nn.batch_norm"),
    *("fastdist.kernels.cpu.small.kernels", "fastdist.optim.sgd", "fastdist.distributed.optim"),
    "fastdist.distributed.nn.api.remote_module",
    # Two thirds of the workers host or open a store; the other modules take 30 ms in one of ten.
    *("fastdist.distributed.store.server", "fastdist.distributed.store.local_store"),
    *("fastdist.autograd", "numpy.random", "numpy.testing"),
    *("fastdist.kernels.cpu.shape.copying", "fastdist.kernels.cpu.small.indexing"),
)
# Test files of devices import this too. Without a template it would take 0.14 s per worker.
_OF_DEVICES = "tests.device_kinds"
# The first argument of a process that is forked as a template. The modules to import follow it.
_TEMPLATE = "--template"
# Ranks from this number on share templates with lower ranks, since a template needs as much memory
# as a worker. A run that checks the order of locks needs no different hashes.
NUM_TEMPLATES = 1 if lock_order.FOLDER in os.environ else 4
# Variables that are read only when they are needed, as are all variables of fastdist. Only the
# first import reads OPENBLAS_CORETYPE. Other variables may have to be set when a process starts.
_READ_LATE = (
    *("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "PYTEST_CURRENT_TEST"),
    *("OPENBLAS_CORETYPE", "XDG_RUNTIME_DIR"),
)
# A normal exit of the interpreter destroys all modules, which costs a worker 42 ms of a core,
# because each page shared with the template is copied. Only one worker in this number exits
# normally, chosen by the test's name, the rank and the seed of `draw_ends`; with --slow all do. The
# others exit right after atexit functions.
ENDS_WHOLE_ONE_IN = 4
_IN_RUNS_OF_ALL_TESTS = 16
_seed_of_ends = ""
WHOLE, AT_ONCE = "whole", "at once"
_STATUS = struct.Struct("i")
_MOST_BYTES = 1 << 20  # the largest request, which contains an environment


class TemplateError(AssertionError):
    """A template process has ended."""


class ForkedWorker:
    """A process forked by a template, with the interface of subprocess.Popen."""

    def __init__(self, args: list[str], pid: int, descriptor: int, status: int) -> None:
        self.args, self.pid = args, pid
        self.returncode: int | None = None
        self._descriptor, self._status = descriptor, status
        _unended.add(self)

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal, or None while the process runs."""
        return self._ended_within(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end, and return the exit code.

        Raises  subprocess.TimeoutExpired
        """
        code = self._ended_within(timeout)
        if code is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        return code

    def send_signal(self, kind: int) -> None:
        """Send a signal, if the process has not ended."""
        if self.poll() is None:
            # The template may have collected the exit status already, but not have reported it yet.
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._descriptor, kind)

    def kill(self) -> None:
        """Kill the process."""
        self.send_signal(signal.SIGKILL)

    def _ended_within(self, timeout_s: float | None) -> int | None:
        if self.returncode is None:
            poll = select.poll()
            poll.register(self._status, select.POLLIN)
            if not poll.poll(None if timeout_s is None else timeout_s * 1000):
                return None
            told = os.read(self._status, _STATUS.size)
            if not told:
                raise TemplateError(f"the template of {self.args} is gone: how it ended is unknown")
            (self.returncode,) = _STATUS.unpack(told)
            os.close(self._status)
            os.close(self._descriptor)
            _unended.discard(self)
        return self.returncode


Process = ForkedWorker | subprocess.Popen[bytes]
Words = tuple[list[str], dict[str, str], str]
"""Arguments, environment and folder of a process."""

_start = subprocess.Popen  # the original: a test may replace `subprocess.Popen` by forks
_unended: set[ForkedWorker] = set()
_templates: dict[tuple[int, int | str], Template] = {}
_templates_lock = threading.Lock()


def unended() -> Iterator[int]:
    """Yield the ids of forked processes that nothing has waited for yet."""
    yield from [worker.pid for worker in _unended]


def templates() -> Iterator[int]:
    """Yield the ids of the templates, which live as long as this process."""
    yield from [template.process.pid for template in list(_templates.values())]


def begin(file: str, rank: int, connection: int, environment: Mapping[str, str]) -> Process:
    """Start a worker for a test file.

    The worker gets the descriptor `connection` and the variables `environment` in addition. It is
    forked unless it needs a variable that must be set when a process starts.
    """
    whole = {**os.environ, "PYTHONPATH": _ROOT, **environment}
    if not is_usual(whole):
        command = [sys.executable, _WORKERS, file, str(connection), str(rank)]
        return subprocess.Popen(command, pass_fds=[connection], env=whole)
    words = ([file, str(rank), how_it_ends(rank, whole)], whole, os.getcwd())
    number = rank % NUM_TEMPLATES
    if tests_devices(file):
        template = _template(f"{number} of devices", _WORKERS, number, _OF_DEVICES)
    else:
        template = _template(number, _WORKERS)
    return template.fork(words, connection, (0, 1, 2))


def how_it_ends(rank: int, environment: Mapping[str, str]) -> str:
    """Return whether a forked process exits like an interpreter (WHOLE) or at once (AT_ONCE)."""
    test = environment.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    is_whole = zlib.crc32(f"{_seed_of_ends}{test} {rank}".encode()) % ENDS_WHOLE_ONE_IN == 0
    return WHOLE if is_whole else AT_ONCE


def draw_ends(commit: str) -> None:
    """Let fewer processes exit like an interpreter: others with each commit."""
    global ENDS_WHOLE_ONE_IN, _seed_of_ends
    ENDS_WHOLE_ONE_IN, _seed_of_ends = _IN_RUNS_OF_ALL_TESTS, commit


@functools.cache
def tests_devices(file: str) -> bool:
    """Return whether a test file imports the kinds of device or the CUDA shim."""
    with open(file, encoding="utf-8") as opened:
        text = opened.read()
    return any(f"from tests.{name}" in text for name in ("device_kinds", "fibre_shim"))


def fork(
    key: int | str,
    script: str,
    words: Words,
    connection: int,
    streams: Sequence[int],
) -> ForkedWorker:
    """Fork a process from the template with this key; start the template by `script` if needed."""
    return _template(key, script).fork(words, connection, streams)


def _template(
    key: int | str, script: str, base: int | str | None = None, *preloaded: str
) -> Template:
    """Return the template with this key.

    If there is none, start one. With `base`, fork it from the template with the key `base` instead,
    and import the modules `preloaded` in it.
    """
    with _templates_lock:
        whose = (os.getpid(), key)
        if whose in _templates:
            return _templates[whose]
    found = None if base is None else _template(base, script)
    with _templates_lock:
        if whose not in _templates:
            _templates[whose] = Template(script, found, *preloaded)
        return _templates[whose]


def is_usual(environment: Mapping[str, str], *read_late: str) -> bool:
    """Return whether a process with this environment may be forked.

    The environment may differ from that of the test run only in variables that are read late. These
    are the variables of fastdist, those in _READ_LATE, and `read_late`.
    """
    return _early(environment, read_late) == _early(_USUAL, read_late)


def _early(environment: Mapping[str, str], read_late: Sequence[str]) -> dict[str, str]:
    late = (*_READ_LATE, *read_late)
    return {
        name: value
        for name, value in environment.items()
        if name not in late and not name.startswith("FASTDIST_")
    }


_USUAL = {**os.environ, "PYTHONPATH": _ROOT}


@atexit.register
def _end_templates() -> None:
    # A template may have been forked from another template. End it before the other one.
    for (process, _), template in reversed(_templates.items()):
        if process == os.getpid():
            template.end()


class Template:
    """The handle of a template process."""

    def __init__(self, script: str, base: Template | None = None, *preloaded: str) -> None:
        self._ask, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        environment = _early(_USUAL, ())
        self.process: Process
        with there:
            if base is None:
                self.process = _start(
                    [sys.executable, script, str(there.fileno())],
                    pass_fds=[there.fileno()],
                    env=environment,
                )
                return
            words = ([_TEMPLATE, *preloaded], environment, os.getcwd())
            self.process = base.fork(words, there.fileno(), (0, 1, 2))
            _unended.discard(self.process)  # a template is expected to live as long as this process

    def fork(self, words: Words, connection: int, streams: Sequence[int]) -> ForkedWorker:
        """Fork a process that gets this connection and these standard streams."""
        with self._lock:
            return self._fork(words, connection, streams)

    def _fork(self, words: Words, connection: int, streams: Sequence[int]) -> ForkedWorker:
        status, there = os.pipe()
        try:
            # pytest replaces the standard streams for each test, so pass the current ones.
            socket.send_fds(self._ask, [pickle.dumps(words)], [connection, there, *streams])
            told, descriptors, _, _ = socket.recv_fds(self._ask, _STATUS.size, 1)
            pid = _STATUS.unpack(told)[0]
        except (OSError, struct.error) as error:
            code = self.process.wait(10)
            self._ask.close()
            os.close(status)
            raise TemplateError(f"a template of workers ended with code {code}") from error
        finally:
            os.close(there)
        return ForkedWorker(words[0], pid, descriptors[0], status)

    def end(self) -> None:
        self._ask.close()
        self.process.wait()


def serve(descriptor: int, preloaded: Sequence[str] = PRELOADED, leads: bool = False) -> int:
    """Serve requests to fork until the parent closes the socket.

    The function returns only in the forked processes. Each gets its connection as the result, and
    its arguments in sys.argv.

    Args    leads: whether each process leads its own process group
    """
    ask = socket.socket(fileno=descriptor)
    for name in preloaded:
        importlib.import_module(name)
    socket.getaddrinfo("127.0.0.1", None)  # reads files for 5 ms when a process calls it first
    gc.collect()
    gc.freeze()  # otherwise the first collection in a worker would copy all pages
    # The threads in this warning belong to OpenBLAS, which ends them before a fork and restarts
    # them when they are needed.
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
    # the process id and the pipe for the exit status, by the process's pidfd
    forked: dict[int, tuple[int, int]] = {}
    poll = select.poll()
    poll.register(ask, select.POLLIN)
    while True:
        for ready, _ in poll.poll():
            if ready in forked:
                poll.unregister(ready)
                os.close(ready)
                process, status = forked.pop(ready)
                code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
                with contextlib.suppress(BrokenPipeError):  # the parent no longer waits
                    os.write(status, _STATUS.pack(code))
                os.close(status)
                continue
            words, descriptors, _, _ = socket.recv_fds(ask, _MOST_BYTES, 5)
            if not words:
                os._exit(0)  # without running atexit functions
            connection, status, *streams = descriptors
            process = os.fork()
            if process == 0:
                others = [each for watch, (_, other) in forked.items() for each in (watch, other)]
                for each in (status, *others):
                    os.close(each)
                ask.close()
                arguments = _begin(pickle.loads(words), streams)
                if arguments[:1] == [_TEMPLATE]:
                    return serve(connection, arguments[1:], leads)
                return connection
            if leads:
                os.setpgid(process, 0)
            for each in (connection, *streams):
                os.close(each)
            forked[watch := os.pidfd_open(process)] = process, status
            poll.register(watch, select.POLLIN)
            socket.send_fds(ask, [_STATUS.pack(process)], [watch])


def _begin(words: Words, streams: Sequence[int]) -> list[str]:
    arguments, environment, folder = words
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv[1:] = arguments
    return arguments
