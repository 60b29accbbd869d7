"""Worker processes for tests: a group that stays alive while tests run functions in its workers."""

from __future__ import annotations

import atexit
import gc
import importlib
import importlib.util
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection, Pipe
from typing import Any

from bench.kept_port import KeptPort
from tests.distributed import templates
from tests.standstill import freeze
from tests.suite import lock_order

DEADLINE_S = 60.0
_MODULE = "functions_of_the_test"


class WorkerFailed(AssertionError):
    """A function raised in a worker, or a worker process ended or did not answer."""


class Worker:
    """One process, which runs functions of the test's file one after the other."""

    def __init__(self, file: str, rank: int, environment: Mapping[str, str]) -> None:
        self.rank = rank
        self._file = os.path.abspath(file)
        self._here, there = Pipe()
        self.process = templates.begin(file, rank, there.fileno(), environment)
        there.close()

    def start(self, function: Callable[..., Any], *args: Any) -> None:
        """Start function(*args) in the worker, from the test's file or an importable module."""
        module = sys.modules[function.__module__]
        name = _MODULE if getattr(module, "__file__", "") == self._file else module.__name__
        self._here.send_bytes(pickle.dumps((name, function.__qualname__, args)))

    def result(self, timeout_s: float = DEADLINE_S) -> Any:
        """Wait for the started function, and return its result.

        Raises  WorkerFailed with the worker's traceback
        """
        try:
            if not self._here.poll(timeout_s):
                self.process.send_signal(signal.SIGABRT)  # faulthandler prints the worker's stack
                self.process.wait(10)
                raise WorkerFailed(f"worker {self.rank} did not answer within {timeout_s} s")
            ok, value = pickle.loads(self._here.recv_bytes())
        except (EOFError, ConnectionError) as error:
            code = self.process.wait(10)
            raise WorkerFailed(f"worker {self.rank} ended with code {code}") from error
        if not ok:
            raise WorkerFailed(f"in worker {self.rank}:\n{value}")
        return value

    def run(self, function: Callable[..., Any], *args: Any) -> Any:
        """Run function(*args) in the worker and return its result."""
        self.start(function, *args)
        return self.result()

    def end(self, timeout_s: float = 20.0) -> int:
        """Let the process exit normally, and return its exit code."""
        self._here.close()
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise WorkerFailed(f"worker {self.rank} did not end within {timeout_s} s") from None

    def kill(self, kind: signal.Signals = signal.SIGKILL) -> float:
        """Send a signal, and return when it was sent. With SIGSTOP, wait until no thread runs."""
        sent = time.monotonic()
        if kind == signal.SIGSTOP:
            freeze(self.process.pid)
        else:
            self.process.send_signal(kind)
        return sent


