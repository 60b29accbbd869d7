"""The checks and the recording of in-place ops, on leaves, results and recorded views."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.dtypes import DType
from ..core.errors import DTypeError, GraphError, ShapeError
from ..devices.backend import backend_of
from ..graph.call_node import CallNode
from ..graph.modes import modes, tls
from ..graph.node import Node, node_of, output_number
from ..graph.recording import begin_node
from ..graph.unpacking import SavedView
from ..tensor.layout import Layout, Shape
from ..tensor.memory import empty_in_layout
from ..tensor.promotion import can_cast
from ..tensor.tensor import Tensor, layout_of, wrap
from ..tensor.writable import distinct_elements, may_write, require_writable
from .needs_derivative import is_differentiated, is_recorded
from .op import OPS, PLAIN
from .tangents import value_before, view_of
from .view import replay, replay_array

# Note [In-place on views]
# A view knows its base and the chain of view ops that makes it. A recorded in-place op on the base
# gives the base a new Node; one on a view gives the base a CopySlices that holds the op's Node and
# applies it to the view's part of the gradient. Either way every living view gets a new edge in the
# same call: the chain, recorded again over the base, or, for a view made in no_grad, a StaleView.
# In-place ops pay for this; out-of-place ops do not check anything.


def require_may_change(target: Tensor, *, writing: bool = True) -> None:
    """Raise PyTorch's errors for tensors whose in-place change would lose a gradient.

    Raises  RuntimeError for a leaf that requires grad, a view of one, a view made in no_grad of a
            recorded base, and (if writing) read-only memory
    """
    if writing and (not target._layout.contiguous or target._array.__class__ is np.ndarray):
        require_writable(target)
    if not tls.grad:
        return
    edge, extra = target._edge, target._extra
    of_base = None if extra is None or extra.base is None else extra.base._edge
    if edge is not None and edge.is_accumulate and edge is not of_base:
        raise GraphError(
            "a leaf Variable that requires grad is being used in an in-place operation. "
            "Wrap the change in no_grad(), or work on a clone()."
        )
    if extra is None or of_base is None:
        return
    if of_base.is_accumulate:
        raise GraphError(
            "a view of a leaf Variable that requires grad is being used in an in-place operation. "
            "Wrap the change in no_grad(), or work on a clone()."
        )
    if extra.made_in_no_grad:
        raise GraphError(
            "A view was created in no_grad mode and is being modified inplace with grad mode "
            "enabled. Make the view and the change both inside no_grad(), or both outside."
        )


def may_write_at_once(target: Tensor, source: Any = None) -> bool:
    """Return whether an in-place op on a CPU tensor may write without further checks: it will
    record, carry and refuse nothing, whatever Tensor it reads.
    """
    if target.__class__ not in PLAIN or modes.special:
        return False
    if not modes.grad_off or tls.grad:
        extra = target._extra
        if (
            target._edge is not None
            or (source is not None and source._edge is not None)
            or (extra is not None and extra.base is not None and extra.base._edge is not None)
        ):
            return False
    array = target._array
    return array.__class__ is np.ndarray and array.flags.writeable


def require_result_fits(name: str, target: Tensor, shape: Shape, dtype: DType) -> None:
    """Raise RuntimeError for a result that target cannot hold; name is that of the in-place op."""
    layout = target._layout
    if shape != layout.shape:
        raise ShapeError(
            f"output with shape {list(layout.shape)} doesn't match the broadcast shape "
            f"{list(shape)}: {name} cannot grow the tensor that it writes into"
        )
    if not can_cast(dtype, layout.dtype):
        raise DTypeError(
            f"result type {dtype.name} can't be cast to the desired output type "
            f"{layout.dtype.name}: {name} would lose values; use {name.removesuffix('_')} and keep "
            "its result"
        )


def will_record(operands: Sequence[Any], layout: Layout) -> bool:
    """Return whether an in-place op on a tensor of layout is recorded in the graph."""
    return layout.dtype.may_have_gradient and is_recorded(operands)


def value_of(target: Tensor, others: Sequence[Any]) -> Tensor:
    """Return the present value of target: a copy where its Node may keep it, because its memory
    will be overwritten.
    """
    if not is_differentiated(target, *others):
        return target
    before, extra = value_before(target), target._extra
    base = None if extra is None else extra.base
    if extra is not None and base is not None and base._edge is not None:
        # As for the Node of a view that was changed: intermediate views get no gradient, and none
        # is lost for elements that only as_strided reaches.
        assert extra.replay is not None, "a view knows how it is made of its base"
        before._edge = replay(base, extra.replay)._edge
    return before


def set_history(target: Tensor, node: Node) -> None:
    """Make node the source of target's present value; bases and living views follow."""
    extra = target._extra
    base = None if extra is None else extra.base
    if base is None:
        base = target
        set_edge(target, node)
    else:
        assert extra is not None
        assert extra.replay is not None, "a view knows how it is made of its base"
        set_edge(base, CopySlices(base, extra.replay, node))
        set_edge(target, replay(base, extra.replay)._edge)
        saved = getattr(node, "out", None)
        if saved is not None:
            node.out = (*saved[:3], SavedView(base, extra, replay))  # type: ignore[attr-defined]
    storage = base._storage
    if storage is None:
        return
    for view in storage.living_views():
        if view is not target and view._extra is not None and view._extra.base is base:
            renew_edge(view, base)


