"""Preemption: all workers learn at the same step that the job has to save and leave."""

# Note [The same step]
# Workers do not exchange anything in a step where nothing happens. Each counts its calls of
# preempted(). A worker that gets SIGTERM sets a key in the store of the default group. In each
# worker a thread waits for that key. It stores how many calls its worker has completed, and from
# then on the worker's next call waits. Rank 0 reads all counts and stores the largest one plus 1:
# the call that returns True, on every worker. No worker has completed that call, and those that are
# behind complete theirs first. A worker that waits does not hold up the others: their threads store
# their counts whatever their programs do, so no collective has to end before.

from __future__ import annotations

import _thread
import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any, Final

from fastdist.core.errors import StoreError, StoreTimeoutError

from ..core.missing import show_public
from ..ops.create.creation import zeros
from .constants import PREEMPTED_EXIT_STATUS
from .process_group.world import here
from .store import PrefixStore, Store

__all__ = ["PREEMPTED_EXIT_STATUS", "preempted", "request_preemption"]

_SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)
# A thread waits for the request in turns of this length: the longest that a store's clients wait.
_TURN_S: Final = 3600.0
# A worker that computes in one call, or whose machine is busy, stores its count within this.
_ANSWER_S: Final = 10.0

# Whether this process has a request to save and leave, and whether it handles the signals.
_is_requested = False
_is_handling = False


class Agreement:
    """The agreement of the workers of one group on the call of preempted() that returns True.

    Args:
        store: A part of the group's store, for this agreement alone.
        rank: This worker.
        size: The number of workers.
        answer_s: How long a worker waits for the others after a request, in seconds.

    Threads: `is_over` is called by the program, all else by any thread.
    """

    def __init__(self, store: Store, rank: int, size: int, answer_s: float = _ANSWER_S) -> None:
        # A separate client: closing it ends the thread.
        self._store, self._rank, self._size = store.clone(), rank, size
        self._answer_s = answer_s
        # Guards the two counts below. A signal handler does not take it.
        self._lock = threading.Lock()
        self._num_calls = 0
        # How many calls were completed when the thread stored the number.
        self._stored: int | None = None
        self._is_decided = threading.Event()
        self._last_call = 0
        self._error: StoreError | None = None
        self._has_left = False
        self._thread = threading.Thread(target=self._run, name="fastdist-preemption", daemon=True)
        self._thread.start()

    def is_over(self) -> bool:
        """Count a call of preempted(), and return whether it is the last one of the job.

        Raises:
            StoreError: The workers could not agree.
        """
        with self._lock:
            if self._stored is None:
                self._num_calls += 1
                return False
        self._is_decided.wait()
        if self._error is not None:
            raise self._error
        with self._lock:
            self._num_calls += 1
            return self._num_calls >= self._last_call

    def request(self) -> None:
        """Ask all workers to agree; safe in a signal handler."""
        # threading.Thread takes locks that the interrupted code may hold.
        _thread.start_new_thread(self._request, ())

    def leave(self) -> None:
        """Leave the agreement together with the group; this worker does not call again."""
        with self._lock:
            self._has_left = True
            is_first = self._stored is None
            if is_first:
                self._stored = self._num_calls
        self._is_decided.set()
        with suppress(StoreError):  # it may have ended with another worker
            if is_first:
                self._store.set(f"calls/{self._rank}", str(self._stored))
            self._store.close()

    def _request(self) -> None:
        try:
            self._store.set("requested", b"1")
        except StoreError as error:
            self._fail(error)

    def _run(self) -> None:
        try:
            self._wait_for_request()
            with self._lock:
                if self._has_left:
                    return
                self._stored = self._num_calls
            self._store.set(f"calls/{self._rank}", str(self._stored))
            if self._rank == 0:
                self._decide()
            self._store.wait(["last_call"], 2 * self._answer_s)
            self._last_call = int(self._store.get("last_call"))
        except StoreError as error:
            self._fail(error)
        self._is_decided.set()

    def _wait_for_request(self) -> None:
        while True:
            try:
                self._store.wait(["requested"], _TURN_S)
                return
            except StoreTimeoutError:
                continue

    def _decide(self) -> None:
        keys = [f"calls/{rank}" for rank in range(self._size)]
        try:
            self._store.wait(keys, self._answer_s)
        except StoreTimeoutError as late:
            missing = [rank for rank, key in enumerate(keys) if not self._store.check([key])]
            ranks = ", ".join(map(str, missing))
            raise StoreTimeoutError(
                f"preempted(): rank {ranks} did not say within {self._answer_s:g} s at which step "
                "it is, so the workers cannot agree on the step after which they save: it is "
                "stopped or cut off, or has never called preempted(), which each worker of the "
                "default group has to do in each step"
            ) from late
        self._store.set("last_call", str(1 + max(int(one) for one in self._store.multi_get(keys))))

    def _fail(self, error: StoreError) -> None:
        if self._has_left:
            return  # the group was destroyed, and its store closed
        with self._lock:
            if self._stored is None:
                self._stored = self._num_calls
        self._error = error
        self._is_decided.set()


