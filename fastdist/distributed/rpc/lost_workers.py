"""The lost workers and why they ended, as known by this worker, other workers and the store."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from fastdist.distributed.store.environment import store_is_hosted
from fastdist.system.foreign_text import one_line

from .workers.end_reasons import CAUSE, ENDED, MOST_LETTERS
from .workers.worker import Worker
from .workers.workers import Workers


def find_lost(workers: Workers, told: Iterable[str], asked: set[int]) -> list[str]:
    """Return a line of text about each worker that this worker has lost or that `told` reports.

    If a line has no reason, and the worker's life is not in `asked`, the reason is read from the
    store and the life is added to `asked`.
    """
    lost = merge_lost([*workers.lost(), *told])
    if not lost or workers.given_up is not None or not workers.group.is_static:
        return lost
    lines = tuple(line for line in lost if CAUSE not in line)
    found = [one for one in workers.known_here() if any(map(_is_about(one), lines))]
    unexplained = [one for one in found if one.record.incarnation not in asked]
    asked.update(one.record.incarnation for one in unexplained)
    # If rank 0 hosted the store, the store was lost with it.
    if any(worker.id == 0 for worker in unexplained) and not store_is_hosted():
        return lost
    for worker in unexplained:
        # A worker that ended without a connection to this worker has written the reason to the
        # store.
        why = workers.group.why_ended(worker.record.incarnation)
        if why is None:
            break
        if why.startswith(ENDED):
            lost.append(f"{_beginning(worker)}{one_line(why, MOST_LETTERS)}")
    return merge_lost(lost)


def _beginning(worker: Worker) -> str:
    return f"{worker.name!r} (rank {worker.id}): "


def _is_about(worker: Worker) -> Callable[[str], bool]:
    return lambda line: line.startswith(_beginning(worker))


def lost_name(line: str) -> str:
    """Return the name of the worker that a line of `find_lost` is about."""
    return line.partition(" (rank ")[0].strip("'")


def without(lost: Iterable[str], names: Collection[str]) -> list[str]:
    """Return the lines about workers that are not in `names`."""
    return [line for line in lost if lost_name(line) not in names]


def merge_lost(lost: Collection[str]) -> list[str]:
    """Return one line for each lost worker: the line with the most precise reason."""
    if not lost:
        return []
    found: dict[str, str] = {}
    for line in sorted(lost, key=lambda line: (CAUSE in line, ENDED in line)):
        found[line.partition(": ")[0]] = line
    return [found[who] for who in sorted(found)]
