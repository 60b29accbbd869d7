"""Counts of what simulated workers do: messages, requests to the store, and lines of code."""

from __future__ import annotations

import random
import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, MutableSequence, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest

import fastdist
from fastdist.distributed.rpc import leaving
from fastdist.distributed.rpc.workers import joining
from fastdist.distributed.store.state import StoreState
from tests.distributed.rpc.simulation import simulated_world
from tests.distributed.rpc.simulation.simulated_group import SharedStore
from tests.distributed.rpc.simulation.simulated_network import Link
from tests.distributed.rpc.simulation.simulated_world import World, worlds

T = TypeVar("T")

COUNTED = ("messages", "message bytes", "requests", "request bytes", "lines")
STORE = "the store"
# The folder of the code whose lines count.
PACKAGE = f"{Path(fastdist.__file__).parent}/"


class Unvaried(random.Random):
    """Random numbers that never vary: the same work then takes the same number of lines."""

    def random(self) -> float:
        return 0.5

    def choice(self, seq: Sequence[T]) -> T:  # type: ignore[override]
        return seq[0]

    def randint(self, a: int, b: int) -> int:
        return b

    def shuffle(self, x: MutableSequence[Any]) -> None:
        pass


class Counts:
    """Counts per worker and of the store; lines are counted only for the `sampled` ranks.

    Lines are those of fastdist's Python functions, so a loop counts once per iteration even if it
    calls nothing. Loops in C, such as `sorted`, do not count.
    """

    def __init__(self, sampled: Collection[int]) -> None:
        self._sampled = {f"w{rank}.0" for rank in sampled}
        self.of: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        self._phase = ""
        self._is_in_store = False

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count in the block under a phase's name."""
        self._phase = name
        try:
            yield
        finally:
            self._phase = ""

    def note(self, what: str, amount: int = 1, who: str = "") -> None:
        """Add to a worker's count; the default is the worker whose turn it is."""
        if self._phase and (who or (who := self._who())):
            self.of[self._phase, what][who] += amount

    @property
    def phases(self) -> list[str]:
        """The phases in which anything was counted, in their order."""
        return [*dict.fromkeys(phase for phase, _ in self.of)]

    def total(self, phase: str, what: str) -> int:
        """Return the sum over all workers."""
        return sum(number for who, number in self.of[phase, what].items() if who != STORE)

    def most(self, phase: str, what: str) -> int:
        """Return the largest count of a worker."""
        return max((n for who, n in self.of[phase, what].items() if who != STORE), default=0)

    def of_store(self, phase: str, what: str) -> int:
        """Return the count of the store."""
        return self.of[phase, what][STORE]

    def of_rank(self, rank: int, phase: str, what: str) -> int:
        """Return the count of one worker."""
        return self.of[phase, what][f"w{rank}.0"]

    def _who(self) -> str:
        if self._is_in_store:
            return STORE
        current = worlds[-1].current if worlds else None
        return "" if current is None else current.name  # work of the simulation itself

    def _trace(self, frame: Any, event: str, argument: object) -> Any:
        return self._count_line if frame.f_code.co_filename.startswith(PACKAGE) else None

    def _count_line(self, frame: Any, event: str, argument: object) -> Any:
        if event == "line":
            self.note("lines")
        return self._count_line

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count simulated messages, requests to the store, and lines."""
        with pytest.MonkeyPatch.context() as patch:
            # As in large groups, most members are looked up only when needed.
            patch.setattr(joining, "MOST_READ", 8)
            # The first log line of a worker that waits comes in the time that is simulated.
            patch.setattr(leaving, "FIRST_WITHOUT_LIMIT_S", leaving.FIRST_S)
            patch.setattr(simulated_world, "random", SimpleNamespace(Random=Unvaried))
            patch.setattr(Link, "send", self._counted(Link.send))
            patch.setattr(Link, "send_back", self._counted(Link.send_back))
            self._count_requests(patch)
            enter, next_to_go_on = World.enter, World._next_to_go_on

            def counted_enter(world: World, process: Any) -> None:
                enter(world, process)
                is_sampled = process is not None and process.name in self._sampled
                # This thread runs the process until another process is entered.
                sys.settrace(self._trace if is_sampled else None)

            def uncounted_look(world: World) -> Any:
                # The world asks after each event whether a wait is over; a thread would sleep.
                sys.settrace(None)
                return next_to_go_on(world)

            patch.setattr(World, "enter", counted_enter)
            patch.setattr(World, "_next_to_go_on", uncounted_look)
            before = sys.gettrace()
            try:
                yield
            finally:
                sys.settrace(before)

    def _count_requests(self, patch: pytest.MonkeyPatch) -> None:
        ask, submit = SharedStore._ask, StoreState.submit

        def counted_ask(store: Any, op: Any, arguments: Any, timeout: Any = None) -> Any:
            frames: list[bytes] = []
            try:
                frames = ask(store, op, arguments, timeout)
                return frames
            finally:
                size = sum(map(len, [*arguments, *frames]))
                for who in ("", STORE):
                    self.note("requests", 1, who)
                    self.note("request bytes", size, who)

        def in_store(*request: Any) -> Any:
            self._is_in_store = True
            try:
                return submit(*request)
            finally:
                self._is_in_store = False

        patch.setattr(SharedStore, "_ask", counted_ask)
        patch.setattr(StoreState, "submit", in_store)

    def _counted(self, send: Any) -> Any:
        def counted(link: Any, *arguments: Any) -> Any:
            for end in (link.client, link.server) if link.up else ():
                self.note("messages", 1, end.name)
                self.note("message bytes", sum(map(len, arguments[-1])), end.name)
            return send(link, *arguments)

        return counted
