"""Forward mode: the part of a call that carries tangents, and whether a call needs derivatives."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..core.torch_function import NOT_TAKEN
from ..graph.accumulate_grad import extra_of
from ..graph.forward_grad import ForwardADLevel, ForwardGrad
from ..graph.lazy_conj_neg import LazyConjNeg, resolved
from ..graph.modes import modes, tls
from ..interpreters.batched_tensor import unbatched
from ..tensor.layout import Layout
from ..tensor.tensor import OWN_TANGENT, Extra, Tensor, wrap
from .op import OPS

# Note [Tangents of views]
# A view's tangent is the same view of its base's tangent. It is made when it is first needed, so a
# view also sees the tangent that its base gets later. An in-place op on a view writes into a copy
# of the base's tangent, which replaces the old one; views then drop theirs. Tangents themselves are
# never overwritten: y = x + 1 has x's very tangent. A dual tensor shares memory with the tensor
# that it was made of, but no tangent: it is a base for this purpose.


class _Limit(threading.local):
    # Only levels opened before this one count, None for all: see only_below.
    order: int | None = None


_limit = _Limit()


@contextmanager
def only_below(level: ForwardADLevel | None) -> Iterator[None]:
    """Let ops of this thread carry only tangents of levels outside of level; none for None."""
    before = _limit.order
    order = -1 if level is None else level.order
    _limit.order = order if before is None else min(before, order)
    try:
        yield
    finally:
        _limit.order = before


def levels_of(operands: Sequence[Any]) -> tuple[ForwardADLevel, ...]:
    """Return the forward levels at which any operand has a tangent, outermost first."""
    found: tuple[ForwardADLevel, ...] = ()
    for operand in operands:
        if isinstance(operand, Tensor) and operand._extra is not None:
            found = _joined(found, _levels(operand._extra))
    if found and _limit.order is not None:
        found = tuple([level for level in found if level.order < _limit.order])
    return found


def _joined(
    a: tuple[ForwardADLevel, ...], b: tuple[ForwardADLevel, ...]
) -> tuple[ForwardADLevel, ...]:
    if not b or a == b:
        return a
    return tuple(sorted({*a, *b})) if a else b


def _levels(extra: Extra) -> tuple[ForwardADLevel, ...]:
    found: tuple[ForwardADLevel, ...] = ()
    if extra.tangents is not None:
        found = extra.tangents.levels()
    root = _root_of(extra)
    if root is not None:
        of_root = root[0]._extra
        if of_root is not None and of_root.tangents is not None:
            found = _joined(found, of_root.tangents.levels())
    return found


def _root_of(extra: Extra | None) -> tuple[Tensor, Iterable[Any]] | None:
    """Return the tensor whose tangent has this view's tangent as a view, and the steps to it."""
    if extra is None or extra.base is None or extra.tangent_root is OWN_TANGENT:
        return None
    assert extra.replay is not None
    if extra.tangent_root is None:
        return extra.base, extra.replay
    root, skipped, before = extra.tangent_root
    return root, [*before, *extra.replay.after(skipped)]


def tangent_of(operand: Any, level: ForwardADLevel) -> Tensor | None:
    """Return the operand's tangent at level, or None. See Note [Tangents of views]."""
    if not isinstance(operand, Tensor) or operand._extra is None:
        return None
    extra = operand._extra
    if extra.tangents is not None:
        tangent: Tensor | None = extra.tangents.value(level)
        if tangent is not None:
            return tangent
    root = _root_of(extra)
    if root is None:
        return None
    tangent = tangent_of(root[0], level)
    if tangent is not None:
        tangent = view_of(tangent, root[1])
        store_tangent(operand, tangent, level)
    return tangent


def view_of(tensor: Tensor, steps: Iterable[Any]) -> Tensor:
    """Return the view of tensor by these steps, recorded."""
    for op, attributes in steps:
        tensor = op.general((tensor,), attributes)
    return tensor


def store_tangent(tensor: Tensor, tangent: Tensor, level: ForwardADLevel) -> None:
    """Store a tangent of tensor itself at level, in the place of a former one."""
    extra = extra_of(tensor)
    if extra.tangents is None:
        extra.tangents = ForwardGrad()
    elif extra.tangents.contains(level):
        extra.tangents.reset(level)
    extra.tangents.set_value(tangent, level)


