"""The graph of a context over its workers, and the time of each part of a pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fastdist.system.foreign_text import one_line

from ...core.errors import WorkerLostError
from ...core.folded_frames import folds
from ...graph.node import Node, node_of
from ...instrumentation.notebook import picture
from ...instrumentation.time_ranges import clock
from ..autograd.backward_pass import BackwardPass
from ..autograd.container import INVALID_CONTEXT_ID, get_instance
from ..autograd.context import DistAutogradContext
from ..autograd.message_autograd import context_guard
from ..autograd.recv_rpc_backward import RecvRpcBackward
from ..rpc.agent import get_current_agent, is_current_agent_set
from ..rpc.api import rpc_sync
from ..rpc.message.ids import id_text, read_id
from .clocks import Passage, Sighting, fit, sight
from .picture import Drawing
from .pieces import ROOT, Failed, Hop, Piece, Stretch, critical_path

# Note [Clocks of several machines]
# Each worker's clock is aligned with the clock of the worker that runs explain. The offset comes
# from the fastest of several round trips, and from the rule that a gradient arrives after it was
# sent (clocks.py). The report is requested first, so that the connection is already open when the
# round trips are timed.

# Note [Passes that failed]
# Each worker keeps the text of the error that ended its part of the pass. The report shows only the
# errors of workers that raised them. All other workers received such an error, in an answer or in
# the notice to give up the pass. Lost workers are not queried. The other workers report which
# workers were lost. A hop to a lost worker has no arrival time.

_TIMEOUT_S = 10.0
_AT_ONCE = 10
_EXPECTED = (
    "expected the id that `with context() as context_id` gives, or the text that errors and the "
    "log have for it, such as '0:5'"
)


class Explanation:
    """The graph of a context over its workers; `str()` returns it as text.

    `state` is "not begun", "running", "settling", "over" or "failed". `critical_path` has the
    pieces for which the pass waited; if no pass has run, it is the path with the most Nodes.
    `seconds` is the duration of the pass; None while the pass is under way, or if none has run.
    `failures` has the texts of the errors that ended a failed pass, by worker. `lost` has the lost
    workers.
    """

    def __init__(
        self,
        context_id: int,
        state: str,
        names: dict[int, str],
        stretches: Sequence[Stretch],
        hops: Sequence[Hop],
        seconds: float | None,
        failures: Mapping[int, str] | None = None,
        lost: Iterable[int] = (),
        failed: Mapping[int, Failed] | None = None,
        leaves: Mapping[int, int] | None = None,
    ) -> None:
        self.context_id = context_id
        self.state = state
        self.names = names
        self.stretches = tuple(stretches)
        self.hops = tuple(hops)
        self.seconds = seconds
        self.failures = dict(failures or {})
        self.lost = frozenset(lost)
        pieces = self.stretches, self.hops
        if state == "failed":
            unknown = dict.fromkeys(self.failures, Failed(None))
            self.critical_path = critical_path(*pieces, unknown | dict(failed or {}), self.lost)
        else:
            self.critical_path = critical_path(*pieces)
        if leaves is None:
            leaves = {one.worker: one.leaves for one in sorted(stretches, key=_leaves_of)}
        self._leaves = leaves

    def __str__(self) -> str:
        took = "" if self.seconds is None else f" after {_ms(self.seconds)}"
        over = f"{_count(len(self.names), 'worker')} and {_count(len(self.hops), 'message')}"
        which = id_text(self.context_id)
        lines = [f"context {which}: backward pass {self.state}{took}, over {over}"]
        lines += [f"  {self._place(at)} raised {words}" for at, words in self.failures.items()]
        for worker in self.names:
            if worker in self.lost:
                lines.append(f"  {self._place(worker)}: lost")
                continue
            own = [one for one in self.stretches if one.worker == worker]
            sends, begins = sum(one.start != ROOT for one in own), any(o.start == ROOT for o in own)
            receives = sum(hop.from_worker == worker for hop in self.hops)
            lines.append(
                f"  {self._place(worker)}: {'begins the pass, ' if begins else ''}"
                f"{_count(sends, 'send')}, {_count(receives, 'receive')}, "
                f"{_count(self._leaves.get(worker, 0), 'leaf')}"
            )
        lines += self._told_path()
        waiting = [hop for hop in self.hops if hop.arrived is None]
        if self.state in ("running", "failed") and waiting:
            lines.append(f"no gradients {'yet' if self.state == 'running' else 'came'} for:")
            lines += [f"  {self.describe(hop)}" for hop in waiting[:_AT_ONCE]]
            if (more := len(waiting) - _AT_ONCE) > 0:
                lines.append(f"  {' ' * 10}  and {_count(more, 'more message')}")
        return "\n".join(map(one_line, lines))  # the names of other workers are not trusted

    def _told_path(self) -> list[str]:
        """Return lines about the critical path: the sum of times of each kind of piece, and each
        piece.
        """
        path = self.critical_path
        if not path:
            return []
        if not self.is_timed:
            title = "critical path, by the number of Nodes"
        elif self.state == "failed":
            title = "the path to the failure"
        else:
            ran = [(o.began, o.ended) for o in path if isinstance(o, Stretch)]
            went = [(hop.left, hop.arrived) for hop in path if isinstance(hop, Hop)]
            title = f"critical path: {_ms(_sum(ran))} in Nodes, {_ms(_sum(went))} between workers"
        return [f"{title}:", *(f"  {self.describe(piece)}" for piece in path)]

    def _place(self, worker: int) -> str:
        return f"{self.names[worker]} (rank {worker})"

    def __repr__(self) -> str:
        return (
            f"<Explanation of context {id_text(self.context_id)}: {self.state}, "
            f"{_count(len(self.names), 'worker')}>"
        )

    @property
    def is_timed(self) -> bool:
        """Whether the times of the pieces are known."""
        return any(one.began is not None for one in self.stretches)

    def describe(self, piece: Piece) -> str:
        """Return a line that describes one piece of the graph."""
        if isinstance(piece, Hop):
            took = _between(piece.left, piece.arrived)
            what = "notice of no gradients" if piece.is_unused else "gradients"
            whom = self.names[piece.to_worker]
            never = f"; {whom} was lost" if piece.to_worker in self.lost else ""
            if piece.is_unreached:
                never += f"; no root depends on it, which {piece.made_by or 'something'} made there"
            way = f"{self.names[piece.from_worker]} -> {whom}"
            return f"{took}  {way}: {what} for message {id_text(piece.message_id)}{never}"
        start = "the roots" if piece.start == ROOT else f"message {id_text(piece.start)}"
        ends = ", ".join(id_text(message_id) for message_id in piece.ends[:4])
        more = f" and {len(piece.ends) - 4} more" if len(piece.ends) > 4 else ""
        to = [f"message{'s' if len(piece.ends) > 1 else ''} {ends}{more}"] if ends else []
        to += [_count(piece.leaves, "leaf")] if piece.leaves else []
        # If the roots have been freed, the Nodes below them cannot be counted.
        what = f"{_count(piece.nodes, 'Node')} " if piece.nodes else ""
        if piece.has_failed:
            where = f"in {piece.failed_in}, " if piece.failed_in else ""
            what = f"failed {where}among {what}"
        return (
            f"{_between(piece.began, piece.ended)}  {self.names[piece.worker]}: "
            f"{what}from {start} to {' and '.join(to) or 'nothing'}"
        )

    def to_dot(self) -> str:
        """Return the graph in Graphviz's DOT language; the critical path is bold."""
        return self._drawing().dot()

    def to_svg(self) -> str:
        """Return a picture with one row per worker. From left to right is time, or the number of
        steps if the times are unknown.
        """
        return self._drawing().svg()

    def _repr_html_(self) -> str:
        """Return the picture and the text, which is folded, as HTML for a notebook."""
        return picture(self.to_svg(), str(self))

    def save(self, path: str | Path) -> None:
        """Write a self-contained file in the format of its suffix: .html, .svg, .dot or .txt.

        Raises  ValueError for another suffix
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
        title = f"Backward pass of context {id_text(self.context_id)}: {self.state}"
        pieces = (self.stretches, self.hops, self.critical_path)
        return Drawing(title, self.names, *pieces, describe=self.describe)


@folds
def explain(context_id: int | str) -> Explanation:
    """Return the graph of a context over its workers, and the progress of its last pass.

    Before a pass, the explanation has only the graph. During a pass it also has the progress. After
    a pass it has the time of each part, and for a failed pass the failure. The Nodes below the
    roots are known only while the roots are alive. The id may also be the text that explanations,
    errors and the log have for it: `"0:5"` is context 5 of worker 0.

    Thread  any; queries every worker that the context reached, and waits for the answers
    Raises  ContextError if this worker has no such context; RpcError if a worker does not answer;
            TypeError or ValueError if context_id is not an id

    Args:
        context_id: The id of an open context, or its text.

    Returns:
        An Explanation: print it, or save it as .html, .svg or .dot.

    Example:
        >>> x = torch.ones(2, requires_grad=True)
        >>> with dist_autograd.context() as context_id:
        ...     y = rpc.rpc_sync("worker0", torch.mul, args=(x, x)).sum()
        ...     dist_autograd.backward(context_id, [y])
        ...     report = dist_autograd.explain(context_id)
        >>> type(report).__name__
        'Explanation'
    """
    context_id = _id_of(context_id)
    container = get_instance()
    context = container.retrieve_context(context_id)
    latest = context.latest_pass()
    pass_id = None if latest is None else latest.terms.pass_id
    reports: dict[int, dict[str, Any]] = {}
    seen: dict[int, Sighting] = {}
    lost: dict[int, str] = {}
    to_ask = {container.worker_id: "this worker", **_known(context)}
    with context_guard(INVALID_CONTEXT_ID):
        while to_ask:
            for worker, name in sorted(to_ask.items()):
                try:
                    report, seen[worker] = _ask(worker, container.worker_id, context_id, pass_id)
                    reports[worker] = report
                except WorkerLostError:
                    lost[worker] = name
            for one in reports.values():
                lost.update({at: name for at, name in one["lost"].items() if at not in reports})
            told = {at: name for one in reports.values() for at, name in one["workers"].items()}
            to_ask = {at: told[at] for at in told.keys() - reports.keys() - lost.keys()}
    return _explanation(context_id, latest, dict(sorted(reports.items())), seen, lost)


def _id_of(given: object) -> int:
    if type(given) is int:
        return given
    if not isinstance(given, str):
        raise TypeError(f"explain(context_id): {_EXPECTED}, got {given!r}")
    if (found := read_id(given.strip())) is None:
        raise ValueError(f"explain({given!r}): {_EXPECTED}")
    return found


def _ask(
    worker: int, own: int, context_id: int, pass_id: int | None
) -> tuple[dict[str, Any], Sighting]:
    if worker == own:
        return _report(context_id, pass_id), Sighting(clock(), 0, 0)
    there = get_current_agent().workers.find(worker)
    if there is None or there.is_dead:
        lost = get_current_agent().workers.in_words(worker)
        raise WorkerLostError(f"{lost} was lost, or has left")
    found = rpc_sync(worker, _report, (context_id, pass_id), timeout=_TIMEOUT_S)
    return found, sight(lambda: rpc_sync(worker, _clock_here, timeout=_TIMEOUT_S))


def _clock_here() -> int:
    return clock()


def _report(context_id: int, pass_id: int | None) -> dict[str, Any]:
    """Return this worker's report on a context and a pass, as dicts, lists, numbers and text."""
    context = get_instance().find_context(context_id)
    name = get_current_agent().get_worker_info().name if is_current_agent_set() else "this worker"
    found: dict[str, Any] = {"name": name, "workers": {}, "lost": {}, "stretches": []}
    found |= {"sends": {}, "receives": {}, "times": None, "failure": None, "leaves": 0}
    if context is None:
        return found
    part = None if pass_id is None else context.find_pass(pass_id)
    starts: dict[int, list[Node]] = {i: [send] for i, send in context._send_functions().items()}
    if part is not None and (roots := [node for one in part.roots if (node := one()) is not None]):
        starts[ROOT] = roots
    leaves: set[Node] = set()
    below = {start: _below(nodes, leaves) for start, nodes in starts.items()}
    found["stretches"] = [(start, len(seen), *rest) for start, (seen, *rest) in below.items()]
    found["leaves"] = len(leaves)
    found["workers"] = _known(context)
    found["lost"] = {worker.id: worker.name for worker in context.lost_workers()}
    sends = context._send_functions().items()
    found["sends"] = {i: node_of(of[0]).name() for i, send in sends if (of := send.edges)}
    receives = context._recv_functions()
    found["receives"] = {i: receive.from_worker.id for i, receive in receives.items()}
    if part is not None:
        by_message = dict(part.left_at), dict(part.arrived_at), sorted(part.unused)
        found["times"] = (part.began_at, part.settled_at, *by_message)
        if (failure := part.failure) is not None:
            raised_in = None if failure.node is None else failure.node()
            above = [start for start, (seen, *_) in below.items() if raised_in in seen]
            found["failure"] = (failure.at_ns, failure.is_own, failure.words, failure.name, above)
    return found


