"""The progress thread: reads asynchronous answers, notices broken connections, expires calls."""

from __future__ import annotations

import heapq
import itertools
import logging
import math
import select
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

from fastdist.distributed.sockets import Doorbell, poll_timeout_ms

from .running import Meter

# If the thread wakes this much later than its alarm, it could not run for a while. Its process or
# its machine was stopped or swapped out, or another thread held the interpreter lock.
_LATE_S = 1.0
# If the thread wakes this much later than its alarm, it waited for a core or for the interpreter
# lock. Meanwhile it sent no sign of life and noticed none.
_HELD_UP_S = 0.02
# After a stop of this length, peers have noticed the silence of the process, and report it soon.
_SILENT_S = 2.5
_LATELY_S = 10.0
# Peers measure a silence from the last sign of life before the stop. This process measures the stop
# only from an alarm that was due during the stop. So if a peer declared this worker lost after
# frozen_s, the measured length of the stop may be shorter than frozen_s by this much.
_SHORTER_S = 2.0
# The counters that distinguish a stop from a held lock are read after this many calls of `look`, or
# after this many seconds.
_MEASURE_LOOKS = 50
_MEASURE_S = 5.0

_logger = logging.getLogger(__name__)


# Calls whose deadlines fall into the same hundredth of a second are in one bucket, and expire
# together at the end of that hundredth. So most calls are added to a bucket that exists already,
# and no call expires early.
BUCKET_S: Final = 0.01
# How many empty buckets are kept before they are collected.
_FEW_BUCKETS: Final = 256


class Expiring(Protocol):
    """An object with a deadline."""

    def expire(self) -> None:
        """End, as the deadline has passed."""


class Timeouts:
    """The calls that have a deadline, in buckets of nearly equal deadlines.

    Thread  any
    Units   deadlines in seconds of time.monotonic()
    """

    def __init__(self) -> None:
        # Guards all attributes below.
        self._lock = threading.RLock()
        # The calls of a bucket in the order of arrival, so that simulations are reproducible.
        self._calls_at: dict[int, dict[Expiring, None]] = {}
        self._times: list[int] = []
        # How many buckets have no call any more: most calls end before their deadline.
        self._num_empty = 0
        self._sleeping_until = math.inf
        self._is_closed = False

    def add(self, call: Expiring, deadline: float) -> bool:
        """Let a call expire at `deadline`; return whether to wake the progress thread."""
        bucket = math.ceil(deadline / BUCKET_S)
        with self._lock:
            if self._is_closed:
                return False
            calls = self._calls_at.get(bucket)
            if calls is None:
                calls = self._calls_at[bucket] = {}
                heapq.heappush(self._times, bucket)
            elif not calls:
                self._num_empty -= 1
            calls[call] = None
            must_wake = bucket * BUCKET_S < self._sleeping_until
            if must_wake:
                # Calls with later deadlines do not wake the thread again.
                self._sleeping_until = bucket * BUCKET_S
            return must_wake

    def remove(self, call: Expiring, deadline: float) -> None:
        """Cancel the expiry of a call; do nothing if it has expired."""
        with self._lock:
            calls = self._calls_at.get(math.ceil(deadline / BUCKET_S))
            if calls is None or call not in calls:
                return
            del calls[call]
            if not calls:
                self._num_empty += 1
                if self._num_empty > len(self._calls_at) // 2 + _FEW_BUCKETS:
                    self._collect()

    def expire(self, now: float) -> list[Expiring]:
        """Remove and return the calls whose deadline has passed."""
        expired: list[Expiring] = []
        with self._lock:
            while self._times and self._is_over(self._times[0], now):
                calls = self._calls_at.pop(heapq.heappop(self._times))
                self._num_empty -= not calls
                expired += calls
        return expired

    def sleep_until(self, alarm: float = math.inf) -> float:
        """Return when the thread must wake next; inf for never.

        A later call of `add` may wake the thread earlier. The thread wakes at `alarm` in any case,
        so `add` does not wake the thread for a deadline after `alarm`. Without this rule nearly
        every call would wake the thread, because nearly every call has a deadline.
        """
        with self._lock:
            expires = self._times[0] * BUCKET_S if self._times else math.inf
            self._sleeping_until = min(expires, alarm)
            return self._sleeping_until

    def close(self) -> None:
        """Cancel all expiries, because each call fails with the error of the shutdown."""
        with self._lock:
            self._is_closed = True
            self._calls_at.clear()
            self._times.clear()
            self._num_empty = 0

    def __len__(self) -> int:
        with self._lock:
            return sum(map(len, self._calls_at.values()))

    def _is_over(self, bucket: int, now: float) -> bool:
        # A bucket that became empty before its time is removed as well.
        return bucket * BUCKET_S <= now or not self._calls_at[bucket]

    def _collect(self) -> None:
        """Drop all empty buckets; most of them are far from the head of the heap.

        This is called when more than half of the buckets are empty, so the average cost of a bucket
        is constant.
        """
        self._calls_at = {time: calls for time, calls in self._calls_at.items() if calls}
        self._times = list(self._calls_at)
        heapq.heapify(self._times)
        self._num_empty = 0


