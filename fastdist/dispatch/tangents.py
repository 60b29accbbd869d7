"""Forward mode: the part of a call that carries tangents, and whether a call needs derivatives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..core.torch_function import NOT_TAKEN
from ..graph.accumulate_grad import extra_of
from ..graph.forward_grad import ForwardGrad
from ..graph.lazy_conj_neg import resolved
from ..graph.modes import modes, tls
from ..graph.tensor_tangents import below, levels_of, set_tangent, tangent_of, walkable
from ..interpreters.batched_tensor import unbatched
from ..tensor.layout import Layout
from ..tensor.tensor import Tensor, wrap
from .op import OPS


def carry_view(result: Tensor, input: Tensor) -> None:
    """Make a view's tangents now, in the grad mode in which the view itself is made."""
    for level in levels_of((input,)):
        tangent_of(result, level)


def carry(
    results: Sequence[Tensor],
    operands: Sequence[Any],
    tangents_at: Callable[..., Sequence[Tensor | None]],
    values: Sequence[Any] | None = None,
) -> None:
    """Give results the tangents that follow from the operands' tangents, level by level:
    `tangents_at` computes them from (inputs, tangents, outs), which carry only the levels outside.

    Note    `values` are the operands' old values where an in-place op has overwritten them
    """
    values = operands if values is None else values
    # All tangents are looked up before the first is replaced.
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
    """Return the result of an op on plain tensors with the tangent that follows from theirs, where
    these are of one level and nothing is recorded; NOT_TAKEN otherwise.

    `plain` is the short path of op that looks for no tangents, `has_more` says that it returns more
    than one result.
    """
    for operand in operands:
        if operand is not None and operand._layout.is_sparse:
            return NOT_TAKEN
    if not op.computes(operands, attributes):
        # The tangent is that of the ops that compute the result.
        return NOT_TAKEN
    if op.kind == "view":
        result = plain(*operands, *attributes)
        carry_view(result, operands[0])
        return result
    levels = levels_of(operands)
    if not levels:
        return plain(*operands, *attributes)
    if len(levels) > 1 or op.several or has_more or is_recorded(operands):
        return NOT_TAKEN
    tangents = [tangent_of(operand, levels[0]) for operand in operands]
    primals = [
        operand if tangent is None else wrap(operand._array, operand._layout)
        for operand, tangent in zip(operands, tangents, strict=True)
    ]
    result = plain(*primals, *attributes)
    tangent = op.tangent_of_call(plain, primals, attributes, tangents, result)
    if tangent is not None:
        tangent = walkable(resolved(tangent), result)
        extra_of(result).tangents = ForwardGrad.of_one(tangent, levels[0])
    return result


def combined(
    derivatives: Sequence[Any],
    given: Sequence[Any],
    tangents: Sequence[Tensor | None],
    layout: Layout,
) -> Tensor | None:
    """Return the sum of the derivatives of given and the tangents, in layout; or None."""
    total: Tensor | None = None
    for tangent, derivative in zip(tangents, derivatives, strict=True):
        if tangent is not None and derivative is not None:
            part = derivative(*given, tangent)
            total = part if total is None else OPS["add"].public(total, part)
    return None if total is None else fitted(total, layout)


def fitted(tangent: Tensor, layout: Layout) -> Tensor:
    """Return tangent in the shape and dtype of layout."""
    if tangent._layout.shape != layout.shape:
        tangent = OPS["expand"].public(tangent, layout.shape)
    if tangent._layout.dtype is not layout.dtype:
        tangent = OPS["cast"].public(tangent, layout.dtype)
    return tangent


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
