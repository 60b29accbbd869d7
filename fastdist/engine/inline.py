"""The local CPU pass: one loop in the calling thread."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush, heappushpop
from typing import Any

import numpy as np

from ..core.device import CPU
from ..devices.backend import backend_of
from ..graph.accumulate_grad import AccumulateGrad
from ..graph.node import Edge, Node, node_of
from ..kernels.cpu.silence import silent
from ..tensor.sparse import Coo
from ..tensor.tensor import layout_of, wrap
from .hooks import run_post_hooks, run_pre_hooks


def plan(roots: Sequence[Any]) -> tuple[dict[Node, int], bool]:
    """Return how many edges lead to each shared Node, and whether the whole graph is on the CPU.

    Note    the target of an edge of the class Edge always counts as shared, because its gradients
            arrive one output at a time
    """
    shared: dict[Node, int] = {}
    visited: set[Node] = set()
    on_cpu = True
    stack: list[Node] = []
    for edge in roots:
        node = node_of(edge)
        if node in visited or edge.__class__ is Edge or len(roots) > 1:
            shared[node] = shared.get(node, 1 if node in visited else 0) + 1
        if node not in visited:
            visited.add(node)
            stack.append(node)
    add = visited.add
    while stack:
        node = stack.pop()
        for edge in node.edges:
            if edge is None:
                continue
            if edge.__class__ is Edge:
                edge = edge.node
                shared[edge] = shared.get(edge, 1 if edge in visited else 0) + 1
            elif edge in visited:
                shared[edge] = shared.get(edge, 1) + 1
                continue
            if edge in visited:
                continue
            add(edge)
            if edge.__class__ is not AccumulateGrad:
                stack.append(edge)
                if on_cpu and not is_cpu(edge):
                    on_cpu = False
            elif on_cpu and edge.output_layout.device is not CPU:
                on_cpu = False
    on_cpu = on_cpu and all(is_cpu(node_of(edge)) for edge in roots)
    return shared, on_cpu


def is_cpu(node: Node) -> bool:
    """Return whether a Node runs on the CPU."""
    layout = node.output_layout
    if layout.__class__ is tuple:
        return all(part is None or part.device is CPU for part in layout)
    return layout is None or layout.device is CPU


def run(roots: Sequence[tuple[Any, Any]], shared: dict[Node, int], keep: bool) -> None:
    """Run the pass from `roots`, pairs of edge and gradient array. Of the Nodes that are ready, the
    newest Node runs first.

    Note    gradients are raw arrays; a sum is computed in place only if this pass has allocated the
            array that it overwrites
    """
    sums: dict[Node, Any] = {}
    owned: set[Node] = set()
    ready: list[Any] = []
    add_into = backend_of("cpu").add_into
    for edge, g in roots:
        _arrive(edge, g, False, shared, sums, owned, ready, add_into)
    while ready:
        node, g = heappop(ready)[1:]
        while node is not None:
            hooks = node.hooks
            if hooks is not None:
                g = run_pre_hooks(node, g)
            if g is None and not node.accepts_undefined:
                grads = (None,) * len(node.edges)
            else:
                grads = node.apply(g, keep)
            if hooks is not None:
                grads = run_post_hooks(node, grads, g)
            fresh = node.fresh and hooks is None
            next_node: Any = None
            next_g: Any = None
            for edge, g in zip(node.edges, grads):
                if edge is None:
                    continue
                if edge.__class__ is Edge or edge in shared:
                    _arrive(edge, g, fresh, shared, sums, owned, ready, add_into)
                elif edge.__class__ is AccumulateGrad:
                    if edge.hooks is not None or g is None:
                        deliver(edge, g, fresh)
                    else:  # inlined: a call for each leaf is measurable
                        edge.accumulate(g, fresh)
                elif next_node is None:
                    next_node, next_g = edge, g
                else:
                    heappush(ready, (-edge.seq, edge, g))
            if next_node is None:
                break
            if ready:
                node, g = heappushpop(ready, (-next_node.seq, next_node, next_g))[1:]
            else:
                node, g = next_node, next_g


def _arrive(
    edge: Any,
    g: Any,
    fresh: bool,
    shared: dict[Node, int],
    sums: dict[Node, Any],
    owned: set[Node],
    ready: Any,
    add_into: Any,
) -> None:
    """Add one gradient of a Node that gets several; after the last one, the Node is ready."""
    if edge.__class__ is Edge:
        _arrive_at_output(edge, g, shared, sums, ready)
        return
    if edge in sums:
        have = sums.pop(edge)
        if g is None:
            g = have
        elif have is not None:
            if edge in owned:
                add_into(have, g)
                g = have
            else:
                g = sum_of(have, g)
                if g.__class__ is not Coo:
                    owned.add(edge)
    elif fresh and g is not None and g.__class__ is not Coo and g.flags.owndata:
        owned.add(edge)
    left = shared.get(edge, 1) - 1
    shared[edge] = left
    if left:
        sums[edge] = g
    elif edge.__class__ is AccumulateGrad:
        deliver(edge, g, edge in owned)
    else:
        heappush(ready, (-edge.seq, edge, g))


def _arrive_at_output(
    edge: Edge, g: Any, shared: dict[Node, int], sums: dict[Node, Any], ready: Any
) -> None:
    node = edge.node
    slots = sums.get(node)
    if slots is None:
        slots = sums[node] = [None] * node.num_outputs
    have = slots[edge.output_nr]
    if g is not None:
        slots[edge.output_nr] = g if have is None else sum_of(have, g)
    left = shared[node] = shared[node] - 1
    if not left:
        del sums[node]
        heappush(ready, (-node.seq, node, tuple(slots)))


@silent  # type: ignore[untyped-decorator]
def sum_of(a: Any, b: Any) -> Any:
    """Return the sum of two raw gradients, in new memory."""
    total = a + b
    # NumPy returns scalars for sums of 0-d arrays; a scalar cannot be changed in place.
    return np.asarray(total) if isinstance(total, np.generic) else total


def deliver(edge: AccumulateGrad, g: Any, fresh: bool) -> None:
    """Pass a gradient to a leaf through its hooks. If the gradient is None, nothing is added, but
    hooks on the Node still run.
    """
    if edge.hooks is not None:
        g = run_pre_hooks(edge, g)
        fresh = False
    if g is not None:
        edge.accumulate(g, fresh)
    if edge.hooks is not None:
        given = None if g is None else wrap(g, layout_of(g, edge.output_layout.device))
        run_post_hooks(edge, (), given)
