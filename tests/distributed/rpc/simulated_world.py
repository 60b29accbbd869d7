"""Processes that exist in one thread, on a clock of their own: what happens is led by a seed."""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Crashed(BaseException):
    """Unwinds the stack of a process that has crashed while it waited."""


class Clock:
    """Stands where modules have `time`."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


class Process:
    """What can be frozen and crash."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.dead = False
        self.died_at: float | None = None
        self.frozen = 0  # how many freezes hold it
        self.frozen_s = 0.0
        self.listener: Any = None
        self.fd_ready: Callable[[int], None] = lambda fd: None
        self.serve: Callable[[], None] = lambda: None
        self._put_off: list[tuple[Callable[..., object], tuple[Any, ...]]] = []

    def run(self, function: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        """Run something here now, or when this process thaws; never if it is dead."""
        if self.dead:
            return
        if self.frozen:
            self._put_off.append((function, arguments))
            return
        before, self.world.current = self.world.current, self
        try:
            function(*arguments)
        except Crashed:
            pass
        finally:
            self.world.current = before

    def freeze(self, seconds: float) -> None:
        """Do nothing for a while, the network part included."""
        if self.dead:
            return
        self.frozen += 1
        self.world.at(self.world.now + seconds, None, self._thaw, seconds)
        self.world.process_froze(self)

    def crash(self) -> None:
        """End at once."""
        self.dead = True
        self.died_at = self.world.now
        self.world.process_ended(self)

    def _thaw(self, seconds: float) -> None:
        self.frozen -= 1
        self.frozen_s += seconds
        if not self.frozen:
            put_off, self._put_off = self._put_off, []
            # Threads wake in any order, but what came for one of them came in order.
            latest: dict[Callable[..., object], float] = {}
            for function, arguments in put_off:
                when = self.world.now + self.world.rng.random() * 0.002
                latest[function] = when = max(when, latest.get(function, when))
                self.world.at(when, self, function, *arguments)


class World:
    """All processes, and what happens next."""

    def __init__(self, seed: int, clock: Clock) -> None:
        self.rng = random.Random(seed)
        self.clock = clock
        clock.now = 1000.0
        # Set by whoever builds the world: what else must hear of freezes and crashes.
        self.process_froze: Callable[[Process], None] = lambda process: None
        self.process_ended: Callable[[Process], None] = lambda process: None
        self.current: Process | None = None
        self._events: list[tuple[float, int, Process | None, Callable[..., object], Any]] = []
        self._numbers = itertools.count()

    @property
    def now(self) -> float:
        return self.clock.now

    def at(
        self, when: float, owner: Process | None, function: Callable[..., object], *arguments: Any
    ) -> None:
        """Let something happen at a time, in a process or outside of all."""
        heapq.heappush(self._events, (when, next(self._numbers), owner, function, arguments))

    def soon(self, owner: Process | None, function: Callable[..., object], *arguments: Any) -> None:
        """Let something happen as soon as a thread comes to it."""
        self.at(self.now + self.rng.random() * 0.002, owner, function, *arguments)

    def step(self) -> None:
        """Let the next thing happen."""
        when, _, owner, function, arguments = heapq.heappop(self._events)
        self.clock.now = max(self.now, when)
        if owner is None:
            function(*arguments)
        else:
            owner.run(function, arguments)

    def run_until(self, end: float) -> None:
        """Let everything happen up to a time."""
        while self._events and self._events[0][0] <= end:
            self.step()
        self.clock.now = max(self.now, end)

    def block(self, is_over: Callable[[], bool], deadline: float | None) -> None:
        """Let the world go on while the current process waits for something, or for a time."""
        waiting = self.current
        assert waiting is not None
        with self._as(None):
            while True:
                if waiting.dead:
                    raise Crashed
                if not waiting.frozen and (
                    is_over() or (deadline is not None and self.now >= deadline)
                ):
                    return
                assert self._events, "somebody waits for something that cannot happen"
                if deadline is not None and self._events[0][0] > deadline > self.now:
                    self.clock.now = deadline
                else:
                    self.step()

    @contextmanager
    def _as(self, process: Process | None) -> Iterator[None]:
        before, self.current = self.current, process
        try:
            yield
        finally:
            self.current = before
