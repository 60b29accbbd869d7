"""Reports of members at the barrier of a shutdown, and the answers of its root."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fastdist.concurrency.future import Future, InternalFuture
from fastdist.core.errors import ShutdownIncomplete
from fastdist.system.foreign_text import one_line

from .handlers import Reply
from .workers.worker import Worker

# So many members are named in one message, of however many.
_MOST_NAMED = 8
_OTHERS = "and others"


class Verdict(NamedTuple):
    """The root's answer to all that have reported a round."""

    under_way: int
    busy: str
    somebody_gives_up: bool
    round_number: int = 0
    is_over: bool = False
    # Whether the round is held again, for a life is over that some may have counted.
    is_again: bool = False
    # The lives that may be followed by others and have ended for sure.
    over: tuple[str, ...] = ()
    # The workers that any member has lost, each with how; and the names of those that are here.
    lost: tuple[str, ...] = ()
    returned: tuple[str, ...] = ()
    # Tells this verdict from those of other roots.
    token: str = ""


class Report(NamedTuple):
    """The latest report of a member on itself and all below it."""

    round_number: int = 0
    under_way: int = 0
    # Whether since the last round a call began, or a call began to wait for other calls.
    has_changed: bool = True
    gives_up: bool = False
    # Which members have calls under way, with the functions whose Futures have no value yet.
    busy: tuple[str, ...] = ()
    over: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    returned: tuple[str, ...] = ()
    # The verdict that it follows.
    after: str = ""


class Gathering:
    """A round in which this worker waits for those below it."""

    def __init__(self, own: Report) -> None:
        self.own = own
        self.awaited: dict[Worker, None] = {}
        self.done: Future[Reply | None] = InternalFuture()


def verdict_on(report: Report, before: Verdict, *, is_again: bool, token: str) -> Verdict:
    """Return the verdict on a round that all have reported, after the one `before`."""
    is_quiet = report.under_way == before.under_way == 0 and not report.has_changed
    return Verdict(
        report.under_way,
        ", ".join(report.busy),
        report.gives_up,
        report.round_number,
        is_over=is_quiet and not is_again,
        is_again=is_again,
        over=report.over,
        lost=report.lost,
        returned=report.returned,
        token=token,
    )


def life_of(worker: Worker) -> str:
    """Return the text that names a worker's life in reports."""
    return f"{worker.record.incarnation:x}"


def first_ones(parts: Sequence[str]) -> tuple[str, ...]:
    """Return the first ones of many texts, and that there are others."""
    own = [part for part in parts if part != _OTHERS]
    has_more = len(own) > _MOST_NAMED or len(own) < len(parts)
    return (*own[:_MOST_NAMED], *([_OTHERS] if has_more else []))


def told_without_value(functions: str) -> str:
    """Return the words for functions whose Futures have no value yet, empty for none."""
    return f", where the Future of {functions} has no value" if functions else ""


def too_busy(busy: str, timeout_s: float) -> ShutdownIncomplete:
    """Return the error of a shutdown whose time is over while calls are under way."""
    return ShutdownIncomplete(
        f"all workers have reached the shutdown barrier, but calls are still under way after "
        f"{timeout_s:g} s: {one_line(busy) or 'new ones begin all the time'}"
    )


def incomplete(missing: str, timeout_s: float, *, has_come: bool) -> ShutdownIncomplete:
    """Return the error of a shutdown that waits for others; `has_come` if all were there once."""
    if has_come:
        return ShutdownIncomplete(
            f"all workers have reached the shutdown barrier, but not all answered there until "
            f"its end, within {timeout_s:g} s; missing: {missing}"
        )
    return ShutdownIncomplete(
        f"not all workers reached the shutdown barrier within {timeout_s:g} s; missing: {missing}"
    )
