"""In-place ops, with PyTorch's gradients and errors, on leaves, results and recorded views."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..core.dtypes import bool_
from ..core.errors import DTypeError, GraphError, ShapeError
from ..core.overriding import NOT_TAKEN, mode_is_open, offer, offer_operator
from ..core.time_ranges import time_ranges
from ..devices.backend import backend_of
from ..graph.modes import modes, tls
from ..graph.node import Node, node_of, output_number
from ..graph.recording import begin_node
from ..tensor.layout import Layout
from ..tensor.storage import storage_of
from ..tensor.tensor import Tensor, layout_of
from .batched_tensor import level_of, levels
from .batching import change_batch
from .inplace_calls import inplace_way, remember_writer
from .memory import each_place_once, may_write, require_apart, require_writable
from .offering import nobody_takes
from .op import OPS, common_device, dress
from .pointwise import PointwiseOp, _operand, refused
from .promotion import can_cast
from .saved import SavedView
from .sparse_rules import is_sparse, meet_sparse
from .tangents import carry_pointwise, levels_of, value_before
from .timing import told
from .tracing import listener, traced
from .view import replay, replay_array

# Note [In-place on views]
# A view knows its base and the chain of view ops that makes it. A recorded in-place op on the base
# gives the base a new Node; one on a view gives the base a CopySlices that holds the op's Node and
# applies it to the view's part of the gradient. Either way every living view gets a new edge in the
# same call: the chain, recorded anew over the base, or, for a view made in no_grad, a StaleView.
# In-place ops pay for this; out-of-place ops never ask.


def require_may_change(target: Tensor, *, writing: bool = True) -> None:
    """Raise PyTorch's errors for tensors whose in-place change would lose a gradient.

    Raises  RuntimeError for a leaf that requires grad, a view of one, a view made in no_grad of a
            recorded base, and (if writing) memory that may not be written
    """
    if writing and (not target.facts.contiguous or target.array.__class__ is np.ndarray):
        require_writable(target)
    if not tls.grad:
        return
    if target.edge is not None and target.edge.is_accumulate:
        raise GraphError(
            "a leaf Variable that requires grad is being used in an in-place operation. "
            "Wrap the change in no_grad(), or work on a clone()."
        )
    extra = target.extra
    if extra is None or extra.base is None:
        return
    base = extra.base
    if base.edge is not None and base.edge.is_accumulate:
        raise GraphError(
            "a view of a leaf Variable that requires grad is being used in an in-place operation. "
            "Wrap the change in no_grad(), or work on a clone()."
        )
    if base.edge is not None and extra.made_in_no_grad:
        raise GraphError(
            "A view was created in no_grad mode and is being modified inplace with grad mode "
            "enabled. "
            "Make the view and the change both inside no_grad(), or both outside."
        )


def pointwise_inplace(op: PointwiseOp, *, operator: bool = False) -> Callable[..., Tensor]:
    """Return op as a function that writes its result into its first operand.

    As an operator it returns NotImplemented for what no op takes: Python then asks that.
    """

    def general(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        if (modes.tracers and mode_is_open()) or not nobody_takes((self, *args, *kwargs.values())):
            found = offer(getattr(Tensor, f"{op.name}_", None), (self, *args), kwargs)
            if found is not NOT_TAKEN:
                return found
        operands, attributes = _bind(op, self, args, kwargs)
        if any(is_sparse(operand) for operand in operands):
            return meet_sparse(f"{op.name}_", operands, attributes)
        attributes = op.fitting(attributes)
        if modes.tracers and levels.depth and level_of(operands):
            return change_batch(getattr(Tensor, f"{op.name}_"), operands, attributes)
        recorder = listener() if modes.tracers else None
        if recorder is not None:
            change = partial(_change_first, op)
            return traced(recorder, f"{op.name}_", change, (operands, attributes))
        if modes.tracers and time_ranges.on:
            run_with = (op, self, operands, attributes)
            return told(f"{op.name}_", operands, run_inplace, *run_with)
        return run_inplace(op, self, operands, attributes)

    def as_operator(self: Tensor, other: Any, **numbers: Any) -> Any:
        if (modes.tracers and mode_is_open()) or not nobody_takes((other,)):
            found = offer_operator(getattr(Tensor, f"{op.name}_", None), (self, other), {})
            if found is not NOT_TAKEN:
                return found
        if _operand(other) is NotImplemented and not is_sparse(other):
            return NotImplemented
        return general(self, other, **numbers)

    inplace: Any = inplace_way(op, as_operator if operator else general)
    dress(inplace, op)
    inplace.__name__ = inplace.__qualname__ = f"{op.name}_"
    inplace.__doc__ = (
        f"In-place version of {op.name}: writes the result into this tensor and returns it."
    )
    return inplace  # type: ignore[no-any-return]


def _bind(
    op: PointwiseOp, target: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    values: dict[str, Any] = {}
    positional = [p for p in op.parameters if p.kind is not p.KEYWORD_ONLY]
    if len(args) + 1 > len(positional):
        raise TypeError(
            f"{op.name}_() takes {len(positional) - 1} arguments, {len(args)} were given"
        )
    values.update(zip([p.name for p in positional], (target, *args), strict=False))
    for name, value in kwargs.items():
        if name in values or name not in (p.name for p in op.parameters):
            raise TypeError(f"{op.name}_() got an unexpected or repeated argument {name!r}")
        values[name] = value
    for parameter in op.parameters:
        if parameter.name not in values:
            if parameter.default is parameter.empty:
                raise TypeError(f"{op.name}_() is missing the argument {parameter.name!r}")
            values[parameter.name] = parameter.default
    return tuple(values[n] for n in op.tensors), tuple(values[n] for n in op.attributes)


def _change_first(op: PointwiseOp, operands: tuple[Any, ...], attributes: tuple[Any, ...]) -> Any:
    return run_inplace(op, operands[0], operands, attributes)


def run_inplace(
    op: PointwiseOp, target: Tensor, operands: tuple[Any, ...], attributes: tuple[Any, ...]
) -> Tensor:
    """Write op(target, ...) into target, record it, and carry tangents."""
    given, operands = operands, tuple([_operand(operand) for operand in operands])
    if refused(operands):
        kinds = [type(one).__name__ for one in given]
        raise TypeError(f"{op.name}_(): expected Tensors or numbers, got {kinds}")
    if op.tensors_only:
        op.require_tensors(f"{op.name}_", operands)
    require_may_change(target)
    require_apart(target, operands)
    compute = op.compute_dtype(operands, attributes)
    result_dtype = bool_ if op.dtype == "bool" else compute
    layout = target.facts
    shape = op.shape_of(f"{op.name}_", operands)
    if shape != layout.shape:
        raise ShapeError(
            f"output with shape {list(layout.shape)} doesn't match the broadcast shape "
            f"{list(shape)}: {op.name}_ cannot grow the tensor that it writes into"
        )
    if not can_cast(result_dtype, layout.dtype):
        raise DTypeError(
            f"result type {result_dtype.name} can't be cast to the desired output type "
            f"{layout.dtype.name}: {op.name}_ would lose values; use {op.name} and keep its result"
        )
    if compute.is_half and op.scales(operands):
        return target.copy_(op.scaled(operands, compute))
    device = common_device(op, operands)
    recording = will_record(operands, layout)
    special = modes.special and bool(levels_of(operands))
    # What a gradient needs of the old value must be kept: the memory is about to be written over.
    keeping = (recording or special) and op.gradient_needs_first
    kept = [value_before(o) if keeping and o is target else o for o in operands]
    backend = backend_of(device.type)
    arrays = []
    for name, operand in zip(op.body_names, (*operands, *attributes), strict=True):
        if name in op.body.used:
            array = op._array(operand, name, compute, device, backend)
            if (
                isinstance(operand, Tensor)
                and operand is not target
                and _may_overlap(array, target.array)
            ):
                array = backend.from_numpy(backend.to_numpy(array).copy(), device.index)
            arrays.append(array)
    if result_dtype is layout.dtype:
        backend.pointwise(op.run_body, arrays, target.array)
        remember_writer(op, operands, attributes, compute)
    else:
        room = backend.empty(shape, result_dtype.numpy, device.index)
        backend.pointwise(op.run_body, arrays, room)
        backend.copy_into(target.array, room)
    storage_of(target).bump()
    if recording:
        op.record(target, kept, attributes, op.edges_of(kept), set_history)
    if special:
        carry_pointwise(op, target, operands, attributes, kept)
    return target


def will_record(operands: Sequence[Any], layout: Layout) -> bool:
    """Return whether an in-place op on a tensor of layout leaves a trace in the graph."""
    if not tls.grad or not layout.dtype.may_have_gradient:
        return False
    return any(isinstance(o, Tensor) and o.edge is not None for o in operands)


def _may_overlap(array: Any, target: Any) -> bool:
    if isinstance(array, np.ndarray) and isinstance(target, np.ndarray):
        return array is not target and np.may_share_memory(array, target)
    return False


def set_history(target: Tensor, node: Node) -> None:
    """Let node be what made target's present value; bases and living views follow."""
    extra = target.extra
    base = None if extra is None else extra.base
    if base is None:
        base = target
        set_edge(target, node)
    else:
        assert extra is not None
        assert extra.replay is not None, "a view knows how it is made of its base"
        set_edge(base, CopySlices(base, extra.replay, node))
        set_edge(target, replay(base, extra.replay).edge)
        saved = getattr(node, "out", None)
        if saved is not None:
            node.out = (*saved[:3], SavedView(base, extra, replay))  # type: ignore[attr-defined]
    storage = base._storage
    if storage is None:
        return
    for view in storage.living_views():
        if view is target or view.extra is None or view.extra.base is not base:
            continue
        if view.extra.made_in_no_grad:
            set_edge(view, StaleView(view.facts))
        else:
            set_edge(view, replay(base, view.extra.replay).edge)


