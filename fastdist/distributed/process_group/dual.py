"""In-place collectives on dual tensors of forward mode: on their values and their tangents."""

# A sum or a broadcast is linear: the same collective, applied to the tangents of the members'
# tensors, returns the tangent of the result. The collective runs first for the values, and then for
# the tangents of each level, from the outermost level inwards. Since all members must make the same
# calls, each member needs a tangent at the same levels: zeros if the member's tensor does not
# depend on the input.

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.errors import GraphError
from ...dispatch.op import OPS
from ...graph.modes import no_grad
from ...graph.tensor_tangents import levels_of, only_below, set_tangent, tangent_of
from ...tensor.tensor import Tensor, wrap
from ...tensor.writable import require_writable
from .reductions import ReduceOp
from .work import Work, finished


def has_tangent(tensor: Any) -> bool:
    """Return whether `tensor` is a Tensor that has a tangent at an open level."""
    return isinstance(tensor, Tensor) and tensor._extra is not None and bool(levels_of((tensor,)))


def replace(tensor: Tensor, collective: Callable[[Tensor], Any]) -> Work:
    """Apply a linear in-place collective to the value of a dual tensor, and to each tangent.

    `collective` is called with one tensor, which may be dual at outer levels, and replaces it in
    place.
    """
    require_writable(tensor)
    clone = OPS["clone"]
    with no_grad():
        value = clone(wrap(tensor._array, tensor._layout))
        tangents = [(level, clone(tangent_of(tensor, level))) for level in levels_of((tensor,))]
        collective(value)
        for _, tangent in tangents:
            collective(tangent)
        with only_below(None):
            tensor.copy_(value)
        for level, tangent in tangents:
            set_tangent(tensor, tangent, level)
    return finished([tensor])


def require_linear(what: str, op: Any) -> None:
    """Raise GraphError for a reduction that is not linear."""
    kind = getattr(op, "op", op)
    if kind not in (ReduceOp.SUM, ReduceOp.AVG, ReduceOp.PREMUL_SUM):
        raise GraphError(
            f"{what}: the tensor is a dual tensor, and {kind} is not linear: call "
            "distributed.nn.functional.all_reduce(), which returns the result with its tangent"
        )
