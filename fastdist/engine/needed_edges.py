"""Gradients along the edges that a pass needs, of a Node without a derivative by another input.

A Node computes the gradients along all its edges at once, because most are needed and a check for
each would be measurable. A Node without a derivative by an input raises, and only then are the
edges that lead to the inputs of the pass looked up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..graph.node import Node, node_of


def restrict_to_wanted(node: Node, is_wanted: Callable[[Node], bool], *, keep: bool) -> Node | None:
    """Return a Node with this one's saved values, which it releases unless it must keep them, and
    only the edges that lead to wanted inputs; None where all do.
    """
    edges = tuple([e if e is not None and is_wanted(node_of(e)) else None for e in node.edges])
    along: Any = getattr(node, "along", None)
    if along is None or all(a is b for a, b in zip(edges, node.edges, strict=True)):
        return None
    part: Node = along(edges)
    if not keep:
        node.release()
    return part
