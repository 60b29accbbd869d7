"""Python's multiprocessing, with torch.multiprocessing's `spawn`, and tensors in shared memory.

Arguments and queue items are copied, except for tensors and modules for which
`Tensor.share_memory_()` or `Module.share_memory()` was called before: all processes see writes to
their memory. (PyTorch also shares all other tensors that a process sends. A tensor is then lost if
the sender ends before the receiver has read it.)
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, Any

from .core.errors import FastdistError
from .core.folded_frames import folds
from .core.missing import find_late, show_public
from .system.held_interrupt import interrupt_held

if TYPE_CHECKING:
    from multiprocessing import Array as Array
    from multiprocessing import AuthenticationError as AuthenticationError
    from multiprocessing import Barrier as Barrier
    from multiprocessing import BoundedSemaphore as BoundedSemaphore
    from multiprocessing import BufferTooShort as BufferTooShort
    from multiprocessing import Condition as Condition
    from multiprocessing import Event as Event
    from multiprocessing import JoinableQueue as JoinableQueue
    from multiprocessing import Lock as Lock
    from multiprocessing import Manager as Manager
    from multiprocessing import Pipe as Pipe
    from multiprocessing import Pool as Pool
    from multiprocessing import Process as Process
    from multiprocessing import ProcessError as ProcessError
    from multiprocessing import Queue as Queue
    from multiprocessing import RawArray as RawArray
    from multiprocessing import RawValue as RawValue
    from multiprocessing import RLock as RLock
    from multiprocessing import Semaphore as Semaphore
    from multiprocessing import SimpleQueue as SimpleQueue
    from multiprocessing import TimeoutError as TimeoutError
    from multiprocessing import Value as Value
    from multiprocessing import active_children as active_children
    from multiprocessing import allow_connection_pickling as allow_connection_pickling
    from multiprocessing import cpu_count as cpu_count
    from multiprocessing import current_process as current_process
    from multiprocessing import freeze_support as freeze_support
    from multiprocessing import get_all_start_methods as get_all_start_methods
    from multiprocessing import get_context as get_context
    from multiprocessing import get_logger as get_logger
    from multiprocessing import get_start_method as get_start_method
    from multiprocessing import log_to_stderr as log_to_stderr
    from multiprocessing import parent_process as parent_process
    from multiprocessing import reducer as reducer
    from multiprocessing import set_executable as set_executable
    from multiprocessing import set_forkserver_preload as set_forkserver_preload
    from multiprocessing import set_start_method as set_start_method

__all__ = [
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "set_sharing_strategy",
    "spawn",
    "start_processes",
]

# Seconds between SIGTERM and SIGKILL for a process, by default.
GRACE_S = 30.0
# The maximal length of a traceback in bytes. It must fit into the buffer of a pipe.
_MOST_TOLD = 32_000


# PyTorch's strategies for sharing memory. fastdist has only one, which leaves no files behind.
_STRATEGIES = frozenset({"file_descriptor", "file_system"})
_strategy = "file_descriptor"


def get_all_sharing_strategies() -> set[str]:
    """Return the values that set_sharing_strategy accepts."""
    return set(_STRATEGIES)


def get_sharing_strategy() -> str:
    """Return the value given to set_sharing_strategy, "file_descriptor" by default."""
    return _strategy


def set_sharing_strategy(new_strategy: str) -> None:
    """Store the name of a strategy. The name has no effect: fastdist has only one strategy."""
    global _strategy
    if new_strategy not in _STRATEGIES:
        raise ValueError(
            f"set_sharing_strategy: {new_strategy!r} is not one of {sorted(_STRATEGIES)}"
        )
    _strategy = new_strategy


class ProcessException(FastdistError, RuntimeError):
    """A process that `spawn` started has failed. The error has the process's index and id."""

    def __init__(self, msg: str, error_index: int, pid: int) -> None:
        super().__init__(msg)
        self.msg = msg
        self.error_index = error_index
        self.pid = pid
        self.error_pid = pid

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.msg, self.error_index, self.pid)


class ProcessRaisedException(ProcessException):
    """The function raised an exception; the message has the traceback from its process."""


