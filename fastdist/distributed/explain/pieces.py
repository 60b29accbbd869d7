"""The pieces of a context's graph over its workers, and the critical path through them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

# Note [Stretches and hops]
# A distributed pass is a graph of two kinds of pieces: stretches and hops. A stretch is the work of
# one worker after one start. A start is either the roots of the pass, or the arrival of the
# gradients of one message that the worker had sent. A stretch runs the Nodes below its start, and
# ends at leaves and at receives, which send gradients to other workers. A hop is the transfer of
# gradients from a receive to its send. A receive sends gradients when all starts that lead to it
# have arrived; the last of these starts is on the critical path.
# If no pass has run, the path with the most Nodes takes the place of the critical path. For a
# failed pass the critical path leads to the failure. It ends with the hop to a lost worker, or
# with the stretch that leads to the Node that raised. If the pass came to rest (autograd/stall.py),
# the critical path is the hop to which no Node leads.
# If the roots have been freed, the Nodes below them are unknown, but the hops from these Nodes are
# known. So the stretch that starts at the roots is shown without the number of Nodes.

ROOT = -1


class Stretch(NamedTuple):
    """The work of one worker after one start."""

    worker: int
    start: int  # the message id of a send; ROOT for the roots
    ends: tuple[int, ...]  # the message ids of the receives at which it ends
    nodes: int
    leaves: int
    began: float | None  # seconds since the start of the pass on the worker that runs explain
    ended: float | None
    has_failed: bool = False
    failed_in: str = ""  # the name of the Node that raised, if a Node of the stretch did


class Hop(NamedTuple):
    """The transfer of gradients from the receive of a message to its send."""

    message_id: int
    from_worker: int
    to_worker: int
    left: float | None
    arrived: float | None
    is_unused: bool = False  # only a notice was sent, because there are no gradients
    made_by: str = ""  # the name of the Node that produced the first tensor of the message
    # whether the pass came to rest because none of its Nodes leads to the receive
    is_unreached: bool = False


class Failed(NamedTuple):
    """Where and when a pass failed on one worker."""

    at: float | None
    failed_in: str = ""  # the name of the Node that raised; empty if a wait detected the failure
    starts: Sequence[int] = ()  # the starts that lead to that Node


Piece = Stretch | Hop
_Key = tuple[int, int]


def critical_path(
    stretches: Sequence[Stretch],
    hops: Sequence[Hop],
    failed: Mapping[int, Failed] | None = None,
    lost: Collection[int] = (),
) -> tuple[Piece, ...]:
    """Return the pieces for which a pass waited, in order; without a pass, the path with the most
    Nodes.

    `failed` has the workers on which the pass failed, `lost` the workers that were lost during it.
    """
    timed = [one for one in stretches if one.began is not None]
    if not timed:
        return _longest_path(stretches, hops)
    if not failed and not lost:
        return _path_to(max(timed, key=_last_seen), timed, hops)
    unanswered = [one for one in hops if one.to_worker in lost and one.arrived is None]
    if gone := [one for one in unanswered if one.left is not None]:
        return _path_to(max(gone, key=_left), timed, hops)
    failed = failed or {}
    if not any(one.failed_in for one in failed.values()) and (at := _unreached(stretches, hops)):
        return (at,)
    return _path_to(_where_it_failed(timed, hops, failed), timed, hops)


def _where_it_failed(
    timed: Sequence[Stretch], hops: Sequence[Hop], failed: Mapping[int, Failed]
) -> Stretch | None:
    """Return the latest stretch that leads to the Node that raised.

    If that Node is unknown, return the last unfinished stretch on the workers where the pass
    failed.
    """
    there = [one for one in timed if one.worker in failed]
    found = [one for one in there if one.start in failed[one.worker].starts]
    if not found:
        gone = {(hop.from_worker, hop.message_id) for hop in hops if hop.left is not None}
        open_ones = [one for one in there if one.leaves or not gone.issuperset(_ends(one))]
        found = open_ones or there
    last = max(found, key=_began, default=None)
    if last is None:
        return None
    at, failed_in, _ = failed[last.worker]
    return last._replace(ended=at, has_failed=True, failed_in=failed_in)


def _unreached(stretches: Sequence[Stretch], hops: Sequence[Hop]) -> Hop | None:
    """Return the first hop to which no Node leads, if the Nodes below the roots are known."""
    if not any(one.start == ROOT and one.nodes for one in stretches):
        return None
    led_to = {key for one in stretches for key in _ends(one)}
    hopeless = [o for o in hops if o.left is None and (o.from_worker, o.message_id) not in led_to]
    return hopeless[0]._replace(is_unreached=True) if hopeless else None


def _ends(stretch: Stretch) -> set[_Key]:
    return {(stretch.worker, message_id) for message_id in stretch.ends}


def _path_to(end: Piece | None, timed: Sequence[Stretch], hops: Sequence[Hop]) -> tuple[Piece, ...]:
    """Return the path to `end`, in which each piece follows the piece for which it waited last."""
    by_message = {(hop.to_worker, hop.message_id): hop for hop in hops}
    path: list[Piece] = []
    seen: set[_Key] = set()
    at: Piece | None = end
    while at is not None:
        below = path[-1] if path else None
        if isinstance(at, Hop):
            path.append(at)
            at = _above(at, timed)
        elif (at.worker, at.start) in seen:
            break
        else:
            seen.add((at.worker, at.start))
            path.append(_up_to(at, below) if isinstance(below, Hop) else at)
            hop = by_message.get((at.worker, at.start))
            at = None if hop is None or hop.left is None else hop
    return tuple(reversed(path))


def _above(hop: Hop, timed: Sequence[Stretch]) -> Stretch | None:
    """Return the stretch for which the gradients of a hop waited last, or None."""
    above = [o for o in timed if o.worker == hop.from_worker and hop.message_id in o.ends]
    before = [one for one in above if _began(one) <= _left(hop)]
    return max(before or above, key=_began, default=None)


def _up_to(stretch: Stretch, hop: Hop) -> Stretch:
    """Return the part of a stretch up to the departure of a hop's gradients."""
    return stretch._replace(ended=hop.left, ends=(hop.message_id,), leaves=0)


