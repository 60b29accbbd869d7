"""The thread pool for requests, gradients and callbacks; one of its threads reads messages."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from enum import Enum, auto
from typing import Any, Final, Protocol

from .pool_watcher import LOOK_EVERY_S, PoolWatcher

_logger = logging.getLogger(__name__)

# Note [Leader and followers]
# A message should run on the thread that received it. Passing it to another thread costs 6-20 us,
# or more if a sleeping core must wake up. So one thread of the pool, the leader, blocks in
# source.take(). It runs the work that it takes, and stays the leader meanwhile, because most
# requests take less time than waking another thread. Another thread becomes the leader in two
# cases: two successive checks of the watcher find the leader busy with the same work, or the leader
# is about to block (hand_on_lead). If no thread is idle, a new thread becomes the leader.
#
# The watcher checks every millisecond while work is queued, the leader is at work, or long work was
# seen recently. Otherwise it checks every 8 ms, because checks are expensive for short calls: a
# call takes 190 us with a check each millisecond, and 150 us without checks (2 cores of a shared
# AMD EPYC). Without any work the watcher sleeps. If most checks find the leader at work, but none
# finds it stuck, the watcher makes two checks, a millisecond apart, every 8 ms. A leader whose
# requests take half a millisecond each would otherwise release the interpreter lock at every check.
#
# Work is counted or uncounted. Counted work runs users' code (functions, callbacks). Each running
# unit of counted work holds one of `limit` slots. The limit begins at 4 and grows by one, up to
# max_counted, whenever some work has waited 2 ms. It begins low because more threads only compete
# for the interpreter lock. Uncounted work (gradients, Nodes, clean-up) never waits for other work:
# if no thread is idle, one is started.
#
# Counted work that waits for a call lends its slot to other work (lend_slot). Without loans, calls
# that call back could hold all slots of both workers, and wait for each other until they time out.
# Each loan may cost a thread and its stack, so there are at most MAX_LOANS loans; further waiting
# work keeps its slot. When waiting work keeps all slots, no counted work runs until a wait ends. In
# this case `when_stuck` is called.

INITIAL_LIMIT: Final = 4
LAZY_LOOK_EVERY_S: Final = 0.008
# Work that takes LONG_WORK_S makes checks frequent for _FREQUENT_FOR_S.
LONG_WORK_S: Final = 0.0005
_FREQUENT_FOR_S: Final = 0.1
# A waiting thread with a short stack takes 21 KB of memory.
MAX_LOANS: Final = 512
# A wait that times out up to _LATELY_S after the pool was stuck still reports this as the reason.
_LATELY_S: Final = 1.0
# After this many checks without queued work or a stuck leader, checks become rare.
LOOKS_IN_VAIN: Final = 32
PATIENCE_S: Final = 0.002
# _IDLE_KEPT idle threads are kept; the others end after IDLE_S without work. They do not end
# earlier: jobs run in steps that may need many threads at a time, and starting a thread costs as
# much as several calls.
_IDLE_KEPT: Final = 4
IDLE_S: Final = 5.0


class _Verdict(Enum):
    """The next step of a thread without work."""

    LEAD = auto()
    WAIT = auto()
    END = auto()


class _Current(threading.local):
    """The pool of this thread, and whether this thread holds a slot of it."""

    pool: ThreadPool | None = None
    holds_slot = False


_current = _Current()


class Waiting(Enum):
    """The result of lend_slot, to be passed to take_slot_back."""

    LENT = auto()
    KEPT = auto()  # the work keeps its slot, because MAX_LOANS slots are lent


class Work:
    """A unit of work for a pool thread: function(argument)."""

    __slots__ = ("argument", "counted", "function")

    def __init__(self, function: Callable[[Any], object], argument: Any, counted: bool) -> None:
        self.function = function
        self.argument = argument
        self.counted = counted


class Source(Protocol):
    """The interface from which the leader gets work."""

    def take(self) -> Work | None:
        """Wait for the next work; return None after wake(). Called by one thread at a time."""

    def wake(self) -> None:
        """Make take() return None soon. Called from any thread."""


class ThreadPool:
    """Threads that are started on demand. At most one thread at a time, the leader, reads a source.

    Thread  any thread may call any method
    """

    def __init__(self, name: str, max_counted: int, source: Source | None = None) -> None:
        self.name = name
        self.max_counted = max_counted
        self._source = source
        # Guards all attributes below. While it is held, no users' code is called. Waiters may be
        # released: they are plain locks, whose release() never blocks.
        self._lock = threading.RLock()
        self._uncounted: deque[Work] = deque()
        self._counted: deque[tuple[float, Work]] = deque()
        self._running_counted = 0
        self._num_lent = self._num_kept = 0
        # Called with the number of slots when waiting work holds every slot and other work needs
        # a slot; not called again before a wait ends. Must be short.
        self.when_stuck: Callable[[int], object] = _ignore
        self._has_told_stuck = False
        self._stuck_until = -math.inf
        self._limit = min(INITIAL_LIMIT, max_counted)
        # Invariant: each thread is in _idle, or will call _next() before it sleeps.
        self._idle: list[threading.Lock] = []
        self._threads: set[threading.Thread] = set()
        self._threads_made = 0
        self._leader: threading.Thread | None = None
        self._leader_is_busy = False
        self._works_led = 0
        self._frequent_until = 0.0
        self._looks_in_vain = 0
        self._closed = False
        self._all_left = threading.Condition(self._lock)
        self._watcher = PoolWatcher(self)

    def start(self) -> None:
        """Start reading the source."""
        with self._lock:
            self._start_thread()

    def submit(self, function: Callable[..., object], *arguments: object) -> bool:
        """Run function(*arguments) as counted work; return False if the pool is closed."""
        return self._submit(Work(_spread, (function, arguments), counted=True))

    def submit_uncounted(self, function: Callable[..., object], *arguments: object) -> bool:
        """Run function(*arguments) as uncounted work; return False if the pool is closed."""
        return self._submit(Work(_spread, (function, arguments), counted=False))

    def stop(self, timeout: float | None = None) -> list[str]:
        """Run all queued work, and end all threads. Return the names of the threads that are still
        busy after `timeout`.
        """
        with self._lock:
            self._closed = True
            for waiter in self._idle:
                waiter.release()
            self._idle.clear()
        if self._source is not None:
            self._source.wake()
        self._watcher.stop()
        me = threading.current_thread()
        with self._lock:
            self._all_left.wait_for(lambda: not self._threads - {me}, timeout)
            left = self._threads - {me}
        return sorted(thread.name for thread in left)

    def num_threads(self) -> int:
        """Return the current number of threads."""
        with self._lock:
            return len(self._threads)

    def num_idle(self) -> int:
        """Return the number of threads that wait for work, including a waiting leader."""
        with self._lock:
            return len(self._idle) + (self._leader is not None and not self._leader_is_busy)

    def num_counted_running(self) -> int:
        """Return the number of units of counted work that are running."""
        with self._lock:
            return self._running_counted

    def limit(self) -> int:
        """Return the current limit of units of counted work that may run at the same time."""
        with self._lock:
            return self._limit

    def lose_lead(self, leader: threading.Thread, works_led: int | None = None) -> None:
        """Take the lead from a busy leader. If `works_led` is given, do so only if leaders have
        begun no other unit of work since their count was `works_led`.
        """
        with self._lock:
            if self._leader is not leader or not self._leader_is_busy:
                return
            if works_led is None or works_led == self._works_led:
                self._leader, self._leader_is_busy = None, False
                self._wake_or_start()

    def look(self, seen: int) -> tuple[int, bool, float]:
        """Check for long work. Return the number of units of work that the leader has run, whether
        to go on watching, and the seconds until the next check.
        """
        now = time.monotonic()
        with self._lock:
            leader, works_led, busy = self._leader, self._works_led, self._leader_is_busy
            may_grow = self._counted and self._limit < self.max_counted
            if may_grow and now - self._counted[0][0] >= PATIENCE_S:
                self._limit += 1
                self._wake_or_start()
            waits, leads = bool(self._counted), busy and leader is not None
            is_stuck = leads and seen == works_led
            # A watcher that is about to sleep passes -1 as `seen`. It saw no recent work, so the
            # count restarts.
            is_in_vain = not (waits or is_stuck or seen < 0)
            self._looks_in_vain = vain = self._looks_in_vain + 1 if is_in_vain else 0
            if vain < LOOKS_IN_VAIN:
                often = waits or leads or now < self._frequent_until
            else:
                often = leads and vain % 2 == 0
        if is_stuck and leader is not None:
            self._frequent_until = now + _FREQUENT_FOR_S
            self.lose_lead(leader, works_led)
        return works_led, waits or leads, LOOK_EVERY_S if often else LAZY_LOOK_EVERY_S

    def num_stuck(self) -> int:
        """Return the number of slots if waiting work holds all of them, or held them a moment ago;
        otherwise 0.
        """
        with self._lock:
            lately = time.monotonic() - self._stuck_until < _LATELY_S
            return self.max_counted if lately or self._is_stuck() else 0

    def lend(self) -> Waiting:
        """Lend the slot of work that is about to wait, so that other counted work can use it. Keep
        the slot if MAX_LOANS slots are lent.
        """
        with self._lock:
            if self._num_lent < MAX_LOANS:
                self._num_lent += 1
                self._running_counted -= 1
                if self._counted and self._running_counted < self._limit:
                    # If no thread can be started, queued work waits for an existing thread.
                    with suppress(RuntimeError):
                        self._wake_or_start()
                return Waiting.LENT
            self._num_kept += 1
        self._tell_if_stuck()
        return Waiting.KEPT

    def take_back(self, how: Waiting) -> None:
        """Count work again after its wait, even if the limit is exceeded for now."""
        with self._lock:
            if how is Waiting.KEPT:
                if self._has_told_stuck and self._is_stuck():
                    self._stuck_until = time.monotonic()
                self._num_kept -= 1
                self._has_told_stuck = False
            else:
                self._num_lent -= 1
                self._running_counted += 1

    def _is_stuck(self) -> bool:
        return self._num_kept >= max(self._running_counted, self.max_counted)

    def _tell_if_stuck(self) -> None:
        with self._lock:
            is_news = bool(self._counted) and not self._has_told_stuck and self._is_stuck()
            self._has_told_stuck |= is_news
        if is_news:
            self.when_stuck(self.max_counted)

    def _submit(self, work: Work) -> bool:
        with self._lock:
            if self._closed:
                return False
            if not work.counted:
                self._uncounted.append(work)
                self._wake_or_start()
            else:
                self._counted.append((time.monotonic(), work))
                if self._running_counted < self._limit:
                    self._wake_or_start()
            must_wait = work.counted and self._running_counted >= self._limit
        if work.counted:
            self._watcher.attend(hurry=must_wait)
        if must_wait and self._num_kept:
            self._tell_if_stuck()
        return True

    def _wake_or_start(self) -> None:
        if self._idle:
            self._idle.pop().release()
        elif not self._closed:
            self._start_thread()

    def _start_thread(self) -> None:
        thread = threading.Thread(
            target=self._live, name=f"{self.name}-{self._threads_made}", daemon=True
        )
        self._threads_made += 1
        # Start the thread before it is registered: stop() would wait forever for a thread that
        # cannot start.
        thread.start()
        self._threads.add(thread)

    def _live(self) -> None:
        me = threading.current_thread()
        _current.pool = self
        waiter = threading.Lock()
        waiter.acquire()
        try:
            while True:
                verdict = self._next(me, waiter)
                if isinstance(verdict, Work):
                    _run(verdict)
                    if verdict.counted:
                        self._counted_work_ended()
                    # Drop the work: its objects must not stay alive while this thread waits.
                    del verdict
                elif verdict is _Verdict.LEAD:
                    self._lead(me)
                elif verdict is _Verdict.WAIT:
                    if not waiter.acquire(timeout=IDLE_S) and self._may_end(waiter):
                        return
                else:
                    return
        finally:
            with self._lock:
                self._threads.discard(me)
                if self._leader is me:
                    self._leader = None
                self._all_left.notify_all()

    def _next(self, me: threading.Thread, waiter: threading.Lock) -> Work | _Verdict:
        with self._lock:
            if self._uncounted:
                return self._uncounted.popleft()
            if self._counted and self._running_counted < self._limit:
                self._running_counted += 1
                return self._counted.popleft()[1]
            if self._closed:
                # Counted work may remain while all slots are taken. The threads that hold them will
                # call _next() again and run it.
                return _Verdict.END
            if self._leader is None and self._source is not None:
                self._leader = me
                return _Verdict.LEAD
            self._idle.append(waiter)
            return _Verdict.WAIT

    def _may_end(self, waiter: threading.Lock) -> bool:
        """Return whether a thread that waited for long may end; if not, wait for work."""
        with self._lock:
            if waiter in self._idle and len(self._idle) > _IDLE_KEPT:
                self._idle.remove(waiter)
                return True
        waiter.acquire()
        return False

    def _lead(self, me: threading.Thread) -> None:
        source = self._source
        assert source is not None
        while True:
            work = source.take()
            if work is None:
                with self._lock:
                    self._leader = None
                return
            began = time.monotonic()
            with self._lock:
                must_wait = work.counted and (
                    self._running_counted >= self._limit or bool(self._counted)
                )
                if must_wait:
                    self._counted.append((began, work))
                else:
                    self._running_counted += work.counted
                    self._leader_is_busy = True
                    self._works_led += 1
            if must_wait or not self._watcher.awake:
                self._watcher.attend(hurry=must_wait)
            if must_wait:
                if self._num_kept:
                    self._tell_if_stuck()
                del work
                continue
            _run(work)
            ended = time.monotonic()
            with self._lock:
                if ended - began >= LONG_WORK_S:
                    self._frequent_until = ended + _FREQUENT_FOR_S
                still_leader = self._leader is me
                if still_leader:
                    self._leader_is_busy = False
                if work.counted:
                    self._running_counted -= 1
                    if self._counted and self._running_counted < self._limit:
                        self._wake_or_start()
            if not still_leader:
                return
            del work  # its arguments must not stay alive until the next request

    def _counted_work_ended(self) -> None:
        with self._lock:
            self._running_counted -= 1


def lend_slot() -> Waiting | None:
    """Lend this thread's slot, because the thread is about to wait.

    Return the argument for take_slot_back, which must be called after the wait. Return None on a
    thread without a slot: outside of pools, in uncounted work, or when the slot is already lent.
    """
    if not _current.holds_slot:
        return None
    pool = _current.pool
    assert pool is not None
    _current.holds_slot = False
    return pool.lend()


def take_slot_back(how: Waiting) -> None:
    """Take this thread's slot back, without waiting."""
    _current.holds_slot = True
    pool = _current.pool
    assert pool is not None
    pool.take_back(how)


def hand_on_lead() -> None:
    """If this thread is a leader, give the lead to another thread, before this thread blocks."""
    pool = _current.pool
    if pool is not None:
        pool.lose_lead(threading.current_thread())


def _run(work: Work) -> None:
    _current.holds_slot = work.counted
    try:
        work.function(work.argument)
    except BaseException:
        # SystemExit is caught too: if it ended the thread, the thread's slot, or the lead, would
        # never be free again.
        _logger.exception(
            "a task of the thread pool raised an error, which should have been set on a Future"
        )
    finally:
        _current.holds_slot = False


def _ignore(num_slots: int) -> None:
    """Do nothing: the default of when_stuck."""


def _spread(call: Any) -> None:
    function, arguments = call
    function(*arguments)