def set_tangent(tensor: Tensor, tangent: Tensor | None, level: ForwardADLevel) -> None:
    """Give tensor a tangent at level, in the place of a former one."""
    if tangent is None:
        return
    if tensor.__class__ is LazyConjNeg:
        set_tangent(tensor.value, tensor.change.public(tangent), level)
        return
    # Resolved: viewed as another dtype its bytes are visible, where the tensor's are.
    tangent = _walkable(below(resolved(tangent), level), tensor)
    root = _root_of(tensor._extra)
    if root is not None:
        # An in-place op on a view: the base's tangent changes in this part.
        base, steps = root
        old = tangent_of(base, level)
        whole = zeros_like(base) if old is None else OPS["clone"].public(old)
        view_of(whole, steps).copy_(tangent)
        tensor, tangent = base, whole
    store_tangent(tensor, tangent, level)
    _forget_in_views(tensor, level)


def _walkable(tangent: Tensor, tensor: Tensor) -> Tensor:
    """Return tangent, or a copy if its order in memory is not that of tensor.

    Every view that tensor allows must be possible for its tangent, including one of a transposed
    tensor as rows, which C order does not allow. It is possible if axes are in tensor's order,
    without gaps.
    """
    own, layout = tangent._layout, tensor._layout
    if own is layout or (own.contiguous and layout.contiguous):
        return tangent
    # Axes along which tensor does not move come first, so that they do not separate others.
    steps = layout.strides
    order = sorted(range(len(steps)), key=lambda i: (steps[i] != 0, -steps[i]))
    if own.has_memory_order(tuple(order)):
        return tangent
    back = [order.index(axis) for axis in range(len(order))]
    return OPS["packed"].public(tangent.permute(order)).permute(back)  # type: ignore[no-any-return]


def zeros_like(tensor: Tensor) -> Tensor:
    """Return zeros like tensor: 0 times a tensor with NaN or infinities would not be zeros."""
    zeros: Tensor = OPS["clone"].public(wrap(tensor._array, tensor._layout))
    return zeros.zero_()


def _forget_in_views(tensor: Tensor, level: ForwardADLevel) -> None:
    storage = tensor._storage
    if storage is None or storage.views is None:
        return
    for view in storage.living_views():
        extra = view._extra
        if view is not tensor and extra is not None and extra.tangents is not None:
            root = _root_of(extra)
            if root is not None and root[0] is tensor and extra.tangents.contains(level):
                extra.tangents.reset(level)


def below(operand: Any, level: ForwardADLevel) -> Any:
    """Return operand without its tangents of level and deeper.

    A computation at a level must not see that level's tangents, or it would be differentiated
    twice.
    """
    if not isinstance(operand, Tensor) or operand._extra is None:
        return operand
    levels = _levels(operand._extra)
    if not levels or levels[-1] < level:
        return operand
    alias = wrap(operand._array, operand._layout)
    alias._edge, alias._storage = operand._edge, operand._storage
    for known in levels:
        if known < level:
            store_tangent(alias, tangent_of(operand, known), known)  # type: ignore[arg-type]
    return alias


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
    level, is_recorded, tangents, primals = None, False, [], []
    for operand in operands:
        tangent, primal = None, operand
        if operand is not None:
            is_recorded = is_recorded or operand._edge is not None
            for one in () if operand._extra is None else _levels(operand._extra):
                if level is not None and one is not level:
                    return NOT_TAKEN
                level, tangent = one, tangent_of(operand, one)
                primal = wrap(operand._array, operand._layout)
        tangents.append(tangent)
        primals.append(primal)
    if level is None:
        return plain(*operands, *attributes)
    if (is_recorded and tls.grad) or _limit.order is not None or op.several or has_more:
        return NOT_TAKEN
    result = plain(*primals, *attributes)
    tangent = op.tangent_of_call(plain, primals, attributes, tangents, result)
    if tangent is not None:
        tangent = _walkable(resolved(tangent), result)
        extra_of(result).tangents = ForwardGrad.of_one(tangent, level)
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


def value_before(target: Tensor) -> Tensor:
    """Return a copy of target, its edge and its tangents, before an op overwrites it."""
    copy: Tensor = OPS["clone"].public(wrap(target._array, target._layout))
    copy._edge = target._edge
    for level in levels_of((target,)):
        store_tangent(copy, tangent_of(target, level), level)  # type: ignore[arg-type]
    return copy


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
