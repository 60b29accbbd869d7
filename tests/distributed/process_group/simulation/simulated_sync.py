"""Locks, threads, futexes and polls of simulated processes: each wait lets other processes run.

See Note [One thread leads] in rpc/simulation/simulated_world.py. A crashed process is unwound: its
locks do not block, and every other operation raises Crashed.
"""

from __future__ import annotations

import ctypes
import itertools
import select
import threading
from collections.abc import Callable
from typing import Any, ClassVar

from tests.distributed.rpc.simulation.simulated_world import (
    Clock,
    Crashed,
    Process,
    SimEvent,
    deadline_of,
    here,
    worlds,
)

clock = Clock()
# The longest delay with which one process wakes another.
_WAKE_S = 0.0005


def pause(seconds: float) -> None:
    """Let other processes run for some seconds."""
    world = worlds[-1]
    world.block(_never, world.now + seconds)


def wake(process: Process) -> None:
    """Check the waiters of a process again soon."""
    world = worlds[-1]
    world.at(world.now + world.rng.random() * _WAKE_S, process, _nothing)


def _never() -> bool:
    return False


def _nothing() -> None:
    pass


def _is_outside() -> bool:
    return not worlds or worlds[-1].current is None


class SimLock:
    """A Lock, or with `again` an RLock."""

    again = False

    def __init__(self) -> None:
        self._owner = 0
        self._depth = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        me = threading.get_ident()
        if self._owner and not (self.again and self._owner == me):
            if not blocking or _is_outside():
                assert not _is_outside(), "a lock is held where no process runs"
                return False
            until = None if timeout < 0 else timeout
            worlds[-1].block(lambda: not self._owner, deadline_of(until))
            if self._owner:
                return False
        self._owner, self._depth = me, self._depth + 1
        return True

    def release(self) -> None:
        if self._owner != threading.get_ident():
            assert here().dead, "a lock is released that another thread holds"
            return
        self._depth -= 1
        if not self._depth:
            self._owner = 0

    def locked(self) -> bool:
        return bool(self._owner)

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()

    def release_all(self) -> int:
        depth, self._depth, self._owner = self._depth, 0, 0
        return depth

    def acquire_again(self, depth: int) -> None:
        if worlds[-1].current is not None and here().dead:
            raise Crashed
        self.acquire()
        self._depth = depth


class SimRLock(SimLock):
    again = True


class _Waiter:
    def __init__(self) -> None:
        self.process = here()
        self.is_woken = False


class SimCondition:
    """A Condition whose waiters may belong to several processes."""

    def __init__(self, lock: Any = None) -> None:
        self._lock = SimRLock() if lock is None else lock
        self._waiters: list[_Waiter] = []

    def __enter__(self) -> bool:
        return bool(self._lock.acquire())

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        waiter = _Waiter()
        self._waiters.append(waiter)
        depth = self._lock.release_all()
        try:
            worlds[-1].block(lambda: waiter.is_woken, deadline_of(timeout))
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
        self._lock.acquire_again(depth)
        return waiter.is_woken

    def wait_for(self, is_over: Callable[[], Any], timeout: float | None = None) -> Any:
        until = deadline_of(timeout)
        while not (found := is_over()):
            left = None if until is None else until - worlds[-1].now
            if left is not None and left <= 0:
                break
            self.wait(left)
        return found

    def notify(self, n: int = 1) -> None:
        for waiter in self._waiters[:n]:
            waiter.is_woken = True
            self._waiters.remove(waiter)
            wake(waiter.process)

    def notify_all(self) -> None:
        self.notify(len(self._waiters))


class SimThread:
    """A thread of a process, which starts a little late."""

    by_ident: ClassVar[dict[int, SimThread]] = {}

    def __init__(self, target: Callable[..., Any], name: str = "", daemon: bool = True) -> None:
        self.name, self.daemon, self._target = name, daemon, target
        self._process = here()
        self._is_over = False

    def start(self) -> None:
        self._process.world.soon(self._process, self._run)

    def _run(self) -> None:
        me = threading.get_ident()
        SimThread.by_ident[me] = self
        try:
            self._target()
        finally:
            del SimThread.by_ident[me]
            self._is_over = True

    def join(self, timeout: float | None = None) -> None:
        worlds[-1].block(lambda: self._is_over, deadline_of(timeout))

    def is_alive(self) -> bool:
        return not self._is_over


class SimThreading:
    """A replacement for `threading` in the simulated modules."""

    Lock, RLock, Condition, Event, Thread = SimLock, SimRLock, SimCondition, SimEvent, SimThread

    def current_thread(self) -> Any:
        me = threading.get_ident()
        return SimThread.by_ident.get(me) or threading.current_thread()

    def __getattr__(self, name: str) -> Any:
        return getattr(threading, name)


class SimSpin:
    """A SpinPolicy that polls once."""

    def look(self, is_there: Callable[[], bool]) -> bool:
        return is_there()


class SimFence:
    """A memory fence, at which other processes may run and a process may be killed."""

    def __enter__(self) -> None:
        process = here()
        process.step()  # type: ignore[attr-defined]
        if process.world.rng.random() < 0.3:
            pause(process.world.rng.random() * _WAKE_S)

    def __exit__(self, *error: object) -> None:
        pass


class SimFutex:
    """A futex: sleep on a word of memory that processes share."""

    def __init__(self) -> None:
        self._waiters: dict[int, list[_Waiter]] = {}

    def why_not_viable(self) -> None:
        return None

    def wait(self, address: int, value: int, timeout_s: float) -> None:
        if ctypes.c_uint32.from_address(address).value != value:
            return
        waiter = _Waiter()
        self._waiters.setdefault(address, []).append(waiter)
        try:
            worlds[-1].block(lambda: waiter.is_woken, deadline_of(timeout_s))
        finally:
            found = self._waiters[address]
            found.remove(waiter)
            if not found:
                del self._waiters[address]

    def wake(self, address: int) -> None:
        for waiter in self._waiters.get(address, ()):
            waiter.is_woken = True
            wake(waiter.process)


# By descriptor: a function that returns whether it is readable.
readable: dict[int, Callable[[], bool]] = {}
_numbers = itertools.count(1_000_000)


def new_fd(is_readable: Callable[[], bool]) -> int:
    """Return a descriptor for SimSelect."""
    fd = next(_numbers)
    readable[fd] = is_readable
    return fd


class SimBell:
    """A replacement for Doorbell."""

    def __init__(self) -> None:
        self.is_rung = False
        self._fd = new_fd(lambda: self.is_rung)

    def ring(self) -> None:
        self.is_rung = True

    def clear(self) -> None:
        self.is_rung = False

    def wait(self, deadline: float | None) -> bool:
        worlds[-1].block(lambda: self.is_rung, deadline)
        return self.is_rung

    def close(self) -> None:
        readable.pop(self._fd, None)

    def fileno(self) -> int:
        return self._fd


class SimSelect:
    """A replacement for `select` in the simulated modules."""

    POLLIN = select.POLLIN

    def poll(self) -> SimPoll:
        return SimPoll()


class SimPoll:
    def __init__(self) -> None:
        self._fds: list[int] = []

    def register(self, fd: int, events: int) -> None:
        self._fds.append(fd)

    def poll(self, timeout_ms: float | None = None) -> list[tuple[int, int]]:
        timeout_s = None if timeout_ms is None else timeout_ms / 1000
        worlds[-1].block(lambda: bool(self._ready()), deadline_of(timeout_s))
        return [(fd, select.POLLIN) for fd in self._ready()]

    def _ready(self) -> list[int]:
        return [fd for fd in self._fds if fd in readable and readable[fd]()]
