"""The order in which the pass under way would run its Nodes on one device."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Any

from ..core.errors import GraphError
from ..graph.forward_streams import device_of
from ..graph.modes import tls
from ..graph.node import Node, node_of
from .engine import current_graph_task
from .graph_task import ExecInfo


def current_graph_task_execution_order() -> list[Node]:
    """Return the Nodes of the pass that this thread is in, in the order in which they run.

    Raises  RuntimeError outside of a pass, and for one whose Nodes live on several devices
    Source  PyTorch, torch/csrc/autograd/engine.cpp, get_current_graph_task_execution_order
    """
    edges, exec_info = _pass_under_way()
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
    # All leaves have one number: of those that wait, the first to come goes first.
    place = itertools.count()
    ready = [(-node.seq, next(place), node) for node in roots if node not in dependencies]
    heapify(ready)
    order: list[Node] = []
    while ready:
        node = heappop(ready)[2]
        info = exec_info.get(node)
        if exec_info and (info is None or not info.should_execute()):
            continue
        order.append(node)
        for child in _children(node):
            dependencies[child] -= 1
            if not dependencies[child]:
                heappush(ready, (-child.seq, next(place), child))
    return order


def _pass_under_way() -> tuple[Sequence[Any], Mapping[Node, ExecInfo]]:
    """Return at which edges the pass of this thread began, and what it wants of each Node."""
    if tls.inline_pass is not None:
        return [edge for edge, _ in tls.inline_pass[0]], {}
    task = current_graph_task()
    if task is None:
        raise GraphError("should be called during the backward pass")
    return task.graph_roots, task.exec_info


def _children(node: Node) -> list[Node]:
    return [node_of(edge) for edge in node.edges if edge is not None]
