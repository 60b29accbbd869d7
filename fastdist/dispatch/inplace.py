"""Tensors that are changed in place: checks, history in the graph, and the writes themselves.

`copy_` serves all in-place ops without their own kernel: compute, overwrite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..core.device import CPU
from ..core.dtypes import DType
from ..core.errors import DTypeError, GraphError, ShapeError
from ..core.torch_function import NOT_TAKEN, offer
from ..devices.backend import backend_of
from ..graph.call_node import CallNode
from ..graph.lazy_conj_neg import LazyConjNeg, resolved, write_through
from ..graph.modes import modes, tls
from ..graph.node import Node, node_of, output_number
from ..graph.recording import begin_node
from ..graph.unbroadcast import cast_array, reduce_recorded, zeros_of
from ..graph.unpacking import SavedView
from ..interpreters.batched_tensor import level_of
from ..interpreters.batching import change_batch
from ..interpreters.sparse_rules import is_sparse, meet_sparse
from ..interpreters.tracing import active_recorder, traced
from ..tensor.broadcast import broadcast_shapes, sum_array_to
from ..tensor.constants import is_plain_number, placed, require_held
from ..tensor.layout import Layout, Shape
from ..tensor.memory import empty_in_layout
from ..tensor.promotion import can_cast
from ..tensor.storage import storage_of
from ..tensor.tensor import Tensor, from_array, from_users_array, layout_of, wrap
from ..tensor.view_steps import Step
from ..tensor.writable import (
    distinct_elements,
    may_overlap,
    may_write,
    require_apart,
    require_writable,
    shares_memory,
)
from .declaration import node_named
from .op import OPS, PLAIN
from .tangents import (
    carry,
    fitted,
    is_differentiated,
    is_recorded,
    value_before,
    view_of,
    zeros_like,
)

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


def may_write_at_once(target: Tensor, source: Any = None) -> bool:
    """Return whether an in-place op on a CPU tensor may write without further checks: it will
    record, carry and refuse nothing, whatever Tensor it reads.
    """
    if target.__class__ not in modes.plain:
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
    """Return the present value of target: a copy where its Node may keep it."""
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


def replay(tensor: Tensor, steps: Iterable[Step]) -> Tensor:
    """Return the view that steps make of tensor."""
    for op, attributes in steps:
        array = op.view_array(tensor._array, tensor._layout.device, attributes)
        result = wrap(array, layout_of(array, tensor._layout.device))
        result._storage = storage_of(tensor)
        op.record((result,), (tensor,), op.route_of(tensor._layout, attributes))
        tensor = result
    return tensor


def replay_array(array: Any, device: Any, steps: Iterable[Step]) -> Any:
    """Return the view that steps make of a raw array."""
    for op, attributes in steps:
        array = op.view_array(array, device, attributes)
    return array


class StaleView(Node):
    """A view that was made in no_grad and whose base was later changed in place with grad mode on:
    it is undefined whether its gradient should reach the base.

    PyTorch refuses its next use; here out-of-place ops do not check, so the backward pass refuses.
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
    """The Node of a base with a view that was changed in place: that view takes its part of g."""

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
            may_write(room)  # a part of an expanded view that repeats nothing
        # Memory that repeats was filled with one number, so no gradient is left.
        nothing = first is None or room is not part
        backend.copy_into(room, np.zeros((), part.dtype) if nothing else first)
        return (result, *others)

    def apply_recorded(self, g: Any, keep: bool) -> tuple[Any, ...]:
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
        self.function.release()


def copy_(self: Tensor, src: Any, non_blocking: bool = False) -> Tensor:
    """Write src, broadcast and cast, into this tensor and return it.

    Raises  RuntimeError if src does not broadcast to this shape, or a gradient would be lost
    """
    if non_blocking is not False and not isinstance(non_blocking, bool):
        given = type(non_blocking).__name__
        raise TypeError(f"copy_(): argument 'non_blocking' (position 2) must be bool, not {given}")
    if (
        src.__class__ in PLAIN
        and src._layout.dtype is self._layout.dtype
        and src._layout.shape == self._layout.shape
        and src._layout.device is CPU
        and not (src._layout.is_sparse or self._layout.is_sparse)
        and may_write_at_once(self, src)
        and not shares_memory(self, src)
    ):
        np.copyto(self._array, src._array)
        storage_of(self).bump()
        return self
    more = {"non_blocking": True} if non_blocking else {}
    found = _offer_inplace(copy_, (self, src), more)
    if found is not NOT_TAKEN:
        return found  # type: ignore[no-any-return]
    return _overwrite(self, src, self._array, non_blocking=non_blocking)


def copy_result(target: Tensor, result: Tensor, known_as: str = "") -> Tensor:
    """Write a result over target and return target. The Node of the write has PyTorch's name of the
    function that made the result, or else the name of the op that computed it.
    """
    before = target._edge
    node = copy_(target, result)._edge
    if node is not before and node.__class__ is CopyBackwards:
        if known_as:
            node._called = node_named(known_as)
        else:
            node.in_place = True
    return target


