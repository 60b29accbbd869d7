"""Preemption: all workers learn at the same step that the job must save and exit."""

# Note [The same step]
# Workers exchange nothing in ordinary steps. Each counts its calls of preempted(). A worker that
# gets SIGTERM sets a key in the store of the default group. On each worker a thread waits for that
# key. The thread stores the number of calls that its worker has completed; the worker's next call
# then waits for the decision. Rank 0 reads all counts and stores the largest count plus 1. This is
# the number of the call that returns True on every worker. No worker has completed that call, and
# workers that are behind complete their earlier calls first. A worker that waits does not block the
# decision: the threads of the other workers store their counts whatever the programs do, so no
# collective needs to finish first.

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
# A thread waits for the request in intervals of this length, the longest that store clients allow.
_TURN_S: Final = 3600.0
# How long rank 0 waits for the counts. A worker stores its count earlier than that, even during a
# long call or on a busy machine.
_ANSWER_S: Final = 10.0

# Whether this process has a request to save and exit, and whether its handlers are installed.
_is_requested = False
_is_handling = False


class Agreement:
    """The agreement of the workers of one group on the call of preempted() that returns True.

    Args:
        store: A part of the group's store that only this agreement uses.
        rank: This worker's rank.
        size: The number of workers.
        answer_s: How long to wait for the other workers' counts after a request, in seconds.

    Threads: the program's thread calls `is_over`; any thread may call the other methods.
    """

    def __init__(self, store: Store, rank: int, size: int, answer_s: float = _ANSWER_S) -> None:
        # A separate client of the store. When this client is closed, the thread ends.
        self._store, self._rank, self._size = store.clone(), rank, size
        self._answer_s = answer_s
        # Guards the two counts below. Signal handlers do not acquire this lock.
        self._lock = threading.Lock()
        self._num_calls = 0
        # The number of completed calls that this worker has reported; None before a request.
        self._stored: int | None = None
        self._is_decided = threading.Event()
        self._last_call = 0
        self._error: StoreError | None = None
        self._has_left = False
        self._thread = threading.Thread(target=self._run, name="fastdist-preemption", daemon=True)
        self._thread.start()

    def is_over(self) -> bool:
        """Count a call of preempted(), and return whether the job must save and exit now.

        Raises  StoreError if the workers could not agree
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
        """Request that all workers agree on a call; safe in a signal handler."""
        # threading.Thread is not used: it acquires locks that the interrupted code may hold.
        _thread.start_new_thread(self._request, ())

    def leave(self) -> None:
        """Leave the agreement when the group is destroyed; this worker does not call is_over
        again.
        """
        with self._lock:
            self._has_left = True
            is_first = self._stored is None
            if is_first:
                self._stored = self._num_calls
        self._is_decided.set()
        with suppress(StoreError):  # the store may have ended with another worker
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
        """Do nothing: is_over() returns `_is_requested`."""

    def leave(self) -> None:
        """Do nothing: no exchange is under way."""


class _ByReduction:
    """The agreement of a group of MPI, which has no store: each call all-reduces a number."""

    def __init__(self, group: Any) -> None:
        self._group = group

    def is_over(self) -> bool:
        flag = zeros(1).fill_(float(_is_requested))
        self._group.allreduce([flag]).wait()
        return bool(flag.item() > 0)

    def request(self) -> None:
        """Do nothing: is_over() reduces `_is_requested` over all members."""

    def leave(self) -> None:
        """Do nothing: no exchange is under way."""


def preempted() -> bool:
    """Return whether the job must save its state and exit; the result is the same on all workers.

    Call it once per step, at the same place in the program on all workers of the default process
    group, and for the first time before the first step. After SIGTERM or SIGHUP to any worker, the
    call with the same number returns True on all workers, so that one worker can write the
    checkpoint of that step. All later calls return True as well. `fastdist run` forwards these
    signals to the workers.

    The first call installs handlers of both signals, which also call the previous handlers. SIGHUP
    is not handled if it is ignored, as under nohup. Before the first call SIGTERM ends the process
    as usual.

    Without a process group, as in jobs that only use RPC, there is no agreement: the function
    returns whether this process got a signal. `fastdist run` forwards its signals to all workers,
    but the workers see a signal at different steps. In a group of MPI, which has no store, each
    call is a reduction of one number over the workers.

    Raises  StoreError if a worker, named in the message, did not answer a request within 10 s;
            RuntimeError if the first call was not in the main thread, the only one in which Python
            can install signal handlers

    Returns:
        Whether to save and exit.

    Threads: one at a time; the first call must be in the main thread.

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
    """Make preempted() return True on all workers, as a signal does.

    This function is for programs that learn about preemption in another way, such as the provider's
    metadata or SIGUSR1 from Slurm. It is safe in a signal handler, and may be called repeatedly.

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
            continue  # the handler is C code, or the user wants the job to survive the terminal
        signal.signal(number, _handler(former))
    _is_handling = True


def _handler(former: Any) -> Callable[[int, FrameType | None], None]:
    process = os.getpid()

    def handle(number: int, frame: FrameType | None) -> None:
        # A forked child, such as a DataLoader worker, ends as if this handler were not installed.
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
