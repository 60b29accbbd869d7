"""Checks whether a worker's life belongs to the group, and creates refusals for other lives."""

from __future__ import annotations

from collections.abc import Collection

from fastdist.core.errors import GivenUpError, StaleIncarnationError

from .record import Record
from .worker import Worker


def is_life(found: Worker | None, incarnation: object) -> bool:
    """Return whether `found` is a worker, and has this incarnation number."""
    return found is not None and found.record.incarnation == incarnation


def is_out(given_up_by: Collection[int], num_there: int, *, stood_still: bool) -> bool:
    """Return whether this worker is out of the group, after reports of members that gave it up.

    Note    one report is enough if this process was stopped, because the group went on without this
            worker. Otherwise one report proves little: its sender may have been cut off from all
            others, and may have given up each of them. In this case the members that have reported
            it must outnumber the connected members that have not (`num_there`)
    """
    return stood_still or len(given_up_by) > num_there


def refusal_of(me: Record, worker: Worker) -> GivenUpError | None:
    """Return the refusal that this worker, `me`, sends to a worker that it has declared lost.

    The result is None for a worker that left in order.
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
    """Return the refusal for an earlier life of a worker, or for a message to an earlier life."""
    return StaleIncarnationError(
        f"worker {name!r} (rank {rank}) has left, or this message is from or for a process that "
        "was replaced; restart it, it cannot come back"
    )
