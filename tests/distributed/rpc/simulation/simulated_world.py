"""Simulated processes that run one at a time, and their clock; a seed determines the order."""

# Note [One thread leads] An event in a process may wait, like a thread, while later events run. So
# events run in real threads, but only one thread runs at a time: the leader. The leader runs one
# event after the other. When an event waits, its thread makes a spare thread the leader. When the
# wait is over, the thread of that event becomes the leader again. Only the seed determines which
# thread becomes the leader.

from __future__ import annotations

import heapq
import itertools
import random
import threading
from collections.abc import Callable
from typing import Any


class Crashed(BaseException):
    """Ends waits in a process that has crashed, or in a world that has ended."""


class Clock:
    """A replacement for the module `time`."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now

    perf_counter = time = monotonic


class NoClock:
    """A replacement for `time` in modules that simulated processes must not wait in."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"a simulated process reads the machine's time.{name}")


class Process:
    """A process that can freeze and crash."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.dead = False
        self.died_at: float | None = None
        self.frozen = 0  # the number of freezes that are in effect
        self.frozen_s = 0.0
        self.address = f"sim://{name}"
        self.listener: Any = None
        self.fd_ready: Callable[[int], None] = lambda fd: None
        self.serve: Callable[[], None] = lambda: None
        self._put_off: list[tuple[Callable[..., object], tuple[Any, ...]]] = []

    def run(self, function: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        """Run a function in this process now, or once the process thaws; never if it is dead."""
        if self.dead:
            return
        if self.frozen:
            self._put_off.append((function, arguments))
            return
        before = self.world.current
        self.world.enter(self)
        try:
            function(*arguments)
        except Crashed:
            pass
        finally:
            self.world.enter(before)

    def entered(self) -> None:
        """Switch to this process's state, until another process is entered."""

    def freeze(self, seconds: float) -> None:
        """Stop the process for some seconds, including its network."""
        if self.dead:
            return
        self.frozen += 1
        self.world.at(self.world.now + seconds, None, self._thaw, seconds)
        self.world.process_froze(self)

    def crash(self) -> None:
        """End immediately; a second call has no effect, since a fault may pick a dead process."""
        if self.dead:
            return
        self.dead = True
        self.died_at = self.world.now
        self.world.touch(self)
        self.world.process_ended(self)

    def _thaw(self, seconds: float) -> None:
        self.frozen -= 1
        self.frozen_s += seconds
        self.world.touch(self)
        if not self.frozen:
            put_off, self._put_off = self._put_off, []
            # Threads wake in any order, but the events of one thread keep their order.
            latest: dict[Callable[..., object], float] = {}
            for function, arguments in put_off:
                when = self.world.now + self.world.rng.random() * 0.002
                latest[function] = when = max(when, latest.get(function, when))
                self.world.at(when, self, function, *arguments)


