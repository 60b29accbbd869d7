"""Stand-ins for the lives of peer workers, for tests of what a worker records about its peers."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

from fastdist.distributed.rpc import WorkerInfo

ME = 3


class Life:
    """A stand-in for a Worker object: one life of a rank."""

    def __init__(self, rank: int) -> None:
        self.id = rank
        self.name = f"w{rank}"
        self.info = WorkerInfo(self.name, rank)
        self.record = SimpleNamespace(incarnation=next(_incarnations))
        self.is_self = rank == ME
        self.is_dead, self.why_lost = False, ""
        self.lender = None
        self.given_up: dict[int, None] = {}

    def __repr__(self) -> str:
        return f"<a life of rank {self.id}>"


_incarnations = itertools.count(1 << 40)
_present: dict[int, Life] = {}


def life(rank: int) -> Life:
    """Return the current life of a rank; worker 3 is this process."""
    return _present.setdefault(rank, Life(rank))


def next_life(rank: int) -> Life:
    """Mark the current life of a rank as dead, and return a new one."""
    life(rank).is_dead = True
    del _present[rank]
    return life(rank)


def begin_anew() -> None:
    """Forget all lives."""
    _present.clear()