def _last_seen(stretch: Stretch) -> tuple[float, float]:
    # All stretches of a worker that lead to leaves end when the worker's part of the pass ends.
    # Among them, the stretch that began last is taken.
    ended = _began(stretch) if stretch.ended is None else stretch.ended
    return ended, _began(stretch)


def _left(hop: Hop) -> float:
    return -1.0 if hop.left is None else hop.left


def _began(stretch: Stretch) -> float:
    return -1.0 if stretch.began is None else stretch.began


def _longest_path(stretches: Sequence[Stretch], hops: Sequence[Hop]) -> tuple[Piece, ...]:
    """Return the path with the most Nodes. It is finite, because a message leads only to messages
    that were sent before it.
    """
    by_start = {(one.worker, one.start): one for one in stretches}
    by_end = {(hop.from_worker, hop.message_id): hop for hop in hops}
    best: dict[_Key, tuple[int, tuple[Piece, ...]]] = {}
    for key in _lowest_first(by_start, by_end):
        own = by_start[key]
        longest: tuple[int, tuple[Piece, ...]] = (0, ())
        for hop in _hops_of(own, by_end):
            nodes, path = best.get((hop.to_worker, hop.message_id), longest)
            if nodes > longest[0]:
                longest = (nodes, (hop, *path))
        best[key] = (own.nodes + longest[0], (own, *longest[1]))
    return max(best.values(), key=_nodes_of, default=(0, ()))[1]


def _nodes_of(found: tuple[int, tuple[Piece, ...]]) -> int:
    return found[0]


def _hops_of(stretch: Stretch, by_end: dict[_Key, Hop]) -> list[Hop]:
    keys = [(stretch.worker, message_id) for message_id in stretch.ends]
    return [by_end[key] for key in keys if key in by_end]


def _lowest_first(by_start: dict[_Key, Stretch], by_end: dict[_Key, Hop]) -> list[_Key]:
    """Return all starts, each after the starts to which it leads."""
    order: list[_Key] = []
    seen: set[_Key] = set()
    for first in by_start:
        stack = [(first, False)]
        while stack:
            key, is_done = stack.pop()
            if is_done:
                order.append(key)
            elif key not in seen:
                seen.add(key)
                stack.append((key, True))
                hops = _hops_of(by_start[key], by_end)
                below = [(hop.to_worker, hop.message_id) for hop in hops]
                stack += [(one, False) for one in below if one in by_start]
    return order


def steps(stretches: Sequence[Stretch], hops: Sequence[Hop]) -> dict[_Key, int]:
    """Return the largest number of hops on a path to each stretch, by worker and start."""
    by_start = {(one.worker, one.start): one for one in stretches}
    by_end = {(hop.from_worker, hop.message_id): hop for hop in hops}
    found = dict.fromkeys(by_start, 0)
    for key in reversed(_lowest_first(by_start, by_end)):
        for hop in _hops_of(by_start[key], by_end):
            below = (hop.to_worker, hop.message_id)
            if below in found:
                found[below] = max(found[below], found[key] + 1)
    return found
