"""Whether a result will be differentiated: if not, less need be computed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..graph.modes import modes, tls
from ..interpreters.batched_tensor import unbatched
from ..tensor.tensor import Tensor
from .tangents import levels_of

# Off is what `tls.grad` says, which takes Python 40 ns to find. Only what is felt beside that, the
# short paths, looks at `modes.grad_off` first: while no thread has it off, none need be asked.
#
# A batch has neither an edge nor tangents; what it holds has them. Ops see what it holds, but a
# composite sees the batch itself: one that asks `x.edge` or `levels_of((x,))` takes its short cut
# in vmap(grad(f)), whose gradients are then zeros. So composites ask here.


def is_recorded(operands: Iterable[Any]) -> bool:
    """Return whether what is computed of operands goes into the graph."""
    return tls.grad and any(
        unbatched(o).edge is not None for o in operands if isinstance(o, Tensor)
    )


def has_tangents(operands: Iterable[Any]) -> bool:
    """Return whether what is computed of operands carries tangents."""
    return modes.special > 0 and bool(
        levels_of([unbatched(o) for o in operands if isinstance(o, Tensor)])
    )


def is_differentiated(*operands: Any) -> bool:
    """Return whether a gradient or a tangent will be asked of what is computed of operands."""
    return is_recorded(operands) or has_tangents(operands)
