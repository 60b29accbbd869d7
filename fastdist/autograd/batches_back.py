"""Batches of gradients that pass back through an unbatched function's graph: rows of Jacobians."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.errors import TransformError
from ..engine import backward as engine
from ..graph.node import node_of
from ..interpreters.batched_tensor import (
    NeedsNumbers,
    TakesNoBatch,
    base_of,
    batched,
    level_of,
    rebatched,
    value_at,
)
from ..interpreters.batching import open_level
from ..ops.create.creation import zeros_like

# Note [Batches that go back]
# A batch of cotangents can pass through the graph of an unbatched function: its derivatives are
# written with ops, and ops run on batches. A derivative that needs raw numbers (a hand-written
# Node, a call of another worker, a thread that works for a GPU) raises an error, and its cotangents
# pass back one by one.
ONE_BY_ONE = (NeedsNumbers, TakesNoBatch, TransformError)


def pulled_together(
    ys: list[Any], xs: list[Any], cotangents: list[Any], depth: int
) -> list[Any] | None:
    """Return the products of a batch of cotangents, with more levels than the graph, with the
    Jacobian; None where a Node takes only one at a time. See Note [Batches that go back].
    """
    ys, xs = [base_of(y, depth) for y in ys], [base_of(x, depth) for x in xs]
    pairs = [(y, _lifted(g, depth)) for y, g in zip(ys, cotangents, strict=True)]
    pairs = [(y, g) for y, g in pairs if y.requires_grad]
    if not pairs:
        return [rebatched(zeros_like(x), depth) for x in xs]
    roots, given = [y for y, _ in pairs], [g for _, g in pairs]
    try:
        found = engine.grad(roots, xs, given, None, True, True)
    except ONE_BY_ONE:
        return None
    pulled = [zeros_like(x) if g is None else g for g, x in zip(found, xs, strict=True)]
    return [_lowered(g, depth) for g in pulled]


def _lifted(given: Any, depth: int) -> Any:
    """Return a batch of levels above depth as one of unbatched tensors below."""
    if level_of((given,)) <= depth:
        return base_of(given, depth)
    return batched(_lifted(given.value, depth).movedim(depth, 0), given.level)


def _lowered(found: Any, depth: int) -> Any:
    """Return a lifted value as the batch of batches that it was."""
    level = level_of((found,))
    if level <= depth:
        return rebatched(found, depth)
    return batched(_lowered(found.value.movedim(0, depth), depth), level)


def backward_batched(
    roots: Sequence[Any],
    inputs: Sequence[Any],
    gradients: Sequence[Any],
    *,
    create_graph: bool,
    allow: bool,
) -> tuple[Any, ...] | None:
    """Return gradients for each entry of the first axis of the roots' gradients, along a first
    axis; None where a Node takes only one at a time. The graph is kept.
    """
    size = len(gradients[0])
    with open_level(size, "same") as level:
        given = [batched(g, level) for g in gradients]
        try:
            found = engine.grad(roots, inputs, given, True, True, allow)
        except ONE_BY_ONE:
            return None
        values = [None if g is None else value_at(g, level, size=size) for g in found]
    return tuple([v if v is None or create_graph else v.detach() for v in values])


def release(roots: Sequence[Any]) -> None:
    """Let the Nodes below roots release their saved values, as a pass without retain_graph does."""
    waiting = [node_of(root._edge) for root in roots]
    seen = set(waiting)
    while waiting:
        node = waiting.pop()
        node.release()
        below = {node_of(edge) for edge in node.edges if edge is not None} - seen
        seen |= below
        waiting += below
