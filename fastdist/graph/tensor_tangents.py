"""The tangents of tensors at each level. A view's tangent is a view of its base's tangent."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..core.memory_format import contiguous_format
from ..tensor.tensor import OWN_TANGENT, Extra, Tensor, wrap
from .accumulate_grad import extra_of
from .forward_grad import ForwardADLevel, ForwardGrad
from .lazy_conj_neg import LazyConjNeg, resolved
from .views import view_of

# Note [Tangents of views]
# A view's tangent is the same view of its base's tangent. The view's tangent is made when it is
# first needed, so a view also has a tangent if its base got one later. An in-place op on a view
# copies the base's tangent, and writes into the copy, which replaces the old tangent; all views
# then drop their tangents. Tangents are never overwritten, because they may be shared: y = x + 1
# has the same tangent object as x. A dual tensor shares memory with the tensor that it was made
# from, but does not share that tensor's tangent. So a dual tensor counts as a base here.


class _Limit(threading.local):
    # Ops see only levels whose `order` is lower than this; None means all levels. See only_below.
    order: int | None = None


limit = _Limit()


@contextmanager
def only_below(level: ForwardADLevel | None) -> Iterator[None]:
    """In a `with` block, let ops of this thread compute tangents only at levels that are outer to
    `level`, or no tangents if `level` is None.
    """
    before = limit.order
    order = -1 if level is None else level.order
    limit.order = order if before is None else min(before, order)
    try:
        yield
    finally:
        limit.order = before


def levels_of(operands: Sequence[Any]) -> tuple[ForwardADLevel, ...]:
    """Return the forward levels at which any operand has a tangent, outermost first."""
    found: tuple[ForwardADLevel, ...] = ()
    for operand in operands:
        if isinstance(operand, Tensor) and operand._extra is not None:
            found = _joined(found, levels_in(operand._extra))
    if found and limit.order is not None:
        found = tuple([level for level in found if level.order < limit.order])
    return found


def _joined(
    a: tuple[ForwardADLevel, ...], b: tuple[ForwardADLevel, ...]
) -> tuple[ForwardADLevel, ...]:
    if not b or a == b:
        return a
    return tuple(sorted({*a, *b})) if a else b


def levels_in(extra: Extra) -> tuple[ForwardADLevel, ...]:
    """Return the levels at which a tensor with this Extra has tangents, outermost first."""
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
    """Return, for the tensor with this Extra, its root and the view ops that lead from the root to
    it. These view ops make the tensor's tangent from the root's tangent. Return None if the tensor
    is not a view, or has its own tangent.
    """
    if extra is None or extra.base is None or extra.tangent_root is OWN_TANGENT:
        return None
    assert extra.replay is not None
    if extra.tangent_root is None:
        return extra.base, extra.replay
    root, skipped, before = extra.tangent_root
    return root, [*before, *extra.replay.after(skipped)]


def tangent_of(operand: Any, level: ForwardADLevel) -> Tensor | None:
    """Return the operand's tangent at `level`, or None. See Note [Tangents of views]."""
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


def store_tangent(tensor: Tensor, tangent: Tensor, level: ForwardADLevel) -> None:
    """Store `tangent` in `tensor` itself at `level`. It replaces an earlier tangent."""
    extra = extra_of(tensor)
    if extra.tangents is None:
        extra.tangents = ForwardGrad()
    elif extra.tangents.contains(level):
        extra.tangents.reset(level)
    extra.tangents.set_value(tangent, level)


def set_tangent(tensor: Tensor, tangent: Tensor | None, level: ForwardADLevel) -> None:
    """Give `tensor` a tangent at `level`, instead of an earlier one. For a view whose tangent is a
    view of the base's tangent, change the view's part of the base's tangent.
    """
    if tangent is None:
        return
    if tensor.__class__ is LazyConjNeg:
        set_tangent(tensor.value, tensor.change.public(tangent), level)
        return
    # Resolve a lazy conj or neg view: a view of it as another dtype would show the bytes without
    # the conjugation or negation.
    tangent = walkable(below(resolved(tangent), level), tensor)
    root = _root_of(tensor._extra)
    if root is not None:
        # An in-place op has changed a view: update the view's part of the base's tangent.
        base, steps = root
        old = tangent_of(base, level)
        whole = zeros_like(base) if old is None else old.clone()
        view_of(whole, steps).copy_(tangent)
        tensor, tangent = base, whole
    store_tangent(tensor, tangent, level)
    _forget_in_views(tensor, level)


def walkable(tangent: Tensor, tensor: Tensor) -> Tensor:
    """Return tangent, or a copy of it in the memory order of tensor.

    Every view of tensor must also be possible for its tangent. For example, the transpose of a
    tensor in Fortran order can be flattened by a view, but the transpose of a tangent in C order
    cannot. Every view is possible if the tangent has no gaps and its axes have the same order in
    memory as those of tensor.
    """
    own, layout = tangent._layout, tensor._layout
    if own is layout or (own.contiguous and layout.contiguous):
        return tangent
    # Axes that have stride 0 in tensor come first, so that they do not separate the other axes.
    steps = layout.strides
    order = sorted(range(len(steps)), key=lambda i: (steps[i] != 0, -steps[i]))
    if own.has_memory_order(tuple(order)):
        return tangent
    back = [order.index(axis) for axis in range(len(order))]
    return tangent.permute(order).clone(memory_format=contiguous_format).permute(back)


def zeros_like(tensor: Tensor) -> Tensor:
    """Return zeros like tensor. Not 0 * tensor, which is NaN where tensor is NaN or infinite."""
    zeros: Tensor = wrap(tensor._array, tensor._layout).clone()
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
    """Return operand without its tangents at `level` and at inner levels.

    A computation of tangents at a level must not see tangents of that level. Otherwise the level
    would differentiate the computation again.
    """
    if not isinstance(operand, Tensor) or operand._extra is None:
        return operand
    levels = levels_in(operand._extra)
    if not levels or levels[-1] < level:
        return operand
    alias = wrap(operand._array, operand._layout)
    alias._edge, alias._storage = operand._edge, operand._storage
    for known in levels:
        if known < level:
            store_tangent(alias, tangent_of(operand, known), known)  # type: ignore[arg-type]
    return alias


def value_before(target: Tensor) -> Tensor:
    """Return a copy of target's value, with its edge and tangents, before an op overwrites it."""
    copy: Tensor = wrap(target._array, target._layout).clone()
    copy._edge = target._edge
    for level in levels_of((target,)):
        store_tangent(copy, tangent_of(target, level), level)  # type: ignore[arg-type]
    return copy