class World:
    """All processes, and the queue of events."""

    def __init__(self, seed: int, clock: Clock) -> None:
        self.rng = random.Random(seed)
        self.clock = clock
        clock.now = 1000.0
        # Handlers of freezes and crashes, set by the code that builds the world.
        self.process_froze: Callable[[Process], None] = lambda process: None
        self.process_ended: Callable[[Process], None] = lambda process: None
        self.current: Process | None = None
        self.is_over = False
        self._entered: Process | None = None
        # Processes with events since the waiters were last checked.
        self._touched: dict[Process, None] = {}
        self._events: list[tuple[float, int, Process | None, Callable[..., object], Any]] = []
        self._numbers = itertools.count()
        self._end = 0.0
        # Waiters in the order of arrival, and by process.
        self._waiters: dict[_Waiter, int] = {}
        self._waiting: dict[Process, list[_Waiter]] = {}
        # This lock is released when `run_until` may return.
        self._owner = _closed_lock()
        self._error: BaseException | None = None

    @property
    def now(self) -> float:
        return self.clock.now

    def enter(self, process: Process | None) -> None:
        """Make a process the current one and switch to its state; None: no process is current."""
        self.current = process
        if process is not None:
            self._touched[process] = None
            if process is not self._entered:
                self._entered = process
                process.entered()

    def touch(self, process: Process) -> None:
        """Check the waiters of a process after the current event."""
        self._touched[process] = None

    def at(
        self, when: float, owner: Process | None, function: Callable[..., object], *arguments: Any
    ) -> None:
        """Schedule a function at a time, in a process or outside of all processes."""
        heapq.heappush(self._events, (when, next(self._numbers), owner, function, arguments))

    def soon(self, owner: Process | None, function: Callable[..., object], *arguments: Any) -> None:
        """Schedule a function after the short delay of a thread."""
        when = self.clock.now + self.rng.random() * 0.002
        heapq.heappush(self._events, (when, next(self._numbers), owner, function, arguments))

    def run_until(self, end: float) -> None:
        """Run all events up to a time."""
        self._end = end
        self._hand_to_a_spare()
        self._owner.acquire()
        error, self._error = self._error, None
        if error is not None:
            raise error
        self.clock.now = max(self.now, end)

    def block(self, is_over: Callable[[], bool], deadline: float | None) -> None:
        """Run other events while the current process waits for a condition or a deadline."""
        process = self.current
        assert process is not None, "only what happens in a process can wait"
        waiter = _Waiter(process, is_over, deadline)
        if not waiter.may_go_on(self):
            if deadline is not None:
                self.at(deadline, None, self.touch, process)
            self._waiters[waiter] = next(self._numbers)
            self._waiting.setdefault(process, []).append(waiter)
            self._hand_to_a_spare()
            waiter.turn.acquire()
            self.enter(process)
        if process.dead or self.is_over:
            raise Crashed

    def end(self) -> None:
        """Release all waiters."""
        self.is_over = True
        self._events.clear()
        self.run_until(self.now)
        assert not self._waiters

    def lead(self, spare: _Spare) -> None:
        """Run events as the leader until the end time, or until another thread leads."""
        try:
            while True:
                waiter = self._next_to_go_on()
                if waiter is not None:
                    del self._waiters[waiter]
                    self._waiting[waiter.process].remove(waiter)
                    _spares.append(spare)
                    waiter.turn.release()
                    return
                if self.is_over or not self._events or self._events[0][0] > self._end:
                    break
                self._step()
        except BaseException as error:
            self._error = error
        self.enter(None)
        _spares.append(spare)
        self._owner.release()

    def _next_to_go_on(self) -> _Waiter | None:
        # An event in one process ends no wait in another one. There may be a thousand processes, so
        # only the waiters of processes with an event are checked.
        if self.is_over:
            return next(iter(self._waiters), None)
        waiting, touched = self._waiting, self._touched
        near = [waiter for process in touched for waiter in waiting.get(process, ())]
        if len(near) > 1:
            near.sort(key=self._waiters.__getitem__)
        for waiter in near:
            if waiter.may_go_on(self):
                return waiter
        touched.clear()
        return None

    def _step(self) -> None:
        """Run the next event."""
        when, _, owner, function, arguments = heapq.heappop(self._events)
        self.clock.now = max(self.now, when)
        if owner is None:
            self.enter(None)
            function(*arguments)
        else:
            owner.run(function, arguments)

    def _hand_to_a_spare(self) -> None:
        spare = _spares.pop() if _spares else _Spare()
        spare.lead(self)


class _Waiter:
    """A wait in a process. Once the wait is over, its thread may become the leader."""

    def __init__(
        self, process: Process, is_over: Callable[[], bool], deadline: float | None
    ) -> None:
        self.process = process
        self._is_over = is_over
        self.deadline = deadline
        self.turn = _closed_lock()

    def may_go_on(self, world: World) -> bool:
        process, deadline = self.process, self.deadline
        if process.dead or world.is_over:
            return True
        is_due = deadline is not None and world.now >= deadline
        return not process.frozen and (is_due or self._is_over())


class _Spare:
    """A thread that can become the leader; later worlds use the thread again."""

    def __init__(self) -> None:
        self._world: World | None = None
        self._turn = _closed_lock()
        self.thread = threading.Thread(target=self._run, name="simulation", daemon=True)
        self.thread.start()

    def lead(self, world: World | None) -> None:
        self._world = world
        self._turn.release()

    def _run(self) -> None:
        while True:
            self._turn.acquire()
            world = self._world
            if world is None:
                return
            world.lead(self)


_spares: list[_Spare] = []


def start_threads(count: int) -> None:
    """Start threads for as many events as may wait at the same time."""
    _spares.extend(_Spare() for _ in range(count))


def end_threads() -> None:
    """End the threads that no world needs any more."""
    while _spares:
        spare = _spares.pop()
        spare.lead(None)
        spare.thread.join()


def _closed_lock() -> threading.Lock:
    """Return a locked lock that another thread releases."""
    lock = threading.Lock()
    lock.acquire()
    return lock


# The current world is the last one.
worlds: list[World] = []


def here() -> Process:
    """Return the process whose turn it is."""
    process = worlds[-1].current
    assert process is not None
    return process


def deadline_of(timeout: float | None) -> float | None:
    """Return the time at which a wait that begins now ends, or None without a timeout."""
    return None if timeout is None or timeout > 1e6 else worlds[-1].now + max(0.0, timeout)


class SimEvent:
    """An Event on which a simulated process waits."""

    def __init__(self) -> None:
        self._is_set = False

    def set(self) -> None:
        self._is_set = True

    def clear(self) -> None:
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, timeout: float | None = None) -> bool:
        worlds[-1].block(self.is_set, deadline_of(timeout))
        return self._is_set