def _offer_inplace(
    method: Callable[..., Any], operands: tuple[Any, ...], more: dict[str, Any] | None = None
) -> Any:
    """Return the result of an in-place method that its operands or an interpreter take over."""
    if modes.tracers and level_of(operands):
        # A number that differs between the calls has an axis in the batch, which fill_ would not
        # take.
        many = method is fill_ and isinstance(operands[1], Tensor)
        return change_batch(copy_ if many else method, operands)
    found = offer(method, operands, more or {})
    if found is not NOT_TAKEN:
        return found
    recorder = active_recorder() if modes.tracers else None
    if recorder is not None:
        return traced(recorder, method.__name__, method, operands)
    if operands[0].__class__ is LazyConjNeg:
        target, *others = operands
        require_apart(target.value, others)
        return write_through(target, lambda numbers: method(numbers, *others, **(more or {})))
    return NOT_TAKEN


def _overwrite(
    self: Tensor, src: Any, room: Any, *, non_blocking: bool = False, called: str = ""
) -> Tensor:
    """Write src into room, which is self's raw array or a view that has each of its elements once;
    its Node gets this name, or else CopyBackwards.
    """
    if self._layout.is_sparse or is_sparse(src):
        return meet_sparse("copy_" if isinstance(src, Tensor) else "fill_", (self, src))  # type: ignore[no-any-return]
    src = resolved(src)
    require_may_change(self, writing=room is self._array)
    require_apart(self, (src,))
    layout = self._layout
    if not isinstance(src, Tensor):
        is_array = isinstance(src, np.ndarray)
        src = from_users_array(src) if is_array else from_array(placed(src, layout.dtype))
    met = broadcast_shapes("copy_", [src._layout.shape, layout.shape])
    require_result_fits("copy_", self, met, layout.dtype)
    recording = will_record((self, src), layout)
    _write(self, src, room, non_blocking=non_blocking)
    storage_of(self).bump()
    if recording:
        node = CopyBackwards(self, src)
        if called:
            node._called = called
        set_history(self, node)
    if layout.dtype.may_have_gradient:
        carry((self,), (self, src), partial(_tangent_of_copy, layout))
    return self


def _tangent_of_copy(layout: Layout, _: Any, tangents: Any, outs: Any) -> tuple[Tensor]:
    """Return the source's tangent as the tangent of the tensor that it was written into."""
    return (zeros_like(outs[0]) if tangents[1] is None else fitted(tangents[1], layout),)


def _write(target: Tensor, src: Tensor, room: Any, *, non_blocking: bool) -> None:
    array, own, where, from_ = src._array, target._array, target._layout.device, src._layout.device
    if from_ is not where:
        source = backend_of(from_.type)
        if non_blocking and where is CPU and source.into_host(room, array):
            return
        held = source.to_numpy(array)
        array = backend_of(where.type).from_numpy(held, where.index, non_blocking=non_blocking)
    elif array.__class__ is np.ndarray and array is not own and may_overlap(array, own):
        array = array.copy()
    backend_of(where.type).copy_into(room, array)


class CopyBackwards(CallNode):
    """The Node of an overwritten tensor: no gradient for its old value, all for the source."""

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
        # Not g * 0.0, which is NaN where g is infinite.
        nothing = None if self.edges[0] is None else OPS["clone"].public(g).detach().zero_()
        passed = None
        if self.edges[1] is not None:
            passed = reduce_recorded(g, self.source)
            if passed is not None and self.source.device is not g._layout.device:
                passed = passed.to(self.source.device)
        return nothing, passed


def fill_(self: Tensor, value: Any) -> Tensor:
    """Write value, a number or a 0-d tensor, into every element.

    Raises  RuntimeError for a tensor with axes, and a number that the dtype does not hold
    """
    if (
        may_write_at_once(self)
        and self._layout.contiguous
        and is_plain_number(value, self._layout.dtype)
    ):
        self._array.fill(value)
        storage_of(self).bump()
        return self
    found = _offer_inplace(fill_, (self, value))
    if found is not NOT_TAKEN:
        return found  # type: ignore[no-any-return]
    if not isinstance(self, Tensor):
        raise TypeError(
            f"fill_(): argument 'input' (position 1) must be Tensor, not {type(self).__name__}"
        )
    if isinstance(value, Tensor) and value._layout.shape:
        raise ShapeError(
            "fill_ only supports 0-dimension value tensor but got tensor with "
            f"{len(value._layout.shape)} dimensions."
        )
    if self._layout.dtype.is_half and not isinstance(value, Tensor | np.ndarray):
        require_held(value, self._layout.dtype)  # `x[0] = value` rounds to inf, as in PyTorch
    if isinstance(value, Tensor):
        return _overwrite(self, value, self._array, called="FillBackward3")
    room = distinct_elements(self._array, self._layout)
    return _overwrite(self, value, room, called="FillBackward2")


def zero_(self: Tensor) -> Tensor:
    """Write 0 into every element."""
    if may_write_at_once(self) and not self._layout.dtype.is_float8:
        self._array.fill(0)
        storage_of(self).bump()
        return self
    found = _offer_inplace(zero_, (self,))
    if found is not NOT_TAKEN:
        return found  # type: ignore[no-any-return]
    if self._layout.is_sparse:
        return meet_sparse("zero_", (self,))  # type: ignore[no-any-return]
    room = distinct_elements(self._array, self._layout)
    return _overwrite(self, 0, room, called="ZeroBackward0")


def overwrite(name: str, target: Tensor, result: Tensor) -> Tensor:
    """Write the result of an op over target, and return it; name is the name of the in-place op."""
    require_result_fits(name, target, result._layout.shape, result._layout.dtype)
    return copy_result(target, result)