def renew_edge(view: Tensor, base: Tensor) -> None:
    """Give a view an edge over the present one of its base. See Note [In-place on views]."""
    extra: Any = view._extra
    stale = extra.made_in_no_grad
    set_edge(view, StaleView(view._layout) if stale else replay(base, extra.replay)._edge)


def set_edge(tensor: Tensor, edge: Any) -> None:
    """Give tensor a new edge. retain_grad belongs to the tensor, unlike hooks, and moves along."""
    old, tensor._edge = tensor._edge, edge
    hooks = None if old is None else node_of(old).hooks
    keep = None if hooks is None else hooks.retains.pop(output_number(old), None)
    if keep is not None:
        node_of(edge)._hooks().retains[output_number(edge)] = keep


class StaleView(Node):
    """A view that was made in no_grad and whose base was later changed in place with grad mode on:
    it is undefined whether its gradient should reach the base.

    PyTorch refuses its next use; here out-of-place ops do not check, so the backward pass refuses.
    """

    __slots__ = ()

    def __init__(self, layout: Layout) -> None:
        begin_node(self, (), layout)

    def apply(self, g: Any, keep: bool) -> tuple[Any, ...]:
        """Raise GraphError."""
        raise GraphError(
            "A view was created in no_grad mode and its base or another view of its base has been "
            "modified inplace with grad mode enabled. "
            "Make the view and the change both inside no_grad(), or both outside; or detach() the "
            "view if no gradient is meant to flow through it."
        )

    apply_recorded = apply


class CopySlices(CallNode):
    """The Node of a base with a view that was changed in place: the gradient passes, except for
    that view's part.
    """

    __slots__ = ()
    saved_names = ("function", "steps")
    function: Node
    steps: Any

    def __init__(self, base: Tensor, steps: Any, function: Node) -> None:
        begin_node(self, (base._edge, *function.edges[1:]), base._layout)
        self.function = function
        self.steps = steps

    def apply(self, g: Any, keep: bool) -> tuple[Any, ...]:
        """Return the base's gradient with the view's part passed through the op, and the other
        inputs' gradients.
        """
        layout = self.output_layout
        backend = backend_of(layout.device.type)
        if self._is_dense_in_other_order():
            result = empty_in_layout(layout)
        else:
            result = backend.empty(layout.shape, layout.dtype.numpy, layout.device.index)
        backend.copy_into(result, g)
        part = replay_array(result, layout.device, self.steps)
        inner = backend.empty(tuple(part.shape), part.dtype, layout.device.index)
        backend.copy_into(inner, part)
        first, *others = self.function.apply(inner, keep)
        room = distinct_elements(part, layout_of(part, layout.device))
        if room.__class__ is np.ndarray:
            may_write(room)  # a part of an expanded view that repeats nothing
        # Memory that repeats was filled with one number, so no gradient is left.
        nothing = first is None or room is not part
        backend.copy_into(room, np.zeros((), part.dtype) if nothing else first)
        return (result, *others)

    def apply_recorded(self, g: Any, keep: bool) -> tuple[Any, ...]:
        """Return the same gradients as Tensors."""
        result = OPS["packed"].public(g)
        if self._is_dense_in_other_order():
            packed, result = result, wrap(empty_in_layout(self.output_layout), self.output_layout)
            result.copy_(packed)
        part = view_of(result, self.steps)
        first, *others = self.function.apply_recorded(OPS["clone"].public(part), keep)
        if first is None or distinct_elements(part._array, part._layout) is not part._array:
            part.zero_()
        else:
            part.copy_(first)
        return (result, *others)

    def _is_dense_in_other_order(self) -> bool:
        """Return whether as_strided would reach other elements of a contiguous copy than of the
        base: the base has another layout, with separate memory for each element.
        """
        layout = self.output_layout
        return not layout.contiguous and all(
            step > 0 or n < 2 for n, step in zip(layout.shape, layout.strides, strict=True)
        )

    def release(self) -> None:
        """Release the saved values."""
        self.function.release()