class _Alone:
    """The agreement of a group of one worker."""

    def is_over(self) -> bool:
        return _is_requested

    def request(self) -> None:
        """Let the next call return True."""

    def leave(self) -> None:
        """Do nothing: no exchange is under way."""


class _ByReduction:
    """The agreement of a group without a store, which MPI started: a reduction in each call."""

    def __init__(self, group: Any) -> None:
        self._group = group

    def is_over(self) -> bool:
        flag = zeros(1).fill_(float(_is_requested))
        self._group.allreduce([flag]).wait()
        return bool(flag.item() > 0)

    def request(self) -> None:
        """Let the next call tell the others."""

    def leave(self) -> None:
        """Do nothing: no exchange is under way."""


def preempted() -> bool:
    """Return whether the job has to save its state and leave: the same on all workers.

    Call it once in each step, at the same place of the program on all workers of the default
    process group, and for the first time before the first step. After SIGTERM or SIGHUP to any
    worker, or to `fastdist run`, which sends it on, it returns True on all workers in the call with
    the same number, so that one of them can write the checkpoint of that step. It stays True.

    The first call installs handlers of both signals, which call the handler that was there before.
    SIGHUP is left alone where it is ignored, as under nohup. Before the first call SIGTERM ends the
    process as usual.

    Without a process group, as in jobs that only use RPC, nothing is agreed on: it returns whether
    this process got a signal. `fastdist run` sends a signal that it gets to all workers, which see
    it at different steps. A group of MPI has no store, and reduces a number in each call.

    Returns:
        Whether to save and leave.

    Raises:
        StoreError: The job is to end, and a worker does not answer within 10 s; it is named.
        RuntimeError: The first call was not made in the main thread, where alone Python lets
            handlers of signals be installed.

    Threads: one at a time; the first call in the main thread.

    Example:
        >>> from fastdist import distributed as dist
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> for step in range(3):
        ...     if dist.preempted():
        ...         break  # save here
        >>> step
        2
        >>> dist.destroy_process_group()
    """
    if not _is_handling:
        _handle_signals()
    world = here.world
    agreement = world.preemption
    if agreement is None:
        if world.default is None:
            return _is_requested
        agreement = world.preemption = _agreement_of(world.default)
        if _is_requested:
            agreement.request()
    if agreement.is_over():
        _note_request()
        return True
    return False


def request_preemption() -> None:
    """Let preempted() become True on all workers, as a signal does.

    For a program that learns in another way that its machine will go: from the provider's metadata,
    or by SIGUSR1 from Slurm. It may be called in a signal handler, and any number of times.

    Threads: any.

    Example:
        >>> import signal
        >>> from fastdist import distributed as dist
        >>> before = signal.signal(signal.SIGUSR1, lambda *_: dist.request_preemption())
        >>> _ = signal.signal(signal.SIGUSR1, before)
    """
    if not _is_requested:
        _note_request()
        agreement = here.world.preemption
        if agreement is not None:
            agreement.request()


def _note_request() -> None:
    global _is_requested
    _is_requested = True


def _agreement_of(group: Any) -> Any:
    store = group.get_group_store()
    if group.size() == 1:
        return _Alone()
    if store is None:
        return _ByReduction(group)
    return Agreement(PrefixStore("preemption", store), group.rank(), group.size())


def _handle_signals() -> None:
    global _is_handling
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError(
            "preempted() was first called in another thread than the main one, where Python does "
            "not install handlers of signals: call it once in the main thread before"
        )
    for number in _SIGNALS:
        former = signal.getsignal(number)
        if former is None or (number is signal.SIGHUP and former is signal.SIG_IGN):
            continue  # installed by C code, or the user wants the job to outlive the terminal
        signal.signal(number, _handler(former))
    _is_handling = True


def _handler(former: Any) -> Callable[[int, FrameType | None], None]:
    process = os.getpid()

    def handle(number: int, frame: FrameType | None) -> None:
        # A forked child, such as a worker of a DataLoader, ends as it did without this handler.
        if os.getpid() != process and not callable(former):
            signal.signal(number, former)
            os.kill(os.getpid(), number)
            return
        if os.getpid() == process:
            request_preemption()
        if callable(former):
            former(number, frame)

    return handle


show_public(__name__)
