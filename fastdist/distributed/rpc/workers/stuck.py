"""Workers whose threads all wait for calls: the report in their notices, and the error text."""

# If all threads of a worker wait, the worker reports this in its PONG. Otherwise its PONG has the
# latest such report of the workers to which it has calls under way. So the first caller of a chain
# of calls can name the worker where the chain got stuck. A report that is passed on keeps its
# original time; otherwise two workers that call each other would pass it on forever.

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, Protocol

from fastdist.concurrency import thread_pool
from fastdist.system.foreign_text import one_line

from ..message.metadata import Value
from ..message.metadata_fields import number, text
from .end_reasons import BEAT_S

# The metadata names of a report in a PONG.
_NUM_THREADS: Final = "stuck"
_NAME: Final = "stuck_worker"
_AGE_MS: Final = "stuck_ms"
# How long a report is valid: a PONG is due every BEAT_S while a call waits for the worker.
_HOLDS_S: Final = 2.0 * BEAT_S


class Stuck(NamedTuple):
    """A worker whose threads for users' functions all wait, and the time when that was found."""

    name: str
    num_threads: int
    since: float

    @property
    def is_recent(self) -> bool:
        """Whether the report is recent enough to be valid."""
        return bool(self.num_threads) and time.monotonic() - self.since < _HOLDS_S


NOT_STUCK: Final = Stuck("", 0, -math.inf)


class _Peer(Protocol):
    stuck: Stuck


def latest(peers: Iterable[_Peer]) -> Stuck:
    """Return the latest valid report among some workers."""
    found = [peer.stuck for peer in peers if peer.stuck.is_recent]
    return max(found, key=lambda stuck: stuck.since, default=NOT_STUCK)


def pack_stuck(stuck: Stuck) -> dict[str, Value]:
    """Return the metadata of a PONG for a report; empty if no worker is stuck."""
    if not stuck.num_threads:
        return {}
    age_ms = int((time.monotonic() - stuck.since) * 1000.0)
    return {_NUM_THREADS: stuck.num_threads, _NAME: stuck.name, _AGE_MS: max(0, age_ms)}


def read_stuck(metadata: Mapping[str, Value], sender: int) -> Stuck:
    """Return the report in a PONG of a worker.

    Raises  MessageError
    """
    if _NUM_THREADS not in metadata:
        return NOT_STUCK
    since = time.monotonic() - max(0, number(metadata, _AGE_MS, sender)) / 1000.0
    name = one_line(text(metadata, _NAME, sender))
    return Stuck(name, number(metadata, _NUM_THREADS, sender), since)


def all_wait(stuck: Stuck) -> str:
    """Return the beginning of an error text, which says that no thread of a worker is free."""
    lent = thread_pool.MAX_LOANS
    more = f"as do {lent} calls for which other threads stood in, and " if lent else ""
    return (
        f"all {stuck.num_threads} threads of worker {stuck.name!r} wait for their own calls, "
        f"{more or 'and '}"
    )
