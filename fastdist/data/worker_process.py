"""The main loop of a DataLoader's worker process, which makes the requested batches."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..core.folded_frames import error_text
from ..namespace.threads import use_one_thread
from ..random_numbers.generator import manual_seed
from .fetch import Fetcher

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

# The time that a worker may spend on its current batch after the main process is gone.
_PATIENCE_S = 2.0


class WorkerInfo(NamedTuple):
    """Information about this worker. `seed` depends on the generator and the worker's id."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


class Epoch(NamedTuple):
    """A request to begin an epoch. It has no answer; if it fails, each Fetch returns the error."""

    seed: int


class Fetch(NamedTuple):
    """A request to make a batch."""

    number: int
    index: Any


class Made(NamedTuple):
    """The answer to a Fetch: a batch, the end of the data, or an error."""

    number: int
    batch: Any = None
    ended: bool = False
    error: Failure | None = None


class Failure(NamedTuple):
    """An exception of a worker: the type and the message that the main process raises."""

    type: type[BaseException]
    message: str

    def raise_again(self) -> None:
        """Raise an exception of the same type, with the worker's traceback in its message."""
        # The exception is not stored in a local variable: its traceback refers to this frame, so
        # there would be a reference cycle, which would keep the pass alive.
        raise self._made_again()

    def _made_again(self) -> BaseException:
        try:
            return self.type(_Lines(self.message))
        except Exception:
            # The constructor of this exception type does not take just a message.
            return RuntimeError(self.message)


class _Lines(str):
    """A string that is its own repr. KeyError prints the repr of its argument, so it then shows
    line breaks.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class Job(NamedTuple):
    """The data that a worker needs to start."""

    id: int
    num_workers: int
    fetcher: Fetcher
    init: Callable[[int], Any] | None


_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """Return this DataLoader worker's information; None in any other process."""
    return _info


def run(job: Job, requests: Connection, answers: Connection) -> None:
    """Serve requests until the main process closes the pipe or is gone."""
    # Ctrl-C sends SIGINT to the whole process group. Workers ignore it, because the main process
    # decides when they end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A forked worker inherits the program's signal handlers, which must not run here.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    use_one_thread()
    todo: SimpleQueue[Any] = SimpleQueue()
    reader = threading.Thread(
        target=_read, args=(requests, todo), name="fastdist-data-requests", daemon=True
    )
    reader.start()
    ready = _Once(job)
    for request in iter(todo.get, None):
        if isinstance(request, Epoch):
            ready.begin(request.seed)
            continue
        try:
            _answer(answers, ready.make(request), job.id)
        except BrokenPipeError:
            return


def _answer(answers: Connection, made: Made, worker_id: int) -> None:
    try:
        answers.send(made)
    except BrokenPipeError:
        raise
    except Exception as error:  # a batch, or an exception class, that cannot be pickled
        answers.send(Made(made.number, error=_failure(error, worker_id)))


def _read(requests: Connection, todo: SimpleQueue[Any]) -> None:
    # A thread reads requests immediately, so that the main process never blocks on sending a
    # request while this process blocks on sending a batch.
    try:
        while (request := requests.recv()) is not None:
            todo.put(request)
    except EOFError:
        pass
    todo.put(None)
    threading.main_thread().join(_PATIENCE_S)
    os._exit(1)


class _Once:
    """The state of a worker, kept from one epoch to the next."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._is_initialised = False
        self._is_ended = False
        self._failed: Failure | None = None

    def begin(self, seed: int) -> None:
        """Seed the random generators of this process, and restart an iterable dataset."""
        global _info
        job = self._job
        seed += job.id
        manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed % (1 << 32))  # noqa: NPY002 (the one that users' transforms draw from)
        _info = WorkerInfo(job.id, job.num_workers, seed, job.fetcher.dataset)
        try:
            if not self._is_initialised and job.init is not None:
                job.init(job.id)
            self._is_initialised = True
            self._is_ended = False
            job.fetcher.start()
            self._failed = None
        except Exception as error:
            self._failed = _failure(error, job.id)

    def make(self, request: Fetch) -> Made:
        """Return the batch, the end of the data, or the error."""
        if self._failed is not None:
            return Made(request.number, error=self._failed)
        if self._is_ended:
            return Made(request.number, ended=True)
        try:
            return Made(request.number, self._job.fetcher.fetch(request.index))
        except StopIteration as error:
            if not self._job.fetcher.is_iterable:
                return Made(request.number, error=_failure(error, self._job.id))
            self._is_ended = True
            return Made(request.number, ended=True)
        except Exception as error:
            return Made(request.number, error=_failure(error, self._job.id))


def _failure(error: Exception, worker_id: int) -> Failure:
    message = (
        f"Caught {type(error).__name__} in DataLoader worker process {worker_id}.\n"
        f"Original {error_text(error)}\n"
    )
    return Failure(type(error), message)
