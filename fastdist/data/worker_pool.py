"""The worker processes of one DataLoader, on the side of the main process."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from multiprocessing.connection import Connection, wait
from multiprocessing.context import set_spawning_popen
from multiprocessing.reduction import ForkingPickler
from typing import Any

from ..core.unpicklable import find_unpicklable
from .fetch import Fetcher
from .start_method import choose_start
from .worker_process import Epoch, Fetch, Job, Made, run

# The time in which workers that wait for requests end. A worker that is still computing a batch may
# end later: worker_process allows it two seconds.
_END_TIMEOUT_S = 0.05
# The longest wait for the exit status of a dead worker. The fork server reports the status
# immediately, except on an overloaded machine.
_OBITUARY_TIMEOUT_S = 10.0

# Processes of closed pools that have not ended yet; checked whenever a pool begins or ends.
_ending: list[Any] = []


def forget_ended() -> None:
    """Collect the exit status of workers that have ended."""
    for process in tuple(_ending):
        if process.exitcode is not None:
            _ending.remove(process)
            process.close()


# The main process's ends of all pipes. A forked child, such as a later worker, must close its
# copies of these ends: a worker ends only when no process has the other end of its request pipe.
_ends: weakref.WeakSet[Connection] = weakref.WeakSet()


def _close_ends_in_child() -> None:
    for end in _ends:
        end.close()
    _ends.clear()
    _ending.clear()  # these processes are not children of the forked process


os.register_at_fork(after_in_child=_close_ends_in_child)


class Worker:
    """A worker process and the two pipes to it."""

    def __init__(self, job: Job, context: Any) -> None:
        self.id = job.id
        requests, self.requests = context.Pipe(duplex=False)
        self.answers, answers = context.Pipe(duplex=False)
        _ends.update((self.requests, self.answers))
        self.process = context.Process(
            target=run, args=(job, requests, answers), name=f"fastdist-data-{job.id}", daemon=True
        )
        self.process.start()
        # Close this process's copies of the worker's ends, which would keep the pipes open if the
        # worker dies.
        requests.close()
        answers.close()

    def send(self, request: Any) -> None:
        """Send a request. If the worker is dead, the next `receive` reports that."""
        try:
            self.requests.send(request)
        except BrokenPipeError:
            return

    def receive(self, timeout_s: float) -> Made:
        """Return the next answer.

        Raises  RuntimeError if the worker died, or did not answer within timeout_s (0 for no limit)
        """
        if not wait([self.answers], timeout_s or None):
            raise RuntimeError(
                f"DataLoader timed out after {timeout_s} seconds: worker {self.id} (pid "
                f"{self.process.pid}) had no batch; raise timeout=, or check what its dataset "
                "does"
            )
        try:
            answer: Made = self.answers.recv()
        except (EOFError, ConnectionResetError):
            self.process.join(_OBITUARY_TIMEOUT_S)
            raise RuntimeError(self._obituary()) from None
        return answer

    def _obituary(self) -> str:
        code = self.process.exitcode or 0
        how = f"was killed by signal {-code}" if code < 0 else f"exited with {code}"
        return (
            f"DataLoader worker (pid(s) {self.process.pid}) exited unexpectedly: worker {self.id} "
            f"{how}. If it died as it started, its own error is above: a script that uses "
            "num_workers must begin its work under `if __name__ == '__main__':`, and dataset, "
            "collate_fn and worker_init_fn must pickle"
        )

    def end(self) -> None:
        """Close the pipes, so that the process ends; `join` waits for it."""
        # One end is closed for a worker that waits for requests, the other for a worker that waits
        # until its answer is read.
        self.requests.close()
        self.answers.close()

    def join(self, deadline: float) -> None:
        """Wait for the process to end, at most until the deadline."""
        self.process.join(max(0.0, deadline - time.monotonic()))
        if self.process.exitcode is None:
            _ending.append(self.process)
        else:
            self.process.close()


class WorkerPool:
    """Processes that make batches in turn; each makes a few batches in advance.

    Thread  not thread-safe
    """

    def __init__(
        self,
        fetcher: Fetcher,
        count: int,
        init: Callable[[int], Any] | None,
        given_context: Any = None,
    ) -> None:
        _require_guarded_script(count)
        forget_ended()
        self._workers: list[Worker] = []
        self._owner = os.getpid()
        context, reason = choose_start(given_context, (fetcher.dataset, fetcher.collate, init))
        try:
            for number in range(count):
                self._workers.append(Worker(Job(number, count, fetcher, init), context))
        except Exception:
            self.close()
            _require_travelling(fetcher, init, reason)
            raise
        except BaseException:
            self.close()
            raise

    def begin(
        self,
        indices: Iterable[Any],
        seed: int,
        ahead: int,
        timeout_s: float,
        in_order: bool = True,
    ) -> Round:
        """Begin an epoch; each worker gets `ahead` requests in advance.

        Raises  the errors of iterating over `indices`
        """
        try:
            return Round(self._workers, indices, seed, ahead, timeout_s, in_order)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End all workers; idle ones have ended when this returns."""
        workers, self._workers = self._workers, []
        if os.getpid() != self._owner:  # a forked child's copy of a pool does not own the workers
            return
        for worker in workers:
            worker.end()
        deadline = time.monotonic() + _END_TIMEOUT_S
        for worker in workers:
            worker.join(deadline)
        forget_ended()


