"""Workers whose progress thread, lanes and owner run only when a test calls them."""

from __future__ import annotations

import heapq
import itertools
import math
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from fastdist.distributed.pipe.lane import READABLE
from fastdist.distributed.rpc.message.message import decode
from fastdist.distributed.rpc.workers.directory import StoreDirectory
from fastdist.distributed.rpc.workers.group import Group
from fastdist.distributed.rpc.workers.record import Record
from fastdist.distributed.rpc.workers.workers import Workers
from fastdist.distributed.store import HashStore, Store

ME, OTHER = (
    Record(f"w{rank}", rank, 2, 100 + rank, {"uv": "somewhere"}, {}, "none") for rank in range(2)
)


class ProgressByHand:
    """A progress thread that runs only when the test calls it."""

    def __init__(self) -> None:
        self.alarms: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self.readers: dict[int, Callable[[], None]] = {}
        self.skipped_s = 0.0

    def now(self) -> float:
        return time.monotonic() + self.skipped_s

    def post(self, function: Callable[..., None], *arguments: Any) -> None:
        function(*arguments)

    def call_at(self, when: float, function: Callable[[], None]) -> None:
        heapq.heappush(self.alarms, (when, next(self._numbers), function))

    def is_current_thread(self) -> bool:
        return False

    def stood_still_lately(self, frozen_s: float) -> bool:
        return False

    def woke_at(self) -> float:
        return -math.inf

    def run_alarms(self) -> None:
        """Advance the clock until no alarm is left, including alarms that alarms add."""
        while self.alarms:
            when, _, function = heapq.heappop(self.alarms)
            self.skipped_s = max(self.skipped_s, when - time.monotonic())
            function()

    def run_present_alarms(self) -> None:
        alarms, self.alarms = self.alarms, []
        for _, _, function in sorted(alarms):
            function()

    def watch(self, fd: int, reader: Callable[[], None]) -> None:
        self.readers[fd] = reader

    def unwatch(self, fd: int) -> None:
        self.readers.pop(fd, None)


class SilentLane:
    """A lane that accepts all messages for sending, and that receives the messages in `came`."""

    is_open = True
    pulse = None
    takes_edges = True

    def __init__(self) -> None:
        self.came: list[Any] = []
        self.sent: list[Any] = []

    def try_send(self, frames: Any) -> bool:
        self.sent.append(frames)
        return True

    def try_receive(self) -> Any:
        return self.came.pop(0)

    def events(self) -> int:
        return READABLE if self.came else 0

    def fileno(self) -> int:
        return -1

    connection_fileno = fileno

    def next_connection_event(self) -> None:
        return None

    def close(self, linger_s: float = 0.0) -> None:
        self.is_open = False


def kinds_sent(worker: Any) -> list[int]:
    """Return the types of the messages sent on lane 0."""
    return [decode(frames).type for frames in worker._shared.lane.sent]


class Caller:
    """The attributes of a calling worker that the lane of a caller uses."""

    lender = None
    is_self = is_dead = False

    def __init__(self, record: Record) -> None:
        self.record, self.info = record, record.info
        self.id, self.name = record.rank, record.name
        self.given_up: dict[int, None] = {}


def caller_of(record: Record) -> Any:
    """Return a stand-in for a calling worker."""
    return Caller(record)


def workers_of(
    group: Group,
    context: Any = None,
    submit: Callable[..., object] = lambda *_: None,
) -> Any:
    """Return the directory of a group whose workers are reached by lanes that receive nothing."""
    if context is None:
        context = SimpleNamespace(
            choose=lambda *_, **__: "uv", connect=lambda *_, **__: SilentLane()
        )
    callers: Any = SimpleNamespace(forget=lambda *_: None, fence=lambda _: None)
    progress: Any = ProgressByHand()
    workers = Workers(group, context, callers, progress, submit, lambda _: None)
    workers.is_open = True
    return workers


def present(store: Store) -> list[Record]:
    """Return the records of all members in a store, in order of their ranks."""
    return StoreDirectory(store).changes(0).came


def strike_out(store: Store, incarnation: int, *, was_lost: bool = False) -> None:
    """Mark a life as lost, or else as having left, if it is a member."""
    directory = StoreDirectory(store)
    for one in present(store):
        if one.incarnation == incarnation:
            (directory.declare_lost if was_lost else directory.leave)(one)


def static(me: Record, *others: Record, store: Store | None = None) -> Group:
    """Return a group with all members present from the start."""
    return Group(store or HashStore(), me, sorted([me, *others], key=lambda one: one.rank))