class AwakeClock:
    """A clock that stands still while its thread does not run.

    While a process is stopped, it receives nothing from healthy peers, and must not count this time
    as a silence of the peers. An absence of the thread is found if an alarm is late, so only an
    absence in which an alarm was due is found.

    If the process ran during the absence (another thread held the interpreter lock), peers did not
    notice the absence, because libzmq's own threads answered them. See running.py.

    Thread  the thread whose absences are measured
    """

    def __init__(self) -> None:
        self._awake_at = time.monotonic()
        # The counters of running.py at the last reading, the number of calls of `look` since then,
        # and the time of the next reading. A reading in each call of `look` would cost an idle
        # worker 10 % more processor time.
        self._meter: Meter | None = None
        self._num_looks = 0
        self._measure_at = -math.inf
        self._absent_s = 0.0
        # The time when the latest stop ended, and the length of the longest recent stop.
        self._silent_at, self._stopped_s = -math.inf, 0.0
        self._woke_at = -math.inf

    def look(self, due: float) -> None:
        """Record that the thread runs now; it was due to run at `due`."""
        now = time.monotonic()
        late_s = now - max(due, self._awake_at)
        if late_s > _HELD_UP_S:
            self._absent_s += late_s
        self._num_looks += 1
        # Also measure after each wait for a core or for the interpreter lock. Otherwise the counted
        # wake-ups of that wait would be counted for the next absence, and it would seem that the
        # process ran during that absence.
        is_held_up = late_s > _HELD_UP_S
        if is_held_up or self._num_looks == _MEASURE_LOOKS or now >= self._measure_at:
            self._measure(now, late_s)
        self._awake_at = now

    def look_again(self, due: float) -> None:
        """Record an absence since the last call of `look`; do nothing if the absence was short."""
        if time.monotonic() - self._awake_at > _LATE_S:
            self.look(due)

    def _measure(self, now: float, late_s: float) -> None:
        """Find out whether the process was stopped since the last measurement."""
        meter = Meter.read()
        before, self._meter = self._meter or meter, meter
        # time.monotonic() stops while the machine is suspended, but peers on other machines go on.
        stopped_s = meter.suspended_since(before)
        if late_s > _LATE_S and not meter.ran_since(before, late_s, self._num_looks):
            stopped_s += late_s
        self._num_looks, self._measure_at = 0, now + _MEASURE_S
        if late_s > _LATE_S or stopped_s > _LATE_S:
            self._woke_at = now - self._absent_s
        if stopped_s > _LATE_S:
            self._note_stop(now, stopped_s)

    def _note_stop(self, now: float, stopped_s: float) -> None:
        is_later = now - self._silent_at < _LATELY_S
        self._stopped_s = max(stopped_s, self._stopped_s) if is_later else stopped_s
        self._silent_at = now

    def _look_for_suspension(self) -> None:
        """Record a suspension of the machine since the last measurement; callable on any thread."""
        now, before = time.monotonic(), self._meter
        suspended_s = 0.0 if before is None else Meter.read().suspended_since(before)
        if before is not None and suspended_s > _LATE_S:
            self._meter = before._replace(suspended_s=before.suspended_s + suspended_s)
            self._woke_at = now - self._absent_s
            self._note_stop(now, suspended_s)

    def stood_still_lately(self, frozen_s: float = math.inf) -> bool:
        """Return whether the process recently woke from a stop that its peers noticed.

        Peers declare a worker lost after frozen_s without a sign of life.
        """
        self._look_for_suspension()
        least_s = max(_LATE_S, min(_SILENT_S, frozen_s - _SHORTER_S))
        is_lately = time.monotonic() - self._silent_at < _LATELY_S
        return is_lately and self._stopped_s >= least_s

    def woke_at(self) -> float:
        """Return when the last absence ended, by this clock; -inf if there was none."""
        self._look_for_suspension()
        return self._woke_at

    def now(self) -> float:
        """Return time.monotonic() minus the absences that were found."""
        return time.monotonic() - self._absent_s