def set_edge(tensor: Tensor, edge: Any) -> None:
    """Give tensor a new edge. retain_grad speaks of the tensor, as hooks do not, and goes along."""
    old, tensor.edge = tensor.edge, edge
    hooks = None if old is None else node_of(old).hooks
    keep = None if hooks is None else hooks.retains.pop(output_number(old), None)
    if keep is not None:
        node_of(edge)._hooks().retains[output_number(edge)] = keep


class StaleView(Node):
    """A view that was made in no_grad and whose base has since been changed in place with grad
    mode on: whether its gradient should reach the base, nobody can know.

    PyTorch refuses its next use; here out-of-place ops do not ask, so the backward pass refuses.
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


class CopySlices(Node):
    """A base of which one view was changed in place: its gradient passes, but for that view's
    part.
    """

    __slots__ = ("function", "steps")

    def __init__(self, base: Tensor, steps: Any, function: Node) -> None:
        begin_node(self, (base.edge, *function.edges[1:]), base.facts)
        self.function = function
        self.steps = steps

    def apply(self, g: Any, keep: bool) -> tuple[Any, ...]:
        """Return the base's gradient with the view's part passed through the op, and the other
        inputs' gradients.
        """
        layout = self.facts
        backend = backend_of(layout.device.type)
        result = backend.empty(layout.shape, layout.dtype.numpy, layout.device.index)
        backend.copy_into(result, g)
        part = replay_array(result, layout.device, self.steps)
        inner = backend.empty(tuple(part.shape), part.dtype, layout.device.index)
        backend.copy_into(inner, part)
        first, *others = self.function.apply(inner, keep)
        room = each_place_once(part, layout_of(part, layout.device))
        if room.__class__ is np.ndarray:
            may_write(room)  # a part of an expanded view that repeats nothing
        # Memory that repeats was filled with one number, which leaves nothing.
        nothing = first is None or room is not part
        backend.copy_into(room, np.zeros((), part.dtype) if nothing else first)
        return (result, *others)

    def apply_recorded(self, g: Any, keep: bool) -> tuple[Any, ...]:
        """Return the same as Tensors."""
        result = OPS["packed"].public(g)
        part = result
        for op, attributes in self.steps:
            part = op.general((part,), attributes)
        first, *others = self.function.apply_recorded(OPS["clone"].public(part), keep)
        if first is None or each_place_once(part.array, part.facts) is not part.array:
            part.zero_()
        else:
            part.copy_(first)
        return (result, *others)

    def release(self) -> None:
        """Forget what was saved."""
        self.function.release()
