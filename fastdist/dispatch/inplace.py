"""In-place ops, with PyTorch's gradients and errors, on leaves, results and recorded views."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ..core.dtypes import DType, bool_
from ..core.errors import DTypeError, GraphError, ShapeError
from ..core.overriding import NOT_TAKEN
from ..devices.backend import backend_of
from ..graph.modes import modes, tls
from ..graph.node import Node, node_of, output_number
from ..graph.recording import begin_node
from ..listeners.offering import operator_of
from ..listeners.sparse_rules import meet_sparse
from ..tensor.layout import Layout, Shape
from ..tensor.promotion import can_cast
from ..tensor.storage import storage_of
from ..tensor.tensor import Tensor, layout_of
from .differentiated import is_recorded
from .listening import heard
from .memory import each_place_once, may_overlap, may_write, require_apart, require_writable
from .op import OPS, PLAIN, Op, common_device, public_function, refuse_devices
from .pointwise import PointwiseOp, _operand, refused
from .saved import SavedView
from .tangents import carry_pointwise, levels_of, value_before
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


def may_write_at_once(target: Tensor, source: Any = None) -> bool:
    """Return whether an in-place op on a CPU tensor may write without a further look: nothing will
    be recorded, carried or refused, whatever Tensor it reads.
    """
    if target.__class__ not in PLAIN or modes.special:
        return False
    if not modes.grad_off or tls.grad:
        extra = target.extra
        if (
            target.edge is not None
            or (source is not None and source.edge is not None)
            or (extra is not None and extra.base is not None and extra.base.edge is not None)
        ):
            return False
    array = target.array
    return array.__class__ is np.ndarray and array.flags.writeable


class InPlace(Op):
    """A pointwise op that writes its result into its first operand: `x.add_(y)`, and `x += y` for
    one that stands for that operator.
    """

    kind = "in-place"

    def __init__(self, of: PointwiseOp, operator: str = "") -> None:
        said = {
            name: value
            for name, value in vars(of).items()
            if name not in ("public", "doc", "called")
        }
        vars(self).update(
            said,
            name=f"{of.name}_",
            known_as=f"{of.known_as}_",
            has_out=False,
            written=None,
            has_short_path=False,
        )
        self.of, self.operator = of, operator

    @cached_property
    def public(self) -> Callable[..., Any]:
        """The method; whoever asks for its signature is told the declaration's."""
        made: Any = public_function(self)
        made.__wrapped__ = self.declared
        return made  # type: ignore[no-any-return]

    @property
    def doc(self) -> str:
        """What help() says."""
        return (
            f"In-place version of {self.of.name}: writes the result into this tensor and returns "
            "it."
        )

    def calling(self) -> Callable[..., Any]:
        """Return the general path of the public function; as an operator, it returns NotImplemented
        for what no op takes: Python then asks that.
        """
        return operator_of(self, self.operator) if self.operator else super().calling()

    def general(
        self, operands: tuple[Any, ...], attributes: tuple[Any, ...], out: Any = None
    ) -> Any:
        """Check, offer to the tracer, write, record a Node, carry tangents."""
        if modes.tracers:
            found, operands = heard(self, operands, attributes)
            if found is not NOT_TAKEN:
                return found
        given, operands = operands, tuple([_operand(operand) for operand in operands])
        if refused(operands):
            return meet_sparse(self.name, given, attributes)
        if attributes:
            attributes = self.fitting(attributes)
        of = self.of
        if attributes and of.is_usual(attributes):
            assert isinstance(of.usual, PointwiseOp)
            of, attributes = of.usual, ()
        return self._change(of, operands, attributes)

    def _change(
        self, of: PointwiseOp, operands: tuple[Any, ...], attributes: tuple[Any, ...]
    ) -> Tensor:
        """Write of(target, ...) into target, record it, and carry tangents."""
        target: Tensor = operands[0]
        if of.tensors_only:
            of.require_tensors(self.name, operands)
        require_may_change(target)
        require_apart(target, operands)
        of_complex = of.complex_form(operands)
        if of_complex is not None:
            return self._change_complex(of_complex, operands)
        compute = of.compute_dtype(operands, attributes)
        dtype = bool_ if of.dtype == "bool" else compute
        layout = target.facts
        shape = of.shape_of(self.name, operands)
        require_room(self.name, target, shape, dtype)
        if compute.is_half and of.scales(operands):
            return target.copy_(of.scaled(operands, compute))
        device = common_device(of, operands)
        if device is not layout.device:
            refuse_devices(self, operands)
        recording = will_record(operands, layout)
        special = modes.special and bool(levels_of(operands))
        # What a gradient needs of the old value must be kept: it is about to be written over.
        keeping = (recording or special) and of.gradient_needs_first
        kept = [value_before(o) if keeping and o is target else o for o in operands]
        named = of.arrays(operands, attributes, compute, device)
        backend = backend_of(device.type)
        is_host = target.array.__class__ is np.ndarray
        arrays = [
            array.copy()
            if is_host and array is not target.array and may_overlap(array, target.array)
            else array
            for _, array in named
        ]
        if dtype is layout.dtype:
            backend.pointwise(of.run_body, arrays, target.array)
            of.remember(operands, named, of.layout_of_new(operands, dtype, device, shape), self)
        else:
            room = backend.empty(shape, dtype.numpy, device.index)
            backend.pointwise(of.run_body, arrays, room)
            backend.copy_into(target.array, room)
        storage_of(target).bump()
        if recording:
            of.record(target, kept, attributes, of.node_class.edges_of(kept), set_history)
        if special:
            carry_pointwise(of, target, operands, attributes, kept)
        return target

    def _change_complex(self, of_complex: Callable[..., Any], operands: Sequence[Any]) -> Tensor:
        """Write what the op is of complex numbers, made of other ops, into the first."""
        target: Tensor = operands[0]
        result: Tensor = of_complex(value_before(target), *operands[1:])
        dtype, wanted = result.facts.dtype, target.facts.dtype
        if wanted.is_complex and not dtype.is_complex:
            raise DTypeError(
                f"In-place {self.of.name} is not supported for complex tensors. Take "
                f"{self.of.name}()."
            )
        require_room(self.name, target, result.facts.shape, dtype)
        return target.copy_(result)


def require_room(name: str, target: Tensor, shape: Shape, dtype: DType) -> None:
    """Raise RuntimeError for a result that target cannot hold; name is that of the in-place op."""
    layout = target.facts
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
    """Return whether an in-place op on a tensor of layout leaves a trace in the graph."""
    return layout.dtype.may_have_gradient and is_recorded(operands)


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