class Round:
    """One epoch of a pool. Batches come in the order of `indices`; without `in_order`, they come in
    the order in which workers complete them.
    """

    def __init__(
        self,
        workers: list[Worker],
        indices: Iterable[Any],
        seed: int,
        ahead: int,
        timeout_s: float,
        in_order: bool,
    ) -> None:
        for worker in workers:
            worker.send(Epoch(seed))
        self._timeout_s, self._in_order = timeout_s, in_order
        self._turns = deque(workers)
        self._asked: deque[tuple[Worker, int]] = deque()
        self._ended: set[Worker] = set()
        self._numbered = iter(enumerate(indices))
        for _ in range(ahead * len(workers)):
            self._ask()

    def _ask(self) -> None:
        # Worker k of n workers makes the batches k, k + n and so on, so the assignment does not
        # depend on the workers' speed. A worker whose data has ended is skipped.
        for _ in range(len(self._turns)):
            worker = self._turns[0]
            self._turns.rotate(-1)
            if worker not in self._ended:
                if (entry := next(self._numbered, None)) is not None:
                    worker.send(Fetch(*entry))
                    self._asked.append((worker, entry[0]))
                return

    @property
    def is_over(self) -> bool:
        """Whether no answers are pending."""
        return not self._asked

    def take(self) -> Any:
        """Return the next batch.

        Raises  the error of a worker, with its traceback; RuntimeError if a worker died or timed
                out; StopIteration at the end
        """
        while self._asked:
            made = self._receive()
            self._ask()
            if made.error is not None:
                made.error.raise_again()
            if not made.ended:
                return made.batch
        raise StopIteration

    def _receive(self) -> Made:
        worker, number = self._asked[0] if self._in_order else self._first_ready()
        made = worker.receive(self._timeout_s)
        # The entry is removed only now: after a timeout, the next call waits for this answer again.
        self._asked.remove((worker, number))
        assert made.number == number, "answers come in the order of requests"
        if made.ended:
            self._ended.add(worker)
        return made

    def _first_ready(self) -> tuple[Worker, int]:
        # A worker answers its requests in order, so only its first request can be ready.
        first = {worker: (worker, number) for worker, number in reversed(self._asked)}
        ready = wait([worker.answers for worker in first], self._timeout_s or None)
        return next(
            (entry for worker, entry in first.items() if worker.answers in ready), self._asked[0]
        )


def _require_guarded_script(count: int) -> None:
    """Exit with a message if this is a new worker process that is still importing the script.

    A worker process imports the script again to find the script's classes. If the script does not
    check `__name__`, this import creates the same DataLoader again. Without this function,
    multiprocessing would print a traceback in each worker.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        script = os.path.basename(sys.argv[0]) or "the script"
        # Written directly, because a process of a fork server ends without printing a message.
        sys.stderr.write(
            f"DataLoader(num_workers={count}): a worker process imports {script} again to find "
            f"its classes, and must not run the program: put the work of {script} under `if "
            "__name__ == '__main__':`\n"
        )
        sys.stderr.flush()
        raise SystemExit(1)


def _require_travelling(fetcher: Fetcher, init: Callable[[int], Any] | None, reason: str) -> None:
    """Raise TypeError if a part cannot be pickled; the message names the part."""
    parts = {"dataset": fetcher.dataset, "collate_fn": fetcher.collate, "worker_init_fn": init}
    for name, part in parts.items():
        try:
            _send_to_nobody(part)
        except Exception as error:
            found = find_unpicklable(part, name, _send_to_nobody, error)
            raise TypeError(
                f"DataLoader cannot send {found.path} ({type(found.value).__name__}) to its worker "
                f"processes: {found.error}; dataset, collate_fn and worker_init_fn must pickle: "
                "define functions and classes at the top level of a module, say num_workers=0, or "
                "multiprocessing_context='fork' if no other thread holds a lock meanwhile. "
                f"Forked workers need no pickles, but {reason}"
            ) from error


def _send_to_nobody(part: object) -> None:
    """Pickle a part as multiprocessing does when it starts a process.

    multiprocessing pickles locks only while it starts a process. To pickle shared memory at any
    other time, it would start a thread that serves this memory.
    """
    set_spawning_popen(_Nobody())  # type: ignore[arg-type]
    try:
        ForkingPickler.dumps(part)
    finally:
        set_spawning_popen(None)


class _Nobody:
    """A stand-in for multiprocessing's Popen object of a process that is being started."""

    def duplicate_for_child(self, descriptor: int) -> int:
        return descriptor

    def DupFd(self, descriptor: int) -> int:
        return descriptor