def _below(nodes: Sequence[Node], all_leaves: set[Node]) -> tuple[set[Node], int, list[int]]:
    """Return the given Nodes and all Nodes below them, the number of leaves among these, and the
    message ids of the receives among them.

    The leaves are added to `all_leaves`, which counts a leaf below several starts only once.
    """
    seen, stack, leaves, ends = set(nodes), [*nodes], 0, list[int]()
    while stack:
        node = stack.pop()
        if node.is_accumulate:
            leaves += 1
            all_leaves.add(node)
        elif isinstance(node, RecvRpcBackward):
            ends.append(node.message_id)
        for edge in node.edges:
            if edge is not None and (below := node_of(edge)) not in seen:
                seen.add(below)
                stack.append(below)
    return seen, leaves, sorted(ends)


def _known(context: DistAutogradContext) -> dict[int, str]:
    return {worker.id: worker.name for worker in context.known_workers() if not worker.is_dead}


class _Times:
    """Event times by worker and message id, in nanoseconds of this worker's clock."""

    def __init__(self, reports: dict[int, dict[str, Any]], offsets: Mapping[int, int]) -> None:
        self.began: dict[int, int] = {}
        self.settled: dict[int, int] = {}
        self.left: dict[tuple[int, int], int] = {}
        self.arrived: dict[tuple[int, int], int] = {}
        self.unused: set[tuple[int, int]] = set()
        self.failed: dict[int, int] = {}
        for worker, one in reports.items():
            if one["failure"] is not None:
                self.failed[worker] = one["failure"][0] + offsets[worker]
            if one["times"] is None:
                continue
            offset = offsets[worker]
            began_at, settled_at, left_at, arrived_at, unused = one["times"]
            self.unused.update((worker, i) for i in unused)
            if began_at:
                self.began[worker] = began_at + offset
            if settled_at:
                self.settled[worker] = settled_at + offset
            self.left.update({(worker, i): at + offset for i, at in left_at.items()})
            self.arrived.update({(worker, i): at + offset for i, at in arrived_at.items()})


