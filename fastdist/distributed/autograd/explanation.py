"""What the graph of a context looks like over its workers, and where a pass spent its time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ...graph.node import Node, node_of
from ..rpc.agent import get_current_agent, is_current_agent_set
from ..rpc.api import rpc_sync
from .backward_pass import BackwardPass
from .container import INVALID_CONTEXT_ID, get_instance
from .context import DistAutogradContext
from .explain_picture import Drawing
from .explain_pieces import ROOT, Hop, Piece, Stretch, critical_path
from .message_autograd import context_guard
from .recv_rpc_backward import RecvRpcBackward

# Note [Clocks of several machines]
# Each worker's clock is set against that of who asks, by the middle of the question's round trip:
# a hop's time is off by at most half of that.

_TIMEOUT_S = 10.0


class Explanation:
    """A picture of a context's graph over its workers; `str()` gives it as text.

    `critical_path` is what the pass waited for, or, where none has run, its longest way in Nodes;
    `seconds` is how long the pass took, None where it is under way or none has run.
    """

    def __init__(
        self,
        context_id: int,
        state: str,
        names: dict[int, str],
        stretches: Sequence[Stretch],
        hops: Sequence[Hop],
        seconds: float | None,
    ) -> None:
        self.context_id = context_id
        self.state = state
        self.names = names
        self.stretches = tuple(stretches)
        self.hops = tuple(hops)
        self.seconds = seconds
        self.critical_path = critical_path(self.stretches, self.hops)

    def __str__(self) -> str:
        took = "" if self.seconds is None else f" after {_ms(self.seconds)}"
        over = f"{_count(len(self.names), 'worker')} and {_count(len(self.hops), 'message')}"
        lines = [f"context {self.context_id}: backward pass {self.state}{took}, over {over}"]
        for worker, name in self.names.items():
            own = [one for one in self.stretches if one.worker == worker]
            sends, begins = sum(one.start != ROOT for one in own), any(o.start == ROOT for o in own)
            receives = sum(hop.from_worker == worker for hop in self.hops)
            lines.append(
                f"  {name} (rank {worker}): {'begins the pass, ' if begins else ''}"
                f"{_count(sends, 'send')}, {_count(receives, 'receive')}, "
                f"{_count(max((one.leaves for one in own), default=0), 'leaf')} at most in one go"
            )
        lines.append("critical path" + ("" if self.is_timed else ", by the number of Nodes") + ":")
        lines += [f"  {self.describe(piece)}" for piece in self.critical_path]
        waiting = [hop for hop in self.hops if hop.arrived is None]
        if self.state == "running" and waiting:
            lines.append("no gradients yet for:")
            lines += [f"  {self.describe(hop)}" for hop in waiting]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return (
            f"<Explanation of context {self.context_id}: {self.state}, {len(self.names)} workers>"
        )

    @property
    def is_timed(self) -> bool:
        """Whether it knows when something happened."""
        return any(one.began is not None for one in self.stretches)

    def describe(self, piece: Piece) -> str:
        """Return a line about one piece of the graph."""
        if isinstance(piece, Hop):
            took = _between(piece.left, piece.arrived)
            way = f"{self.names[piece.from_worker]} -> {self.names[piece.to_worker]}"
            what = "word of no gradients" if piece.is_unused else "gradients"
            return f"{took}  {way}: {what} for message {piece.message_id}"
        start = "the roots" if piece.start == ROOT else f"message {piece.start}"
        ends = ", ".join(str(message_id) for message_id in piece.ends[:4])
        more = f" and {len(piece.ends) - 4} more" if len(piece.ends) > 4 else ""
        to = [f"message{'s' if len(piece.ends) > 1 else ''} {ends}{more}"] if ends else []
        to += [_count(piece.leaves, "leaf")] if piece.leaves else []
        return (
            f"{_between(piece.began, piece.ended)}  {self.names[piece.worker]}: "
            f"{_count(piece.nodes, 'Node')} from {start} to {' and '.join(to) or 'nothing'}"
        )

    def to_dot(self) -> str:
        """Return the graph in the language of Graphviz; the critical path is drawn bold."""
        return self._drawing().dot()

    def to_svg(self) -> str:
        """Return a picture: a row for each worker, over time, or over steps where none is known."""
        return self._drawing().svg()

    def save(self, path: str | Path) -> None:
        """Write a picture that needs nothing else, as the name ends: .html, .svg, .dot or .txt.

        Raises  ValueError for another ending
        """
        path = Path(path)
        drawing = self._drawing()
        writers: dict[str, Callable[[], str]] = {
            ".html": lambda: drawing.html(str(self)),
            ".svg": drawing.svg,
            ".dot": drawing.dot,
            ".txt": lambda: f"{self}\n",
        }
        if path.suffix not in writers:
            raise ValueError(
                f"cannot save an explanation as {path.name!r}; known endings: {', '.join(writers)}"
            )
        path.write_text(writers[path.suffix](), encoding="utf-8")

    def _drawing(self) -> Drawing:
        title = f"Backward pass of context {self.context_id}: {self.state}"
        pieces = (self.stretches, self.hops, self.critical_path)
        return Drawing(title, self.names, *pieces, describe=self.describe)


def explain(context_id: int) -> Explanation:
    """Return what a context's graph over its workers looks like, and how its last pass went.

    Before a pass it tells of the graph alone; during one, of what has happened so far; after it, of
    where the time went. What the roots lead to is known as long as somebody holds them.

    Thread  any; asks every worker that the context reached, and waits for the answers
    Raises  ContextError if this worker has no such context; RpcError if a worker does not answer
    """
    container = get_instance()
    context = container.retrieve_context(context_id)
    latest = context.latest_pass()
    pass_id = None if latest is None else latest.terms.pass_id
    reports: dict[int, dict[str, Any]] = {}
    to_ask = {container.worker_id} | _known(context)
    with context_guard(INVALID_CONTEXT_ID):
        while to_ask:
            for worker in sorted(to_ask):
                reports[worker] = _ask(worker, container.worker_id, context_id, pass_id)
            told = {worker for one in reports.values() for worker in one["workers"]}
            to_ask = {worker for worker in told - reports.keys() if not _is_lost(worker)}
    return _explanation(context_id, latest, dict(sorted(reports.items())))


def _ask(worker: int, own: int, context_id: int, pass_id: int | None) -> dict[str, Any]:
    before = time.perf_counter()
    if worker == own:
        found = _report(context_id, pass_id)
    else:
        found = rpc_sync(worker, _report, (context_id, pass_id), timeout=_TIMEOUT_S)
    after = time.perf_counter()
    # What to add to that worker's clock for it to be this one's.
    found["offset"] = 0.0 if worker == own else (before + after) / 2 - found["now"]
    return found


def _report(context_id: int, pass_id: int | None) -> dict[str, Any]:
    """Return what one worker knows of a context and a pass, in plain values."""
    now, context = time.perf_counter(), get_instance().find_context(context_id)
    name = get_current_agent().get_worker_info().name if is_current_agent_set() else "this worker"
    found: dict[str, Any] = {"now": now, "name": name, "workers": [], "stretches": []}
    found |= {"sends": {}, "receives": {}, "times": None}
    if context is None:
        return found
    part = None if pass_id is None else context.find_pass(pass_id)
    starts: dict[int, list[Node]] = {i: [send] for i, send in context._send_functions().items()}
    if part is not None and (roots := [node for one in part.roots if (node := one()) is not None]):
        starts[ROOT] = roots
    found["stretches"] = [(start, *_below(nodes)) for start, nodes in starts.items()]
    found["workers"] = sorted(_known(context))
    found["sends"] = {i: send.to_worker.id for i, send in context._send_functions().items()}
    receives = context._recv_functions()
    found["receives"] = {i: receive.from_worker.id for i, receive in receives.items()}
    if part is not None:
        by_message = dict(part.left_at), dict(part.arrived_at), sorted(part.unused)
        found["times"] = (part.began_at, part.settled_at, *by_message)
    return found


def _below(nodes: Sequence[Node]) -> tuple[int, int, list[int]]:
    """Return how many Nodes and leaves are below a start, itself included, and which receives."""
    seen, stack, leaves, ends = set(nodes), [*nodes], 0, list[int]()
    while stack:
        node = stack.pop()
        if node.is_accumulate:
            leaves += 1
        elif isinstance(node, RecvRpcBackward):
            ends.append(node.message_id)
        for edge in node.edges:
            if edge is not None and (below := node_of(edge)) not in seen:
                seen.add(below)
                stack.append(below)
    return len(seen), leaves, sorted(ends)


def _known(context: DistAutogradContext) -> set[int]:
    return {worker.id for worker in context.known_workers() if not worker.is_dead}


def _is_lost(rank: int) -> bool:
    worker = get_current_agent().find(rank)
    return worker is None or worker.is_dead


def _explanation(
    context_id: int, latest: BackwardPass | None, reports: dict[int, dict[str, Any]]
) -> Explanation:
    zero = 0.0 if latest is None else latest.began_at
    left: dict[tuple[int, int], float] = {}
    arrived: dict[tuple[int, int], float] = {}
    unused: set[tuple[int, int]] = set()
    settled: dict[int, float] = {}
    began: dict[int, float] = {}
    for worker, one in reports.items():
        if one["times"] is None:
            continue
        shift = one["offset"] - zero
        began_at, settled_at, left_at, arrived_at, words = one["times"]
        unused.update((worker, i) for i in words)
        began[worker] = began_at + shift
        if settled_at:
            settled[worker] = settled_at + shift
        left.update({(worker, i): at + shift for i, at in left_at.items()})
        arrived.update({(worker, i): at + shift for i, at in arrived_at.items()})
    hops = [
        Hop(
            i,
            worker,
            sender,
            left.get((worker, i)),
            arrived.get((sender, i)),
            (worker, i) in unused,
        )
        for worker, one in reports.items()
        for i, sender in one["receives"].items()
    ]
    stretches: list[Stretch] = []
    for worker, one in reports.items():
        for start, nodes, leaves, ends in one["stretches"]:
            at = began.get(worker) if start == ROOT else arrived.get((worker, start))
            ended = [left[worker, i] for i in ends if (worker, i) in left]
            if leaves and worker in settled:
                ended.append(settled[worker])
            until = max(ended, default=None) if at is not None else None
            stretches.append(Stretch(worker, start, tuple(ends), nodes, leaves, at, until))
    names = {worker: one["name"] for worker, one in reports.items()}
    state = "not begun" if latest is None else latest.state.name.lower()
    is_over = state == "over" and bool(settled)
    seconds = max(settled.values()) if is_over else None
    return Explanation(context_id, state, names, stretches, hops, seconds)


def _between(began: float | None, ended: float | None) -> str:
    if began is None or ended is None:
        return " " * 10
    return f"{_ms(ended - began):>10}"


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3f} ms"


_PLURALS = {"leaf": "leaves"}


def _count(number: int, what: str) -> str:
    return f"{number} {what if number == 1 else _PLURALS.get(what, what + 's')}"
