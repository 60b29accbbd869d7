"""Whether a result needs derivatives: if not, less has to be computed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..graph.modes import modes, tls
from ..interpreters.batched_tensor import unbatched
from ..tensor.tensor import Tensor
from .tangents import levels_of

# `tls.grad` has the grad mode of a thread, which takes Python 40 ns to read. The short paths, where
# this is measurable, read `modes.grad_off` first: while grad mode is off in no thread, no thread
# needs to be checked.
#
# A batch has neither an edge nor tangents; the values in it have them. Ops see these values, but a
# composite sees the batch itself: one that checks `x._edge` or `levels_of((x,))` takes its short
# cut in vmap(grad(f)), whose gradients are then zeros. Therefore composites use these functions.


def is_recorded(operands: Iterable[Any]) -> bool:
    """Return whether results of operands go into the graph."""
    return tls.grad and any(
        unbatched(o)._edge is not None for o in operands if isinstance(o, Tensor)
    )


def has_tangents(operands: Iterable[Any]) -> bool:
    """Return whether results of operands carry tangents."""
    return modes.special > 0 and bool(
        levels_of([unbatched(o) for o in operands if isinstance(o, Tensor)])
    )


def is_differentiated(*operands: Any) -> bool:
    """Return whether results of operands need a gradient or a tangent."""
    return is_recorded(operands) or has_tangents(operands)
