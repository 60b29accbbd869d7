"""Forward mode: how a call carries tangents, and whether a call needs derivatives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..core.torch_function import NOT_TAKEN
from ..graph.accumulate_grad import extra_of
from ..graph.forward_grad import ForwardGrad
from ..graph.lazy_conj_neg import resolved
from ..graph.modes import modes, tls
from ..graph.tensor_tangents import (
    below,
    levels_in,
    levels_of,
    limit,
    set_tangent,
    tangent_of,
    walkable,
)
from ..interpreters.batched_tensor import unbatched
from ..tensor.layout import Layout
from ..tensor.tensor import Tensor, wrap
from .op import OPS


def carry_view(result: Tensor, input: Tensor) -> None:
    """Compute a view's tangents now, under the grad mode in which the view itself is made."""
    for level in levels_of((input,)):
        tangent_of(result, level)


def carry(
    results: Sequence[Tensor],
    operands: Sequence[Any],
    tangents_at: Callable[..., Sequence[Tensor | None]],
    values: Sequence[Any] | None = None,
) -> None:
    """Give results the tangents that follow from the operands' tangents, one level after another.
    `tangents_at` computes the tangents of a level from (inputs, tangents, outs), which carry only
    tangents of outer levels.

    Note    `values` are the old values of operands that an in-place op has overwritten
    """
    values = operands if values is None else values
    # All tangents are looked up before the first one is replaced.
    given = [(level, [tangent_of(o, level) for o in operands]) for level in levels_of(operands)]
    for level, tangents in given:
        inputs = [below(value, level) for value in values]
        outs = tuple([below(result, level) for result in results])
        for result, tangent in zip(results, tangents_at(inputs, tangents, outs), strict=False):
            set_tangent(result, tangent, level)


def carry_one_level(
    op: Any,
    plain: Callable[..., Any],
    operands: Sequence[Any],
    attributes: tuple[Any, ...],
    has_more: bool,
) -> Any:
    """Run an op on plain tensors and return the result with its tangent, if all tangents are of one
    level and nothing is recorded; otherwise return NOT_TAKEN.

    `plain` is the short path of op without the check for tangents. `has_more` says whether `plain`
    returns several results.
    """
    for operand in operands:
        if operand is not None and operand._layout.is_sparse:
            return NOT_TAKEN
    if not op.computes(operands, attributes):
        # Other ops compute the result, and carry the tangent with it.
        return NOT_TAKEN
    if op.kind == "view":
        result = plain(*operands, *attributes)
        carry_view(result, operands[0])
        return result
    level, is_recorded, tangents, primals = None, False, [], []
    for operand in operands:
        tangent, primal = None, operand
        if operand is not None:
            is_recorded = is_recorded or operand._edge is not None
            for one in () if operand._extra is None else levels_in(operand._extra):
                if level is not None and one is not level:
                    return NOT_TAKEN
                level, tangent = one, tangent_of(operand, one)
                primal = wrap(operand._array, operand._layout)
        tangents.append(tangent)
        primals.append(primal)
    if level is None:
        return plain(*operands, *attributes)
    if (is_recorded and tls.grad) or limit.order is not None or op.several or has_more:
        return NOT_TAKEN
    result = plain(*primals, *attributes)
    tangent = op.tangent_of_call(plain, primals, attributes, tangents, result)
    if tangent is not None:
        tangent = walkable(resolved(tangent), result)
        extra_of(result).tangents = ForwardGrad.of_one(tangent, level)
    return result


def combined(
    derivatives: Sequence[Any],
    given: Sequence[Any],
    tangents: Sequence[Tensor | None],
    layout: Layout,
) -> Tensor | None:
    """Return the sum of derivative(*given, tangent) over all operands that have both a derivative
    and a tangent, in the shape and dtype of layout; None if no operand has both.
    """
    total: Tensor | None = None
    for tangent, derivative in zip(tangents, derivatives, strict=True):
        if tangent is not None and derivative is not None:
            part = derivative(*given, tangent)
            total = part if total is None else OPS["add"].public(total, part)
    return None if total is None else fitted(total, layout)


def fitted(tangent: Tensor, layout: Layout) -> Tensor:
    """Return tangent broadcast and cast to the shape and dtype of layout."""
    if tangent._layout.shape != layout.shape:
        tangent = OPS["expand"].public(tangent, layout.shape)
    if tangent._layout.dtype is not layout.dtype:
        tangent = OPS["cast"].public(tangent, layout.dtype)
    return tangent


# `tls.grad` is the grad mode of a thread; reading it takes 40 ns. The short paths, where this is
# measurable, read `modes.grad_off` first, and skip `tls.grad` while no thread has turned grad mode
# off.
#
# A batch has neither an edge nor tangents; the tensor inside the batch has them. Ops get that
# tensor, but a composite gets the batch itself. In vmap(grad(f)), a composite that checked
# `x._edge` or `levels_of((x,))` directly would take its shortcut for undifferentiated inputs, and
# the gradients would be zeros. Therefore composites use the functions below.


def is_recorded(operands: Iterable[Any]) -> bool:
    """Return whether the result of an op on these operands is recorded in the graph."""
    return tls.grad and any(
        unbatched(o)._edge is not None for o in operands if isinstance(o, Tensor)
    )


def has_tangents(operands: Iterable[Any]) -> bool:
    """Return whether the result of an op on these operands carries tangents."""
    return modes.special > 0 and bool(
        levels_of([unbatched(o) for o in operands if isinstance(o, Tensor)])
    )


def is_differentiated(*operands: Any) -> bool:
    """Return whether the result of an op on these operands needs a gradient or a tangent."""
    return is_recorded(operands) or has_tangents(operands)
