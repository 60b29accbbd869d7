"""The order in which the current pass would run its Nodes on one device."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from typing import Any

from ..core.errors import GraphError
from ..core.folded_frames import folds
from ..graph.forward_streams import device_of
from ..graph.modes import tls
from ..graph.node import Node, node_of
from .engine import current_graph_task


@folds
def current_graph_task_execution_order() -> list[Node]:
    """Return the Nodes of this thread's current pass, in the order in which they run.

    Raises  RuntimeError outside of a pass, or if its Nodes are on several devices
    Source  PyTorch, torch/csrc/autograd/engine.cpp, get_current_graph_task_execution_order
    """
    edges, comes_to = _pass_under_way()
    roots = {node_of(edge) for edge in edges if edge is not None}
    dependencies: dict[Node, int] = {}
    stack, seen = list(roots), set(roots)
    while stack:
        for child in _children(stack.pop()):
            dependencies[child] = dependencies.get(child, 0) + 1
            if child not in seen:
                seen.add(child)
                stack.append(child)
    if len({device_of(node) for node in seen}) > 1:
        raise GraphError(
            "getting the execution order of a pass whose Nodes live on several devices is not "
            "supported: their threads run side by side"
        )
    # All leaves have the same sequence number: among ready leaves, the first to arrive runs first.
    place = itertools.count()
    ready = [(-node.seq, next(place), node) for node in roots if node not in dependencies]
    heapify(ready)
    order: list[Node] = []
    while ready:
        node = heappop(ready)[2]
        if not comes_to(node):
            continue
        order.append(node)
        for child in _children(node):
            dependencies[child] -= 1
            if not dependencies[child]:
                heappush(ready, (-child.seq, next(place), child))
    return order


def _pass_under_way() -> tuple[Sequence[Any], Callable[[Node], bool]]:
    """Return the edges at which this thread's current pass began, and a function that returns
    whether the pass reaches a Node.
    """
    inline = tls.inline_pass
    if inline is not None:
        roots, _, chosen = inline
        edges = [edge for edge, _ in roots]
        return edges, lambda node: chosen is None or node in chosen
    task = current_graph_task()
    if task is None:
        raise GraphError("should be called during the backward pass")
    return task.graph_roots, task.is_wanted


def _children(node: Node) -> list[Node]:
    return [node_of(edge) for edge in node.edges if edge is not None]
