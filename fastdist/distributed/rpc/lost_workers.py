"""The workers that were lost, and how, as this worker, the others and the store know it."""

from __future__ import annotations

from collections.abc import Iterable

from fastdist.core.foreign_text import one_line

from .workers.notices import CAUSE, ENDED, MOST_LETTERS
from .workers.workers import Workers


def find_lost(workers: Workers, told: Iterable[str]) -> list[str]:
    """Return the workers that this one or others have lost, each with how; reads the store."""
    lost, group = merge_lost([*workers.lost(), *told]), workers.group
    if not lost or workers.given_up is not None or not group.is_static:
        return lost
    # A worker that has met nobody has left its reason in the store.
    for worker in workers.all():
        who = f"{worker.name!r} (rank {worker.id}): "
        if any(line.startswith(who) and CAUSE not in line for line in lost):
            why = one_line(group.why_ended(worker.record.incarnation), MOST_LETTERS)
            lost += [f"{who}{why}"] if why.startswith(ENDED) else []
    return merge_lost(lost)


def merge_lost(lost: Iterable[str]) -> list[str]:
    """Return one line for each worker that was lost, that which says best why."""
    found: dict[str, str] = {}
    for line in sorted(lost, key=lambda line: (CAUSE in line, ENDED in line)):
        found[line.partition(": ")[0]] = line
    return [found[who] for who in sorted(found)]
