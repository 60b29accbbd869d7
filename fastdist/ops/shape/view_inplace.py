"""In-place ops that change how a tensor views its memory: `t_`, `squeeze_`; detach and detach_."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.dense_order import dense_order
from ...core.errors import GraphError
from ...core.torch_function import NOT_TAKEN, offer_to_mode
from ...dispatch.composite import dressed_as_twin
from ...dispatch.op import OPS
from ...graph.accumulate_grad import freeze
from ...graph.inplace_history import renew_edge, require_may_change, set_edge
from ...graph.lazy_conj_neg import LazyConjNeg
from ...graph.modes import enable_grad, modes
from ...graph.tensor_tangents import levels_of, store_tangent, tangent_of
from ...interpreters.batched_tensor import Batched
from ...interpreters.torch_function import overridable_by_modes
from ...tensor.layout import Layout
from ...tensor.storage import storage_of
from ...tensor.tensor import Tensor, wrap
from ...tensor.view_steps import Step, ViewSteps

# Note [Views of a tensor that is turned in place]
# A view stores the steps that make it from its base. `transpose_` and similar ops replace the base
# by another view of the same memory. Existing views keep their memory and shape: each view gets
# additional first steps, which restore the former layout of the base. So gradients, tangents and
# recorded in-place changes work as before. As in PyTorch, each view gets a new edge based on the
# base's new edge, so that hooks of the base see the view's gradient. The tangents of views of a
# dual tensor are treated alike: see Note [Tangents of views] in graph/tensor_tangents.py.


def view_inplace_of(name: str, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return the in-place form of a view op: its first argument becomes the view.

    Raises  RuntimeError for a leaf that requires grad, and for an as_strided_ to other elements of
            the memory while a view exists
    """

    @overridable_by_modes
    def inplace(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if isinstance(self, Batched | LazyConjNeg):
            other: Any = function(self, *args, **kwargs)
            self.value, self._layout, self._extra = other.value, other._layout, other._extra
            if self._storage is not None:
                self._storage.bump()
            return self
        require_may_change(self, writing=False)
        views = [] if self._storage is None else self._storage.living_views()
        views = [view for view in views if _depends_on(self, view)]
        # The call is recorded even in no_grad, because the old edge would expect the old shape.
        with enable_grad():
            seen = function(self, *args, **kwargs)
        turn = _Turn(name, self._layout, seen) if views else None
        _become(self, seen)
        if turn is not None:
            for view in views:
                turn.follow(self, view)
        # The version is incremented, because saved values of this tensor now have another shape.
        storage_of(self).bump()
        return self

    doc = "In-place version of {}: lets this tensor be that view, and returns it."
    return dressed_as_twin(inplace, name, function, doc)


def _become(target: Tensor, seen: Tensor) -> None:
    """Give target the array, layout, edge and tangents of `seen`, which is a view of target."""
    tangents = [(level, tangent_of(seen, level)) for level in levels_of((target,))]
    if target._extra is not None and target._extra.base is not None:
        # If target is a view, it stays a view of the same base, with one more step.
        assert seen._extra is not None and seen._extra.replay is not None
        if seen._extra.base is target._extra.base:
            target._extra.replay = seen._extra.replay
        else:  # target is a view that was made a leaf, and is itself the base of `seen`
            target._extra.replay = ViewSteps(target._extra.replay, seen._extra.replay.last)
    target._array, target._layout = seen._array, seen._layout
    if target._edge is not None:
        if target._edge.is_accumulate:
            target._edge.attach(target)
        else:
            seen._edge.in_place = True
            set_edge(target, seen._edge)
    for level, tangent in tangents:
        assert tangent is not None
        store_tangent(target, tangent, level)


def _depends_on(target: Tensor, view: Tensor) -> bool:
    """Return whether view is derived from target, or view's tangent from target's tangent."""
    extra = view._extra
    if view is target or extra is None or extra.base is None:
        return False
    root = extra.tangent_root
    return extra.base is target or (bool(root) and root[0] is target)  # type: ignore[index]


class _Turn:
    """A change of a tensor's layout by one view op, and the steps that undo it.

    Raises  RuntimeError for an as_strided to other elements of the memory
    """

    def __init__(self, name: str, was: Layout, seen: Tensor) -> None:
        assert seen._extra is not None and seen._extra.replay is not None
        self._done = seen._extra.replay.last
        self._undone = self._steps_back(name, was, seen._layout)

    def _steps_back(self, name: str, was: Layout, now: Layout) -> list[Step]:
        op, attributes = self._done
        if now is was:
            return []
        if op is OPS["transpose"]:
            return [self._done]
        if op is OPS["unsqueeze"]:
            return [(OPS["squeeze"], (attributes,))]
        if op is OPS["squeeze"]:
            return [(OPS["unsqueeze"], (axis,)) for axis in sorted(attributes[0])]
        if attributes[-1] == 0 and _is_dense(was) and _is_dense(now) and was.numel == now.numel:
            return [(op, (was.shape, was.strides, 0))]
        raise GraphError(
            f"{name}_: a view of this tensor is in use, and depends on its present shape "
            f"{was.shape} and strides {was.strides}; shape {now.shape} and strides {now.strides} "
            f"reach other elements. Use {name}(), or take the view afterwards"
        )

    def follow(self, target: Tensor, view: Tensor) -> None:
        """Make the steps of view start from the changed target, and give view a new edge."""
        extra: Any = view._extra
        if extra.base is not target:
            root, skipped, before = extra.tangent_root
            extra.tangent_root = (root, skipped, self._before(before))
            return
        steps = self._before(extra.replay.after(0))
        if extra.tangent_root:
            root, skipped, before = extra.tangent_root
            extra.tangent_root = (root, skipped + len(steps) - len(extra.replay), before)
        extra.replay = None
        for step in steps:
            extra.replay = ViewSteps(extra.replay, step)
        if target._edge is None or (extra.made_in_no_grad and target._edge.is_accumulate):
            return
        with enable_grad():
            renew_edge(view, target)

    def _before(self, steps: list[Step]) -> list[Step]:
        """Return `steps`, which begin at the former layout, changed to begin at the new layout."""
        if len(steps) > 1 and _same_step(steps[0], self._done):
            return steps[1:]  # without this, each repeated transpose would add a step
        return [*self._undone, *steps]


def _is_dense(layout: Layout) -> bool:
    """Return whether the elements fill their memory without gaps and without overlap."""
    return layout.contiguous or dense_order(layout.shape, layout.strides) is not None


def _same_step(one: Step, other: Step) -> bool:
    if one[0] is not other[0]:
        return False
    if one[0] is OPS["squeeze"]:
        return set(one[1][0]) == set(other[1][0])
    return set(one[1]) == set(other[1]) if one[0] is OPS["transpose"] else one[1] == other[1]


def detach(input: Tensor) -> Tensor:
    """Return a view of the tensor that is outside of any graph and has no tangents.

    Args:
        input: A tensor of any dtype and device.

    Returns:
        A view; writing into it changes the tensor as well.

    Example:
        >>> x = torch.ones(2, requires_grad=True)
        >>> (x * 2).detach().requires_grad
        False
    """
    if modes.tracers:
        found = offer_to_mode(Tensor.detach, (input,), {})
        if found is not NOT_TAKEN:
            return found  # type: ignore[no-any-return]
    out = wrap(input._array, input._layout)
    out._storage = storage_of(input)
    return out


@overridable_by_modes
def detach_(self: Tensor) -> Tensor:
    """Detach this tensor from its graph in place: it becomes a leaf without gradient or tangent.

    Raises  RuntimeError for a view, because its base would attach it to the graph again
    """
    if isinstance(self, Batched):
        self.value = self.value.detach()  # the batched value has the graph and the tangents
        return self
    if self._extra is not None and self._extra.base is not None:
        raise GraphError(
            "Can't detach views in-place. Use detach() instead. If you are using "
            "DistributedDataParallel (DDP) for training, and gradient_as_bucket_view is set as "
            "True, gradients are views of DDP buckets: the gradient of the base would still flow "
            "through this view"
        )
    if self._edge is not None and self._edge.is_accumulate:
        freeze(self)
    if self._extra is not None:
        self._extra.tangents = None
    self._edge = None
    return self
