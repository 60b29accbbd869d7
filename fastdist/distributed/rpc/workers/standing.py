"""The lives of workers that belong to the group, and the refusals of others."""

from __future__ import annotations

from collections.abc import Collection

from fastdist.core.errors import GivenUpError, StaleIncarnationError

from .record import Record
from .worker import Worker


def is_life(found: Worker | None, incarnation: object) -> bool:
    """Return whether a worker was found, and is the life of this incarnation."""
    return found is not None and found.record.incarnation == incarnation


def is_out(given_up_by: Collection[int], num_there: int, *, stood_still: bool) -> bool:
    """Return whether a worker that members say they have given up is out of the group.

    Note    one notice is enough where this process stood still itself: it woke up in a group that
            goes on without it. Otherwise the notice of one worker proves little, which may have
            been cut off from all others and have given up each of them: then more must say so than
            are still there and do not
    """
    return stood_still or len(given_up_by) > num_there


def refusal_of(me: Record, worker: Worker) -> GivenUpError | None:
    """Return the refusal that this worker, `me`, sends to a live worker that it lost; None for one
    that has left.
    """
    if not worker.why_lost:
        return None
    return GivenUpError(
        f"worker {worker.name!r} (rank {worker.id}) was declared lost by worker "
        f"{me.name!r} (rank {me.rank}): {worker.why_lost}; it cannot come back: end "
        "this process, and start it again",
        incarnation=worker.record.incarnation,
    )


def stale_error(name: str, rank: int) -> StaleIncarnationError:
    """Return the refusal for a worker's earlier life, or for a message to one of this worker's."""
    return StaleIncarnationError(
        f"worker {name!r} (rank {rank}) has left, or this message is from or for a process that "
        "was replaced; restart it, it cannot come back"
    )