class ProcessExitedException(ProcessException):
    """The process ended without an exception: by a signal, or with an exit code."""

    def __init__(
        self,
        msg: str,
        error_index: int,
        error_pid: int,
        exit_code: int,
        signal_name: str | None = None,
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code = exit_code
        self.signal_name = signal_name

    def __reduce__(self) -> tuple[object, ...]:
        return (
            type(self),
            (self.msg, self.error_index, self.pid, self.exit_code, self.signal_name),
        )


class ProcessContext:
    """The processes that run one function; call `join` to wait for them.

    Thread  used by one thread at a time
    Source  PyTorch, torch/multiprocessing/spawn.py
    """

    def __init__(self) -> None:
        self.processes: list[BaseProcess] = []
        self._reports: list[Connection] = []
        self._running: dict[Any, int] = {}  # sentinel -> index

    def _start(self, process: BaseProcess, report: Connection) -> None:
        self._reports.append(report)
        # Appended before start(), so that _end finds the process even if start() fails.
        self.processes.append(process)
        # A KeyboardInterrupt inside start() could leave a process whose id is not stored. Nothing
        # could end that process. The resource tracker of multiprocessing would wait for it, and
        # Python waits for the tracker at exit.
        with interrupt_held():
            process.start()
        self._running[process.sentinel] = len(self.processes) - 1

    def pids(self) -> list[int]:
        """Return the ids of the processes."""
        return [process.pid or 0 for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait until all processes have ended. If one fails, end the others and raise an error.

        Units   seconds; timeout None waits forever; grace_period is the time between SIGTERM and
                SIGKILL for the other processes, 30 if None
        Return  True if all processes have ended without an error, False if the timeout expired
        Raises  ProcessRaisedException with the function's traceback, or ProcessExitedException
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while self._running:
            left_s = None if deadline is None else max(0.0, deadline - time.monotonic())
            ended = wait(list(self._running), left_s)
            if not ended:
                return False
            for index in sorted([self._running.pop(sentinel) for sentinel in ended]):
                self.processes[index].join()
                if self.processes[index].exitcode:
                    failure = self._failure(index)
                    self._end(GRACE_S if grace_period is None else grace_period)
                    raise failure
        self._end(0.0)
        return True

    def _end(self, grace_s: float) -> None:
        """End the processes that still run, first with SIGTERM, then with SIGKILL. Then close the
        pipes of all processes.
        """
        deadline = time.monotonic() + grace_s
        begun = [process for process in self.processes if process.pid is not None]
        for process in begun:
            if process.is_alive():
                process.terminate()
        for process in begun:
            process.join(max(0.0, deadline - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()
        self._running.clear()
        for report in self._reports:
            report.close()

    def _failure(self, index: int) -> ProcessException:
        process, report = self.processes[index], self._reports[index]
        pid, exit_code = process.pid or 0, process.exitcode or 0
        try:
            # poll() avoids a wait: a child of the process may still have the pipe's other end open.
            told = report.recv_bytes() if report.poll() else b""
        except EOFError:
            told = b""
        if told:
            error = told.decode(errors="replace")
            text = f"\n\n-- Process {index} terminated with the following error:\n{error}"
            return ProcessRaisedException(text, index, pid)
        if exit_code > 0:
            text = f"process {index} terminated with exit code {exit_code}"
            return ProcessExitedException(text, index, pid, exit_code)
        # The signal module has no name for most real-time signals.
        names = {number.value: number.name for number in signal.Signals}
        name = names.get(-exit_code, str(-exit_code))
        text = f"process {index} terminated with signal {name}"
        return ProcessExitedException(text, index, pid, exit_code, name)


class SpawnContext(ProcessContext):
    """The name of ProcessContext before PyTorch 1.5."""


@folds
def spawn(
    fn: Callable[..., object],
    args: Sequence[Any] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Run fn(i, *args) in nprocs new processes, with i from 0 to nprocs - 1, and wait for them.

    The processes end when the process that started them ends. If one fails, the others are ended.

    Return  None after all processes have ended without an error; if join is false, a ProcessContext
            immediately
    Raises  ValueError for nprocs below 1; the errors of `ProcessContext.join`; TypeError or
            PicklingError for a function or arguments that cannot be sent to a new process
    Note    the script needs `if __name__ == "__main__":` around the call, because new processes
            import the script. `fastdist run` needs no such line, and can use several machines
    """
    if nprocs < 1:
        raise ValueError(f"nprocs is {nprocs}; expected at least 1 process")
    context = multiprocessing.get_context(start_method)
    started = ProcessContext()
    try:
        for index in range(nprocs):
            report, writer = context.Pipe(duplex=False)
            with writer:
                process = context.Process(  # type: ignore[attr-defined]
                    target=_run, args=(fn, index, tuple(args), writer), daemon=daemon
                )
                started._start(process, report)
        if not join:
            return started
        started.join()
    except BaseException:
        # Not all processes could be started, or an exception such as KeyboardInterrupt ended the
        # wait.
        started._end(GRACE_S)
        raise
    return None


# PyTorch's name for spawn with another start method.
start_processes = spawn


def _run(fn: Callable[..., object], index: int, args: tuple[Any, ...], report: Connection) -> None:
    threading.Thread(target=_end_with_parent, name="end-with-parent", daemon=True).start()
    try:
        fn(index, *args)
    except KeyboardInterrupt:
        pass  # the waiting parent process handles the interrupt
    except Exception:
        # Only the end of a long traceback: the parent reads after this process has ended, so the
        # text must fit into the pipe's buffer.
        report.send_bytes(traceback.format_exc().encode(errors="replace")[-_MOST_TOLD:])
        sys.exit(1)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Return the object that Python's multiprocessing has under this name."""
        if hasattr(multiprocessing, name):
            return getattr(multiprocessing, name)
        return find_late(__name__, name)


show_public(__name__)