class Group:
    """Several workers that know each other by RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT."""

    def __init__(
        self, file: str, world_size: int, environment: Mapping[str, str] | None = None
    ) -> None:
        self.port = KeptPort()
        self._file = file
        self._shared = {
            "WORLD_SIZE": str(world_size),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(self.port.number),
            **(environment or {}),
        }
        self._started: list[Worker] = []
        self.workers = [self.another(rank) for rank in range(world_size)]

    def another(self, rank: int) -> Worker:
        """Start one more process with this rank. The caller may add it to `workers`."""
        self._started.append(Worker(self._file, rank, {**self._shared, "RANK": str(rank)}))
        return self._started[-1]

    def __getitem__(self, rank: int) -> Worker:
        return self.workers[rank]

    def run_all(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        """Run function(*args) in all workers concurrently, and return their results."""
        for worker in self.workers:
            worker.start(function, *args)
        return [worker.result() for worker in self.workers]

    def end(self) -> list[int]:
        """End all processes and return their exit codes."""
        self.port.close()
        return [worker.end() for worker in self.workers]

    def kill(self) -> None:
        """Kill the remaining processes of the group."""
        self.port.close()
        for worker in {*self._started, *self.workers}:
            if worker.process.poll() is None:
                worker.process.kill()
                worker.process.wait()


def run_group(
    function: Callable[..., Any],
    world_size: int,
    *args: Any,
    environment: Mapping[str, str] | None = None,
) -> list[Any]:
    """Run function(*args) in all workers of a new group, and return their results."""
    file = sys.modules[function.__module__].__file__
    assert file is not None
    group = Group(file, world_size, environment)
    try:
        results = group.run_all(function, *args)
        codes = group.end()
        assert codes == [0] * world_size, f"exit codes {codes}"
        return results
    finally:
        group.kill()


# ---- gates: where calls in a worker are held until the test lets them go on ---------------------


class _Gate:
    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.num_arrived = 0
        self.is_open = False


_gates: dict[str, _Gate] = {}
# Shorter than a test's timeout for a worker, so the error is that of the gate, with its name.
_AT_GATE_S = DEADLINE_S / 2


def wait_at(gate: str, *args: object) -> str:
    """Block until `open_gate` is called in this worker, and return the gate's name.

    `args` are ignored; a test passes them so that the call transfers them.
    """
    found = _gates.setdefault(gate, _Gate())
    with found.changed:
        found.num_arrived += 1
        found.changed.notify_all()
        if not found.changed.wait_for(lambda: found.is_open, _AT_GATE_S):
            raise TimeoutError(f"nobody opened the gate {gate!r} within {_AT_GATE_S:g} s")
    return gate


def wait_for_arrivals(gate: str, number: int) -> None:
    """Wait until `number` calls have arrived at a gate of this worker."""
    found = _gates.setdefault(gate, _Gate())
    with found.changed:
        if not found.changed.wait_for(lambda: found.num_arrived >= number, _AT_GATE_S):
            raise TimeoutError(f"{found.num_arrived} of {number} came to the gate {gate!r}")


def open_gate(gate: str) -> None:
    """Release the calls that wait at a gate of this worker. Calls that arrive later do not wait."""
    found = _gates.setdefault(gate, _Gate())
    with found.changed:
        found.is_open = True
        found.changed.notify_all()


# Errors that have ended threads of this worker since the current function started. Without this
# list a test would not notice that a thread has died.
_died: list[str] = []


def _note_death(death: threading.ExceptHookArgs) -> None:
    _died.append("".join(traceback.format_exception(death.exc_value)))


def _live(file: str, connection: Connection) -> None:
    threading.excepthook = _note_death
    spec = importlib.util.spec_from_file_location(_MODULE, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[_MODULE] = module
    spec.loader.exec_module(module)
    # Without a seed, random numbers would differ between runs.
    importlib.import_module("fastdist").manual_seed(0)
    while True:
        try:
            module_name, name, args = pickle.loads(connection.recv_bytes())
        except EOFError:
            return
        _died.clear()
        try:
            module = importlib.import_module(module_name)
            answer = (True, getattr(module, name)(*args))
            assert not _died, f"a thread of the worker died:\n{_died[0]}"
            packed = pickle.dumps(answer)
        except BaseException:
            packed = pickle.dumps((False, traceback.format_exc()))
        connection.send_bytes(packed)


def _end_at_once() -> None:
    """Exit at once if all went well and this process was chosen to skip the normal exit."""
    if not _ended_well or sys.argv[3:] != [templates.AT_ONCE]:
        return
    vars(sys.modules.pop(_MODULE)).clear()
    gc.collect()  # finalizes objects of the test, but none of the template, which are frozen
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


_ended_well = False

if __name__ == "__main__":
    import faulthandler

    atexit.register(_end_at_once)  # registered first, so that it is called last

    faulthandler.enable()
    # The folder of this file must not hide modules of the standard library or the project.
    sys.path[:] = [path for path in sys.path if path != os.path.dirname(os.path.abspath(__file__))]
    lock_order.install()
    if len(sys.argv) < 4:
        its_connection = templates.serve(int(sys.argv[1]))
    else:
        its_connection = int(sys.argv[2])
    _live(sys.argv[1], Connection(its_connection))
    _ended_well = True
