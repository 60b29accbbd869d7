"""Restricts a Node to the edges that a pass needs, if the Node has no derivative for another.

A Node computes the gradients for all its edges together: most gradients are needed, and a check of
each edge would be measurable. A Node that has no derivative by one of its inputs raises an error.
The pass determines only after this error which edges of the Node lead to inputs of the pass.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..graph.node import Node, node_of


def restrict_to_wanted(node: Node, is_wanted: Callable[[Node], bool], *, keep: bool) -> Node | None:
    """Return a copy of a Node with only the edges that lead to wanted inputs.

    Return None if all edges do, or if the Node cannot be restricted. The copy has the Node's saved
    values; without `keep`, the original Node releases these values.
    """
    edges = tuple([e if e is not None and is_wanted(node_of(e)) else None for e in node.edges])
    along: Any = getattr(node, "along", None)
    if along is None or all(a is b for a, b in zip(edges, node.edges, strict=True)):
        return None
    part: Node = along(edges)
    if not keep:
        node.release()
    return part
