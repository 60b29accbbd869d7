"""The graph history of tensors that are changed in place, and of their views."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.errors import GraphError
from ..core.memory_format import contiguous_format
from ..devices.backend import backend_of
from ..tensor.broadcast import sum_array_to
from ..tensor.layout import Layout
from ..tensor.memory import empty_in_layout
from ..tensor.tensor import Tensor, layout_of, wrap
from ..tensor.writable import distinct_elements, may_write, require_writable
from .call_node import CallNode
from .modes import tls
from .node import Node, node_of, output_number
from .recording import begin_node
from .unbroadcast import cast_array, reduce_recorded, zeros_of
from .unpacking import SavedView
from .views import replay, replay_array, view_of

# Note [In-place on views]
# A view refers to its base and to the chain of view ops that makes the view from the base. A
# recorded in-place op on the base gives the base a new Node. An in-place op on a view gives the
# base a CopySlices, which holds the op's Node. The CopySlices passes the view's part of the
# gradient through the op's Node. In both cases every living view gets a new edge in the same call.
# For a view made in no_grad, the edge is a StaleView. For any other view, the chain is recorded
# again on the new base. Only in-place ops pay for this; out-of-place ops do not check anything.


def require_may_change(target: Tensor, *, writing: bool = True) -> None:
    """Raise PyTorch's errors for tensors that must not be changed in place.

    Raises  RuntimeError for a leaf that requires grad; a view of such a leaf; a view that was made
            in no_grad from a base that requires grad; and, if `writing`, for read-only memory
    """
    if writing and (not target._layout.contiguous or target._array.__class__ is np.ndarray):
        require_writable(target)
    if not tls.grad:
        return
    edge, extra = target._edge, target._extra
    of_base = None if extra is None or extra.base is None else extra.base._edge
    is_leaf = edge is not None and edge.is_accumulate and edge is not of_base
    if is_leaf or (of_base is not None and of_base.is_accumulate):
        what = "a leaf" if is_leaf else "a view of a leaf"
        raise GraphError(
            f"{what} Variable that requires grad is being used in an in-place operation. "
            "Wrap the change in no_grad(), or work on a clone()."
        )
    if of_base is not None and extra is not None and extra.made_in_no_grad:
        raise GraphError(
            "A view was created in no_grad mode and is being modified inplace with grad mode "
            "enabled. Make the view and the change both inside no_grad(), or both outside."
        )


def set_history(target: Tensor, node: Node) -> None:
    """Make `node` the Node of target's new value. Update the edges of target's base and of all
    living views of that base.
    """
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
    """Give a view a new edge, made from its base's edge. See Note [In-place on views]."""
    extra: Any = view._extra
    stale = extra.made_in_no_grad
    set_edge(view, StaleView(view._layout) if stale else replay(base, extra.replay)._edge)


def set_edge(tensor: Tensor, edge: Any) -> None:
    """Give a tensor a new edge. Hooks stay with the old Node, but retain_grad belongs to the tensor
    and moves to the new edge.
    """
    old, tensor._edge = tensor._edge, edge
    hooks = None if old is None else node_of(old).hooks
    keep = None if hooks is None else hooks.retains.pop(output_number(old), None)
    if keep is not None:
        node_of(edge)._hooks().retains[output_number(edge)] = keep


class StaleView(Node):
    """The Node of a view that was made in no_grad and whose base was later changed in place with
    grad mode on. It is undefined whether the view's gradient should reach the base.

    PyTorch raises an error at the view's next use. Here out-of-place ops do not check, so the
    backward pass raises the error.
    """

    __slots__ = ()

    def __init__(self, layout: Layout) -> None:
        begin_node(self, (), layout)

    def apply(self, g: Any, keep: bool) -> tuple[Any, ...]:
        raise GraphError(
            "A view was created in no_grad mode and its base or another view of its base has been "
            "modified inplace with grad mode enabled. "
            "Make the view and the change both inside no_grad(), or both outside; or detach() the "
            "view if no gradient is meant to flow through it."
        )

    apply_recorded = apply


class CopySlices(CallNode):
    """The Node of a base after an in-place op on a view of it. This Node passes the view's part of
    the gradient through the op's Node.
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
            may_write(room)  # expand() sets write protection
        # In-place ops can only fill an expanded view with one number, so the gradient of the old
        # values is zero.
        nothing = first is None or room is not part
        backend.copy_into(room, np.zeros((), part.dtype) if nothing else first)
        return (result, *others)

    def apply_recorded(self, g: Any, keep: bool) -> tuple[Any, ...]:
        result = g.clone(memory_format=contiguous_format)
        if self._is_dense_in_other_order():
            packed, result = result, wrap(empty_in_layout(self.output_layout), self.output_layout)
            result.copy_(packed)
        part = view_of(result, self.steps)
        first, *others = self.function.apply_recorded(part.clone(), keep)
        if first is None or distinct_elements(part._array, part._layout) is not part._array:
            part.zero_()
        else:
            part.copy_(first)
        return (result, *others)

    def _is_dense_in_other_order(self) -> bool:
        """Return whether the base is dense, but not in C order. If so, as_strided would address
        other elements in a contiguous copy than in the base.
        """
        layout = self.output_layout
        return not layout.contiguous and all(
            step > 0 or n < 2 for n, step in zip(layout.shape, layout.strides, strict=True)
        )

    def release(self) -> None:
        self.function.release()


class CopyBackwards(CallNode):
    """The Node of a tensor that was overwritten by a copy. The gradient of the tensor's old value
    is zero, and the source of the copy gets the whole gradient.
    """

    __slots__ = ()
    saved_names = ("source",)
    source: Layout

    def __init__(self, target: Tensor, src: Tensor) -> None:
        begin_node(self, (target._edge, src._edge), target._layout)
        self.source = src._layout

    def name_of_call(self) -> str:
        source = node_of(self.edges[1]) if hasattr(self, "in_place") else None
        if source is None or hasattr(self, "_called"):
            return CallNode.name_of_call(self)
        name: str = source.name_of_call()
        return name

    def apply(self, g: Any, keep: bool) -> tuple[Any, ...]:
        layout, source, passed = self.output_layout, self.source, None
        nothing = None if self.edges[0] is None else zeros_of(layout)
        if self.edges[1] is not None:
            target = Layout.of(layout.dtype, layout.device, source.shape)
            passed = cast_array(sum_array_to(g, target), layout, source)
        return nothing, passed

    def apply_recorded(self, g: Any, keep: bool) -> tuple[Any, ...]:
        # Not g * 0.0, which would be NaN where g is infinite.
        nothing = None if self.edges[0] is None else g.clone().detach().zero_()
        passed = None
        if self.edges[1] is not None:
            passed = reduce_recorded(g, self.source)
            if passed is not None and self.source.device is not g._layout.device:
                passed = passed.to(self.source.device)
        return nothing, passed
