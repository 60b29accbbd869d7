"""The inputs that a transform differentiates by. Code that would cut the graph checks them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from .modes import tls
from .node import Node, node_of


@contextmanager
def differentiating(xs: Iterable[Any]) -> Iterator[None]:
    """In a `with` block, register for this thread the tensors by which a transform differentiates
    its function in reverse mode.
    """
    before = tls.transform_inputs
    nodes = [node_of(x._edge) for x in xs if getattr(x, "_edge", None) is not None]
    tls.transform_inputs = (*before, *nodes)
    try:
        yield
    finally:
        tls.transform_inputs = before


def follows_from_inputs(tensors: Iterable[Any]) -> bool:
    """Return whether one of `tensors` depends on the registered inputs of this thread.

    Note    this walks the graph, so call it only if `tls.transform_inputs` is not empty
    """
    wanted = set(tls.transform_inputs)
    stack: list[Node] = [node_of(one._edge) for one in tensors if one._edge is not None]
    seen = set(stack)
    while stack:
        node = stack.pop()
        if node in wanted:
            return True
        for edge in node.edges:
            below = node_of(edge)
            if below is not None and below not in seen:
                seen.add(below)
                stack.append(below)
    return False