def _explanation(
    context_id: int,
    latest: BackwardPass | None,
    reports: dict[int, dict[str, Any]],
    seen: Mapping[int, Sighting],
    lost: Mapping[int, str],
) -> Explanation:
    own = get_instance().worker_id
    raw = _Times(reports, dict.fromkeys(reports, 0))
    receives = [
        (i, worker, sender)
        for worker, one in reports.items()
        for i, sender in one["receives"].items()
    ]
    passages = [
        Passage(worker, raw.left[worker, i], sender, raw.arrived[sender, i])
        for i, worker, sender in receives
        if (worker, i) in raw.left and (sender, i) in raw.arrived
    ]
    times = _Times(reports, fit({worker: seen[worker] for worker in reports}, passages, own))
    zero_ns = 0 if latest is None else latest.began_at

    def since(at_ns: int | None) -> float | None:
        return None if at_ns is None else (at_ns - zero_ns) / 1e9

    hops = _hops(reports, receives, times, since)
    stretches: list[Stretch] = []
    for worker, one in reports.items():
        for start, nodes, leaves, ends in one["stretches"]:
            at = times.began.get(worker) if start == ROOT else times.arrived.get((worker, start))
            ended = [times.left[worker, i] for i in ends if (worker, i) in times.left]
            if leaves and worker in times.settled:
                ended.append(times.settled[worker])
            until = max(ended, default=None) if at is not None else None
            in_s = since(at), since(until)
            stretches.append(Stretch(worker, start, tuple(ends), nodes, leaves, *in_s))
    stretches = _with_forgotten_roots(stretches, hops, times, since)
    names = dict(sorted({**lost, **{at: one["name"] for at, one in reports.items()}}.items()))
    failures = _failures(reports)
    state = "not begun" if latest is None else latest.state.name.lower()
    seconds = None
    if failures:
        state = "failed"
        first = None if latest is None else latest.failure
        seconds = None if first is None else since(first.at_ns)
    elif state == "over" and times.settled:
        seconds = since(max(times.settled.values()))
    pieces = names, stretches, hops, seconds
    told = {at: one["failure"] for at, one in reports.items() if at in failures}
    failed = {at: Failed(since(times.failed[at]), *of[3:]) for at, of in told.items() if of}
    leaves = {worker: one["leaves"] for worker, one in reports.items()}
    return Explanation(context_id, state, *pieces, failures, lost, failed, leaves)


