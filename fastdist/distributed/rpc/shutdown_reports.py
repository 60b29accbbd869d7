"""Reports of members at the barrier of a shutdown, and the verdicts of its root."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fastdist.concurrency.future import Future, InternalFuture
from fastdist.core.errors import ShutdownIncomplete
from fastdist.system.foreign_text import one_line

from .handlers import Reply
from .workers.worker import Worker

# The most members that one message names.
_MOST_NAMED = 8
_OTHERS = "and others"


class Verdict(NamedTuple):
    """The root's answer to all reports of a round."""

    under_way: int = 0
    busy: str = ""
    somebody_gives_up: bool = False
    round_number: int = 0
    is_over: bool = False
    # Whether the round is repeated: a life has ended, and its report may have been counted.
    is_again: bool = False
    # The lives that have certainly ended, of ranks that may have a later life.
    over: tuple[str, ...] = ()
    # The workers that any member has lost, with the reasons; and the names of returned workers.
    lost: tuple[str, ...] = ()
    returned: tuple[str, ...] = ()
    # Identifies this verdict among the verdicts of other roots.
    token: str = ""
    # Whether members leave without a second barrier, because no member has notices to send.
    is_last: bool = False


class Report(NamedTuple):
    """The latest report of a member about itself and all members below it."""

    round_number: int = 0
    under_way: int = 0
    # Whether, since the last round, a call began, or a member began to wait for other members.
    has_changed: bool = True
    gives_up: bool = False
    # For each member with calls under way: text with their number and the functions whose Futures
    # have no value yet.
    busy: tuple[str, ...] = ()
    over: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    returned: tuple[str, ...] = ()
    # The token of the verdict that this report follows.
    after: str = ""
    # Whether any member must notify owners, before it leaves, that its references end.
    owes_notices: bool = False


class Gathering:
    """A round in which this worker waits for the members below it."""

    def __init__(self, own: Report) -> None:
        self.own = own
        self.awaited: dict[Worker, None] = {}
        self.done: Future[Reply | None] = InternalFuture()


def life_of(worker: Worker) -> str:
    """Return the text that identifies a worker's life in reports."""
    return f"{worker.record.incarnation:x}"


def first_ones(parts: Sequence[str]) -> tuple[str, ...]:
    """Return at most _MOST_NAMED texts, and _OTHERS after them if there are more texts."""
    own = [part for part in parts if part != _OTHERS]
    has_more = len(own) > _MOST_NAMED or len(own) < len(parts)
    return (*own[:_MOST_NAMED], *([_OTHERS] if has_more else []))


def told_without_value(functions: str) -> str:
    """Return text that the Futures of these functions have no value yet; empty for no functions."""
    return f", where the Future of {functions} has no value" if functions else ""


def too_busy(busy: str, timeout_s: float) -> ShutdownIncomplete:
    """Return the error of a shutdown that timed out while calls were under way."""
    return ShutdownIncomplete(
        f"all workers have reached the shutdown barrier, but calls are still under way after "
        f"{timeout_s:g} s: {one_line(busy) or 'new ones begin all the time'}"
    )


def incomplete(missing: str, timeout_s: float, *, has_come: bool) -> ShutdownIncomplete:
    """Return the error of a shutdown that timed out; `has_come`: all members called shutdown."""
    if has_come:
        return ShutdownIncomplete(
            f"all workers have reached the shutdown barrier, but not all answered there until "
            f"its end, within {timeout_s:g} s; missing: {missing}"
        )
    return ShutdownIncomplete(
        f"not all workers reached the shutdown barrier within {timeout_s:g} s; missing: {missing}"
    )
