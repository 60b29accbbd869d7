"""The worker processes of one DataLoader, as the process that asks them sees them."""

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

# Waiting workers end within it. A worker that is still computing a batch, which will not be read,
# ends when it is done: worker_process gives it two seconds.
_END_TIMEOUT_S = 0.05
# How one ended is known when the system has said so, by way of the server that forked it: at once,
# but on a machine that stands still.
_OBITUARY_TIMEOUT_S = 10.0

# Processes that were left to end; looked at whenever a pool begins or ends.
_ending: list[Any] = []


def forget_ended() -> None:
    """Collect the exit status of workers that have ended by now."""
    for process in tuple(_ending):
        if process.exitcode is not None:
            _ending.remove(process)
            process.close()


# Our ends of all pipes. A child that is forked, a later worker too, must not hold them open: their
# end is how workers learn that nobody asks any more.
_ends: weakref.WeakSet[Connection] = weakref.WeakSet()


def _close_ends_in_child() -> None:
    for end in _ends:
        end.close()
    _ends.clear()
    _ending.clear()  # they are not children of this process


os.register_at_fork(after_in_child=_close_ends_in_child)


class Worker:
    """One process and the two pipes to it."""

    def __init__(self, job: Job, context: Any) -> None:
        self.id = job.id
        requests, self.requests = context.Pipe(duplex=False)
        self.answers, answers = context.Pipe(duplex=False)
        _ends.update((self.requests, self.answers))
        self.process = context.Process(
            target=run, args=(job, requests, answers), name=f"fastdist-data-{job.id}", daemon=True
        )
        self.process.start()
        # The worker has its own copies. Ours would keep its pipes open when it dies.
        requests.close()
        answers.close()

    def send(self, request: Any) -> None:
        """Ask for something; a worker that is dead is found out when its answer is waited for."""
        try:
            self.requests.send(request)
        except BrokenPipeError:
            return

    def receive(self, timeout_s: float) -> Made:
        """Return the next answer.

        Raises  RuntimeError if the worker died, or needed more than timeout_s (0 for no limit)
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
        """Let the process go, whatever it does; `join` waits for it."""
        # Closed pipes end a worker that waits for requests, and one that waits to be read.
        self.requests.close()
        self.answers.close()

    def join(self, deadline: float) -> None:
        """Wait for the end of the process, but no longer than to the deadline."""
        self.process.join(max(0.0, deadline - time.monotonic()))
        if self.process.exitcode is None:
            _ending.append(self.process)
        else:
            self.process.close()


class WorkerPool:
    """Processes that load batches in turn, each a few batches ahead.

    Thread  one
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
        """Begin an epoch, with `ahead` batches under way for each worker.

        Raises  what indices raise
        """
        try:
            return Round(self._workers, indices, seed, ahead, timeout_s, in_order)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End all workers; those that wait for requests have ended then."""
        workers, self._workers = self._workers, []
        if os.getpid() != self._owner:  # a forked child's copy of a pool: the workers are not its
            return
        for worker in workers:
            worker.end()
        deadline = time.monotonic() + _END_TIMEOUT_S
        for worker in workers:
            worker.join(deadline)
        forget_ended()


class Round:
    """One epoch of a pool: the batches of indices, in their order, whichever worker is faster, or,
    without in_order, as they come.
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
        # Worker k makes batches k, k + n ...: who makes which does not depend on speed. A worker at
        # the end of its data leaves the round.
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
        """Whether no answer is under way."""
        return not self._asked

    def take(self) -> Any:
        """Return the next batch.

        Raises  what a worker raised, with its traceback; RuntimeError if one died or took too long;
                StopIteration at the end
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
        # Taken off the list now only: one that took too long is waited for by the next call.
        self._asked.remove((worker, number))
        assert made.number == number, "answers come in the order of requests"
        if made.ended:
            self._ended.add(worker)
        return made

    def _first_ready(self) -> tuple[Worker, int]:
        # The first request of each worker is the one that it answers next.
        first = {worker: (worker, number) for worker, number in reversed(self._asked)}
        ready = wait([worker.answers for worker in first], self._timeout_s or None)
        return next(
            (entry for worker, entry in first.items() if worker.answers in ready), self._asked[0]
        )


def _require_guarded_script(count: int) -> None:
    """End this process with a sentence if it is a new one that still reads its parent's script.

    A worker process reads the script again to find its classes, and comes upon the same DataLoader
    where that is not under a guard. multiprocessing would print its traceback in each worker.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        script = os.path.basename(sys.argv[0]) or "the script"
        # Written here: what a server has forked ends without telling why.
        sys.stderr.write(
            f"DataLoader(num_workers={count}): a worker process imports {script} again to find "
            f"its classes, and must not run the program: put the work of {script} under `if "
            "__name__ == '__main__':`\n"
        )
        sys.stderr.flush()
        raise SystemExit(1)


def _require_travelling(fetcher: Fetcher, init: Callable[[int], Any] | None, reason: str) -> None:
    """Raise TypeError naming the part that does not pickle, if there is one."""
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
    """Pickle a part as for a process that is being started.

    Locks refuse any other way; shared memory would wait in a thread to be fetched.
    """
    set_spawning_popen(_Nobody())  # type: ignore[arg-type]
    try:
        ForkingPickler.dumps(part)
    finally:
        set_spawning_popen(None)


class _Nobody:
    """The Popen interface that multiprocessing expects of a process that is being started."""

    def duplicate_for_child(self, descriptor: int) -> int:
        return descriptor

    def DupFd(self, descriptor: int) -> int:
        return descriptor
