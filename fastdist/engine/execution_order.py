"""The order in which the pass under way would run its Nodes on one device."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from ..core.errors import GraphError
from ..graph.node import Node, node_of
from .device_threads import device_of
from .engine import current_graph_task


def current_graph_task_execution_order() -> list[Node]:
    """Return the Nodes of the pass that this thread is in, in the order in which they run.

    Raises  RuntimeError outside of a pass, and for one whose Nodes live on several devices
    Source  PyTorch, torch/csrc/autograd/engine.cpp, get_current_graph_task_execution_order
    """
    task = current_graph_task()
    if task is None:
        raise GraphError("should be called during the backward pass")
    if len({device_of(node) for node in task.nodes_in_graph}) > 1:
        raise GraphError(
            "getting the execution order of a pass whose Nodes live on several devices is not "
            "supported: their threads run side by side"
        )
    dependencies: dict[Node, int] = {}
    roots = {node_of(edge) for edge in task.graph_roots if edge is not None}
    stack, seen = list(roots), set(roots)
    while stack:
        for child in _children(stack.pop()):
            dependencies[child] = dependencies.get(child, 0) + 1
            if child not in seen:
                seen.add(child)
                stack.append(child)
    ready = [(-node.seq, number, node) for number, node in enumerate(roots)]
    heapify(ready)
    order: list[Node] = []
    while ready:
        node = heappop(ready)[2]
        info = task.exec_info.get(node)
        if task.exec_info and (info is None or not info.should_execute()):
            continue
        order.append(node)
        for child in _children(node):
            dependencies[child] -= 1
            if not dependencies[child]:
                heappush(ready, (-child.seq, len(seen) + len(order), child))
    return order


def _children(node: Node) -> list[Node]:
    return [node_of(edge) for edge in node.edges if edge is not None]
