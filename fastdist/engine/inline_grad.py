"""The local CPU pass of autograd.grad: a loop in the calling thread that stops at chosen inputs."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from operator import attrgetter
from typing import Any

from ..core.errors import NoDerivativeError
from ..devices.backend import backend_of
from ..graph.add_gradients import add_gradients
from ..graph.node import Edge, Node, node_of, oldest, output_number
from ..tensor.sparse import Coo
from ..tensor.tensor import Tensor, from_array
from .hooks import run_post_hooks, run_prehooks, run_tensor_hooks
from .inline import is_cpu, sum_of
from .needed_edges import restrict_to_wanted

_age = attrgetter("seq")


class GradPass:
    """A pass from roots to inputs: the Nodes between them, and the loop that runs them.

    `users` maps each Node on a path to the number of gradients that are still missing. `runs` holds
    the Nodes that run: it excludes Nodes that only end a path.
    """

    def __init__(self, edges: Sequence[Any], inputs: Sequence[tuple[Node, int]]) -> None:
        self.users: dict[Node, int] = {}
        self.runs: set[Node] = set()
        # Maps a Node to a tuple (output, index among the results) for each capture.
        self._captures: dict[Node, list[tuple[int, int]]] = {}
        for place, (node, output_nr) in enumerate(inputs):
            self._captures.setdefault(node, []).append((output_nr, place))
            self.users[node] = 0
        self._find_paths(edges, oldest(inputs))
        self.is_on_cpu = all(map(is_cpu, self.users))
        self._results: list[Any] = [None] * len(inputs)
        self._ready: list[tuple[int, Node, Any]] = []
        self._slots: dict[Node, list[Any]] = {}
        # Slots whose sum this pass allocated: only these sums are changed in place.
        self._sums: set[tuple[Node, int]] = set()

    def _find_paths(self, edges: Sequence[Any], floor: int) -> None:
        users, runs = self.users, self.runs
        # Edges lead only to older Nodes, so Nodes older than the oldest input are not visited.
        # node_of is inlined: its calls would take a third of the search's time.
        stack = [edge.node if edge.__class__ is Edge else edge for edge in edges]
        visited = set(stack)
        while stack:
            for edge in stack.pop().edges:
                if edge is None:
                    continue
                node = edge.node if edge.__class__ is Edge else edge
                if node not in visited and node.seq >= floor:
                    visited.add(node)
                    stack.append(node)
        # Oldest first, so that the targets of a Node's edges come before the Node. Only leaves come
        # later, but they have no edges.
        for node in sorted(visited, key=_age):
            leads_there = False
            for edge in node.edges:
                if edge is None:
                    continue
                target = edge.node if edge.__class__ is Edge else edge
                if target in users:
                    users[target] += 1
                    leads_there = True
            if leads_there:
                runs.add(node)
                users.setdefault(node, 0)
        for edge in edges:
            if (node := node_of(edge)) in users:
                users[node] += 1

    def run(
        self, roots: Sequence[tuple[Any, Tensor]], keep: bool, recorded: bool
    ) -> list[Tensor | None]:
        """Run the pass from `roots`, pairs of edge and gradient. Of the Nodes that are ready, the
        newest Node runs first. Return the captures.

        Note    gradients are raw arrays, or Tensors if the pass is recorded
        """
        for edge, g in roots:
            self._arrive(edge, g if recorded else g._array, recorded)
        ready, users, slots = self._ready, self.users, self._slots
        captures, runs = self._captures, self.runs
        while ready:
            _, node, grads = heappop(ready)
            hooks = node.hooks
            if hooks is not None or node in captures:
                grads = self._captured(node, grads)
            if node not in runs:
                continue
            if hooks is not None and hooks.pre:
                grads = run_prehooks(node, grads)
            results: tuple[Any, ...]
            try:
                if grads is None and not node.accepts_undefined:
                    results = (None,) * len(node.edges)
                elif recorded:
                    results = node.apply_recorded(grads, keep)
                else:
                    results = node.apply(grads, keep)
            except NoDerivativeError:
                part = restrict_to_wanted(node, users.__contains__, keep=keep)
                if part is None:
                    raise
                results = (part.apply_recorded if recorded else part.apply)(grads, keep)
            if hooks is not None:
                results = run_post_hooks(node, results, grads)
            for edge, g in zip(node.edges, results):
                if edge is None:
                    continue
                # A short version of _arrive: most Nodes get a single gradient.
                target = edge.node if edge.__class__ is Edge else edge
                left = users.get(target)
                if left == 1 and target.num_outputs == 1 and target not in slots:
                    if target.is_accumulate:
                        self._captured(target, g)
                    else:
                        heappush(ready, (-target.seq, target, g))
                elif left is not None:
                    self._arrive(edge, g, recorded)
        return [each if each is None or recorded else from_array(each) for each in self._results]

    def _arrive(self, edge: Any, g: Any, recorded: bool) -> None:
        """Add one gradient of a Node; after the last gradient, the Node is ready."""
        node = edge.node if edge.__class__ is Edge else edge
        left = self.users.get(node)
        if left is None:
            return
        if left == 1 and node.num_outputs == 1 and node not in self._slots:
            self._begin(node, g)
            return
        self.users[node] = left - 1
        slots = self._slots.get(node)
        if slots is None:
            slots = self._slots[node] = [None] * node.num_outputs
        if g is not None:
            place = output_number(edge)
            have = slots[place]
            slots[place] = g if have is None else self._sum(node, place, have, g, recorded)
        if left == 1:
            grads = self._slots.pop(node)
            self._begin(node, tuple(grads) if node.num_outputs > 1 else grads[0])

    def _begin(self, node: Node, grads: Any) -> None:
        # Leaves, which have no edges, run first, in the order in which they become ready.
        if node.is_accumulate:
            self._captured(node, grads)
        else:
            heappush(self._ready, (-node.seq, node, grads))

    def _sum(self, node: Node, place: int, have: Any, g: Any, recorded: bool) -> Any:
        if recorded:
            return add_gradients(have, g, False)
        if (node, place) in self._sums:
            backend_of("cpu").add_into(have, g)
            return have
        total = sum_of(have, g)
        if total.__class__ is not Coo:
            self._sums.add((node, place))
        return total

    def _captured(self, node: Node, grads: Any) -> Any:
        """Run a Node's tensor hooks, then store its captured gradients as results."""
        if node.hooks is not None:
            grads = run_tensor_hooks(node, grads)
        for output_nr, place in self._captures.get(node, ()):
            self._results[place] = grads[output_nr] if node.num_outputs > 1 else grads
        return grads
