"""Passes a batch of gradients back through the graph of an unbatched function, for Jacobians."""

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
# A batch of cotangents can pass through the graph of an unbatched function, because derivatives are
# written with ops, and ops accept batches. Some Nodes need raw numbers: hand-written Nodes, calls
# to other workers, and Nodes that run on a GPU's thread. These Nodes raise one of the errors below,
# and the cotangents are then passed back one by one.
ONE_BY_ONE = (NeedsNumbers, TakesNoBatch, TransformError)


def pulled_together(
    ys: list[Any], xs: list[Any], cotangents: list[Any], depth: int
) -> list[Any] | None:
    """Multiply a batch of cotangents with the Jacobian of `ys` with respect to `xs`, and return the
    products.

    The cotangents have more vmap levels than the graph. Return None if a Node takes only one
    cotangent at a time. See Note [Batches that go back].
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
    """Remove the batch levels up to `depth` from `given`, and keep the higher levels."""
    if level_of((given,)) <= depth:
        return base_of(given, depth)
    return batched(_lifted(given.value, depth).movedim(depth, 0), given.level)


def _lowered(found: Any, depth: int) -> Any:
    """Undo _lifted: return `found` as a batch with the levels up to `depth` again."""
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
    """Return, for each input, one gradient per entry of the first axis of `gradients`. An input's
    gradients are stacked along a new first axis.

    Return None if a Node takes only one gradient at a time. The graph is kept.
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
    """Release the saved values of all Nodes below `roots`, as a pass without retain_graph does."""
    waiting = [node_of(root._edge) for root in roots]
    seen = set(waiting)
    while waiting:
        node = waiting.pop()
        node.release()
        below = {node_of(edge) for edge in node.edges if edge is not None} - seen
        seen |= below
        waiting += below
