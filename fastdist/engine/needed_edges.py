"""Gradients along needed edges alone, for a Node that lacks the derivative by another input.

A Node makes the gradients along all its edges at once, because most of them are needed and a check
per edge would cost time. Where it lacks a derivative it raises, and only then the pass restricts it
to the edges that lead to the inputs of the pass.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..graph.node import Node, node_of


def restrict_to_wanted(node: Node, is_wanted: Callable[[Node], bool], *, keep: bool) -> Node | None:
    """Return a Node of what this one saved, and unless it is to keep that forgets, with the edges
    alone that lead to what is wanted; None where all do.
    """
    edges = tuple([e if e is not None and is_wanted(node_of(e)) else None for e in node.edges])
    along: Any = getattr(node, "along", None)
    if along is None or all(a is b for a, b in zip(edges, node.edges, strict=True)):
        return None
    part: Node = along(edges)
    if not keep:
        node.release()
    return part
