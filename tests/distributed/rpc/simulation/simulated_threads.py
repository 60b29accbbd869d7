"""The threads of a simulated process, and their waits: each step is an event of the world."""

from __future__ import annotations

import heapq
import math
import threading
from collections.abc import Callable
from typing import Any

from fastdist.concurrency.future import Future
from fastdist.distributed.rpc.notices import TOGETHER_S, NoticeSender, Send, SendNotices
from fastdist.distributed.rpc.workers.progress import AwakeClock, Timeouts
from tests.distributed.rpc.simulation.simulated_world import Clock, SimEvent, here, worlds

clock = Clock()


class SimProgress:
    """The progress thread of one worker; each function that it runs is a separate event."""

    def __init__(self, name: str) -> None:
        self._process = here()
        self.timeouts: Timeouts = Timeouts()
        self._readers: dict[int, Callable[[], None]] = {}
        self._posted: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self._due: list[float] = []  # times of the alarms
        self._threads: list[int] = []  # the threads that currently run as this progress thread
        self._clock = AwakeClock()
        self.now = self._clock.now
        self.woke_at = self._clock.woke_at
        self.stood_still_lately = self._clock.stood_still_lately
        self._process.fd_ready = self._fd_ready

    def start(self) -> None:
        pass

    def post(self, function: Callable[..., None], *arguments: Any) -> None:
        self._posted.append((function, arguments))
        self._process.world.soon(self._process, self._run_posted)

    def wake(self) -> None:
        self._process.world.soon(self._process, self._look)

    def watch(self, fd: int, reader: Callable[[], None]) -> None:
        self._readers[fd] = reader

    def unwatch(self, fd: int) -> None:
        self._readers.pop(fd, None)

    def call_at(self, when: float, function: Callable[[], None]) -> None:
        heapq.heappush(self._due, when)
        self._process.world.at(when, self._process, self._ring, when, function)

    def stop(self) -> None:
        self._run_posted()
        self._readers.clear()

    def is_current_thread(self) -> bool:
        return threading.get_ident() in self._threads

    def _call(self, function: Callable[..., object], *arguments: Any) -> None:
        me = threading.get_ident()
        self._threads.append(me)
        try:
            function(*arguments)
        finally:
            self._threads.remove(me)

    def _awake(self) -> None:
        self._clock.look(self._due[0] if self._due else math.inf)

    def _ring(self, when: float, function: Callable[[], None]) -> None:
        self._awake()
        self._due.remove(when)
        heapq.heapify(self._due)
        self._call(function)

    def _run_posted(self) -> None:
        self._awake()
        while self._posted:
            function, arguments = self._posted.pop(0)
            self._call(function, *arguments)

    def _fd_ready(self, fd: int) -> None:
        self._process.world.soon(self._process, self._read, fd)

    def _read(self, fd: int) -> None:
        self._awake()
        reader = self._readers.get(fd)
        if reader is not None:
            self._call(reader)

    def _look(self) -> None:
        for call in self.timeouts.expire(self._process.world.now):
            self._call(call.expire)
        until = self.timeouts.sleep_until()
        if until != math.inf:
            self._process.world.at(until, self._process, self._look)


class SimPool:
    """The thread pool of one worker, with any number of threads, each starting a little late."""

    def __init__(self, name: str, max_counted: int, source: Any) -> None:
        self._process = here()
        self._source = source
        self._closed = False
        self._under_way = 0
        self._process.serve = self._serve

    def start(self) -> None:
        pass

    def submit(self, function: Callable[..., object], *arguments: object) -> bool:
        if not self._closed:
            self._under_way += 1
            self._process.world.soon(self._process, self._run, function, *arguments)
        return not self._closed

    submit_uncounted = submit

    def stop(self, timeout: float | None = None) -> list[str]:
        self._closed = True
        world = self._process.world
        world.block(lambda: not self._under_way, None if timeout is None else world.now + timeout)
        return []

    def _run(self, function: Callable[..., object], *arguments: object) -> None:
        try:
            function(*arguments)
        finally:
            self._under_way -= 1

    def num_threads(self) -> int:
        return 1

    def num_idle(self) -> int:
        return 1

    def num_stuck(self) -> int:
        return 0

    def _serve(self) -> None:
        world = self._process.world
        while not self._closed:
            work = self._source.take()
            if work is None:
                return
            if world.rng.random() < 0.5:
                work.function(work.argument)
            else:
                world.soon(self._process, work.function, work.argument)


class SimNoticeSender(NoticeSender):
    """A NoticeSender that runs as events of the simulated world."""

    def __init__(self, send: Send) -> None:
        super().__init__(send)
        self._process = here()
        self._is_due = False

    def start(self) -> None:
        pass

    def enqueue(self, tell: SendNotices, addressee: Any, item: Any) -> None:
        super().enqueue(tell, addressee, item)
        if not self._is_due:
            self._is_due = True
            world = self._process.world
            world.at(world.now + TOGETHER_S, self._process, self.flush)

    def flush(self, timeout_s: float = 0.0) -> None:
        self._is_due = False
        self.send_gathered()

    def wait_if_late(self) -> None:
        pass  # in the simulated time, no thread is late


class SimCondition:
    """A Condition, with any lock, in which a simulated process waits."""

    def __init__(self, lock: Any = None) -> None:
        self._lock = threading.RLock() if lock is None else lock

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def wait_for(self, is_over: Callable[[], Any], timeout: float | None = None) -> bool:
        world = worlds[-1]
        self._lock.release()
        try:
            world.block(lambda: bool(is_over()), None if timeout is None else world.now + timeout)
        finally:
            self._lock.acquire()
        return bool(is_over())

    def notify_all(self) -> None:
        pass  # the world checks waiters again at each step

    notify = notify_all


class SimThreading:
    """A replacement for `threading` in the simulated modules."""

    Condition = SimCondition
    Event = SimEvent
    RLock = staticmethod(threading.RLock)

    def __getattr__(self, name: str) -> Any:
        return getattr(threading, name)


def wait_until_done(future: Future[Any], timeout_s: float | None) -> bool:
    """A replacement for `Future._wait_until_done`."""
    world = worlds[-1]
    world.block(future.done, None if timeout_s is None else world.now + timeout_s)
    return future.done()