def _hops(
    reports: dict[int, dict[str, Any]],
    receives: Sequence[tuple[int, int, int]],
    times: _Times,
    since: Callable[[int | None], float | None],
) -> list[Hop]:
    made_by = {(at, i): by for at, one in reports.items() for i, by in one["sends"].items()}
    return [
        Hop(
            *(i, worker, sender),
            since(times.left.get((worker, i))),
            since(times.arrived.get((sender, i))),
            (worker, i) in times.unused,
            made_by.get((sender, i), ""),
        )
        for i, worker, sender in receives
    ]


def _with_forgotten_roots(
    stretches: Sequence[Stretch],
    hops: Sequence[Hop],
    times: _Times,
    since: Callable[[int | None], float | None],
) -> list[Stretch]:
    """Return the stretches, with stretches added for roots that have been freed.

    If a hop left a worker, but no started stretch leads to that hop, its start was a freed root.
    """
    found = {(one.worker, one.start): one for one in stretches}
    for hop in hops:
        if hop.left is None or hop.is_unused or hop.from_worker not in times.began:
            continue
        own = [one for one in stretches if one.worker == hop.from_worker]
        above = [o.began for o in own if hop.message_id in o.ends and o.began is not None]
        if any(began <= hop.left for began in above):
            continue
        key = (hop.from_worker, ROOT)
        began = since(times.began[hop.from_worker])
        old = found.get(key, Stretch(*key, (), 0, 0, began, began))
        ended = max(hop.left, old.ended or 0.0)
        found[key] = old._replace(ends=(*old.ends, hop.message_id), ended=ended)
    return [*found.values()]


def _failures(reports: dict[int, dict[str, Any]]) -> dict[int, str]:
    """Return the errors of the workers that raised them; if no worker did, all reported errors."""
    told = {worker: one["failure"] for worker, one in reports.items() if one["failure"]}
    own = {worker: words for worker, (_, is_own, words, *_) in told.items() if is_own}
    return own or {worker: words for worker, (_, _, words, *_) in told.items()}


def _between(began: float | None, ended: float | None) -> str:
    if began is None or ended is None:
        return " " * 10
    return f"{_ms(ended - began):>10}"


def _sum(spans: Iterable[tuple[float | None, float | None]]) -> float:
    return sum(ended - began for began, ended in spans if began is not None and ended is not None)


def _leaves_of(stretch: Stretch) -> int:
    return stretch.leaves


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3f} ms"


_PLURALS = {"leaf": "leaves"}


def _count(number: int, what: str) -> str:
    return f"{number} {what if number == 1 else _PLURALS.get(what, what + 's')}"