class Progress:
    """The progress thread and its events; `timeouts` has the calls that may expire.

    The functions that the thread is to call must be short, and must neither block nor run users'
    code.

    Thread  post: any; watch, unwatch and call_at: the progress thread
    """

    def __init__(self, name: str) -> None:
        self.timeouts: Timeouts = Timeouts()
        self._bell = Doorbell()
        self._poller = select.poll()
        self._poller.register(self._bell.fileno(), select.POLLIN)
        self._readers: dict[int, Callable[[], None]] = {}
        self._alarms: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._posted: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._stopping = False
        # How many peers' pulses the thread checks.
        self.num_pulses = 0
        self._clock = AwakeClock()
        # Like time.monotonic, but `now` does not count the time in which this process was stopped.
        # Call it on the progress thread.
        self.now = self._clock.now
        self.woke_at = self._clock.woke_at
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def post(self, function: Callable[..., None], *arguments: Any) -> None:
        """Run function(*arguments) on the thread soon."""
        self._posted.append((function, arguments))
        self._bell.ring()

    def wake(self) -> None:
        """Wake the thread, so that it checks the timeouts again."""
        self._bell.ring()

    def watch(self, fd: int, reader: Callable[[], None]) -> None:
        """Call `reader` whenever `fd` becomes readable."""
        self._readers[fd] = reader
        self._poller.register(fd, select.POLLIN)

    def unwatch(self, fd: int) -> None:
        """Stop watching `fd`, before it is closed; do nothing if `fd` is not watched."""
        if self._readers.pop(fd, None) is not None:
            self._poller.unregister(fd)

    def call_at(self, when: float, function: Callable[[], None]) -> None:
        """Call `function` at `when`, a time of time.monotonic()."""
        heapq.heappush(self._alarms, (when, next(self._numbers), function))

    def stop(self) -> None:
        """Run the posted functions, end the thread and wait for it."""
        self._stopping = True
        self._bell.ring()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()
        self._bell.close()

    def stood_still_lately(self, frozen_s: float = math.inf) -> bool:
        """Return whether the process recently woke from a stop that its peers noticed.

        Peers declare a worker lost after `frozen_s` of silence. Call this on the progress thread.
        """
        self._clock.look_again(self._due())
        return self._clock.stood_still_lately(frozen_s)

    def is_current_thread(self) -> bool:
        """Return whether the caller runs on the progress thread."""
        return threading.current_thread() is self._thread

    def _run(self) -> None:
        bell_fd = self._bell.fileno()
        while True:
            self._run_posted()
            if self._stopping:
                self._run_posted()
                return
            ready = self._poller.poll(self._sleep_ms())
            # Update the clock before events are handled: handlers may measure how long a peer was
            # silent, and time in which this process stood still must not count.
            self._clock.look(self._due())
            for fd, _ in ready:
                if fd == bell_fd:
                    self._bell.clear()
                    continue
                reader = self._readers.get(fd)
                if reader is not None:
                    self._call(reader)
            now = time.monotonic()
            self._expire(now)
            while self._alarms and self._alarms[0][0] <= now:
                self._call(heapq.heappop(self._alarms)[2])

    def _expire(self, now: float) -> None:
        # This is a separate function because a loop variable in _run would keep the last expired
        # call alive until the next call expires.
        for call in self.timeouts.expire(now):
            self._call(call.expire)

    def _run_posted(self) -> None:
        # Run only the functions that are posted now: a function that posts itself again must not
        # block the loop.
        for _ in range(len(self._posted)):
            function, arguments = self._posted.popleft()
            self._call(function, *arguments)

    def _due(self) -> float:
        """Return when the thread has to run next."""
        return self._alarms[0][0] if self._alarms else math.inf

    def _sleep_ms(self) -> int | None:
        until = self.timeouts.sleep_until(self._due())
        if self._posted:
            return 0
        return None if until == math.inf else poll_timeout_ms(until)

    def _call(self, function: Callable[..., None], *arguments: Any) -> None:
        # The process may have been stopped since the thread woke, and `function` may read what
        # arrived during the stop. So update the clock first.
        self._clock.look_again(self._due())
        try:
            function(*arguments)
        except Exception:
            # An error with one peer must not end the thread, which serves all peers.
            _logger.exception("the progress thread of RPC could not run %r", function)
