"""Finds a forward's output tensors, the parameters below them, and the kind of the current pass."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from ...engine.graph_task import running
from ...graph.accumulate_grad import AccumulateGrad
from ...graph.modes import tls
from ...graph.node import Node, node_of
from ...interpreters.batched_tensor import Batched
from ...tensor.tensor import Tensor


def tensors_in(value: Any) -> Iterator[Tensor]:
    """Yield the tensors in nested lists, tuples, mappings and dataclasses."""
    if isinstance(value, Batched):
        yield from tensors_in(value.value)
    elif isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from tensors_in(one)
    elif isinstance(value, list | tuple | set | frozenset):
        for one in value:
            yield from tensors_in(one)
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from tensors_in(getattr(value, field.name))


def nodes_of_outputs(outputs: Any) -> list[Node]:
    """Return the distinct Nodes that produced the tensors of a forward's result."""
    found: dict[Node, None] = {}
    for tensor in tensors_in(outputs):
        if tensor._edge is not None:
            found[node_of(tensor._edge)] = None
    return list(found)


def leaves_below(nodes: Iterable[Node]) -> set[AccumulateGrad]:
    """Return the leaves that can get gradients if a pass starts at the given Nodes."""
    stack = list(nodes)
    seen: set[Node] = set(stack)
    found: set[AccumulateGrad] = set()
    while stack:
        node = stack.pop()
        if isinstance(node, AccumulateGrad):
            found.add(node)
        for edge in node.edges:
            if edge is not None and (below := node_of(edge)) not in seen:
                seen.add(below)
                stack.append(below)
    return found


def is_accumulating() -> bool:
    """Return whether the current pass of this thread adds to `.grad` of leaves."""
    if tls.inline_pass is not None:
        return tls.inline_pass[2] is None
    task = running.graph_task
    return task is None or not any(info.captures for info in task.exec_info.values())


def is_distributed() -> bool:
    """Return whether this thread works on a distributed pass over RPC.

    Such a pass captures the gradients of leaves, and adds them to its context or to `.grad`.
    """
    return tls.inline_pass is None and hasattr(running.graph_task, "part")


def captured_of(leaves: Collection[AccumulateGrad]) -> list[AccumulateGrad]:
    """Return the leaves among these whose gradients the thread's pass returns (autograd.grad)."""
    if tls.inline_pass is not None:
        reached = tls.inline_pass[2]
        return [] if reached is None else [leaf for leaf in leaves if leaf in reached]
    task = running.graph_task
    if task is None or not task.exec_info:
        return []
    found = []
    for leaf in leaves:
        info = task.exec_info.get(leaf)
        if info is not None and info.captures:
            found.append(leaf)
    return found


def call_when_reached(nodes: Iterable[Node], begin: Callable[[], None]) -> None:
    """Call begin() when a pass reaches one of the Nodes, before that Node runs."""

    def hook(grads: Any) -> None:
        begin()

    for node in nodes:
        if not node.is_accumulate:
            node.register_prehook(hook)
