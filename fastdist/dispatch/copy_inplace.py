"""`copy_`, and with it all in-place ops without their own kernel: compute, overwrite.

See Note [In-place on views] in inplace.py.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np

from ..core.device import CPU
from ..core.errors import ShapeError
from ..core.torch_function import NOT_TAKEN, mode_is_open, offer
from ..devices.backend import backend_of
from ..graph.call_node import CallNode
from ..graph.lazy_conj_neg import LazyConjNeg, resolved, write_through
from ..graph.modes import modes
from ..graph.node import node_of
from ..graph.recording import begin_node
from ..graph.unbroadcast import cast_array, reduce_recorded, zeros_of
from ..interpreters.batched_tensor import Batched, level_of
from ..interpreters.batching import change_batch
from ..interpreters.sparse_rules import is_sparse, meet_sparse
from ..interpreters.torch_function import none_overrides
from ..interpreters.tracing import active_recorder, traced
from ..tensor.broadcast import broadcast_shapes, sum_array_to
from ..tensor.constants import is_plain_number, placed, require_held
from ..tensor.layout import Layout
from ..tensor.storage import storage_of
from ..tensor.tensor import Tensor, from_array, from_users_array
from ..tensor.writable import distinct_elements, may_overlap, require_apart, shares_memory
from .argument_kinds import ArgumentError
from .inplace import (
    may_write_at_once,
    require_may_change,
    require_result_fits,
    set_history,
    value_of,
    will_record,
)
from .op import OPS, PLAIN
from .pytorch_names import node_named
from .tangents import carry, fitted, zeros_like

# The text of help() for an in-place twin.
TWIN_DOC: Final = "In-place version of {}: writes the result into this tensor and returns it."


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


def copy_drawn(self: Tensor, drawn: Tensor, known_as: str) -> Tensor:
    """Write a random result; the Node has the name of the draw, which PyTorch's name gives."""
    node = _copied(self, drawn)
    if node is not None:
        node._called = node_named(known_as)
    return self


def copy_computed(self: Tensor, computed: Tensor) -> Tensor:
    """Write a computed result over self; the Node has the name of the op that computed it."""
    node = _copied(self, computed)
    if node is not None:
        node.in_place = True
    return self


def _copied(target: Tensor, source: Tensor) -> CopyBackwards | None:
    """Write source over target and return the Node of the write, if there is one."""
    before = target._edge
    node = copy_(target, source)._edge
    return node if node is not before and node.__class__ is CopyBackwards else None


def _offer_inplace(
    method: Callable[..., Any], operands: tuple[Any, ...], more: dict[str, Any] | None = None
) -> Any:
    """Return the result of an in-place method for a batch, an interpreter or an unresolved view;
    NOT_TAKEN if none takes it.
    """
    if modes.tracers and level_of(operands):
        # A number that differs between the calls has an axis in the batch, which fill_ would not
        # take.
        many = method is fill_ and isinstance(operands[1], Tensor)
        return change_batch(copy_ if many else method, operands)
    if (modes.tracers and mode_is_open()) or not none_overrides(operands[1:]):
        found = offer(method, operands, more or {})
        if found is not NOT_TAKEN:
            return found
    if operands[0].__class__ is LazyConjNeg:
        recorder = active_recorder() if modes.tracers else None
        if recorder is not None:
            return traced(recorder, method.__name__, method, operands)
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
    recorder = active_recorder() if modes.tracers else None
    if recorder is not None:
        write = copy_ if isinstance(src, Tensor) else fill_
        return traced(recorder, write.__name__, write, (self, src))  # type: ignore[no-any-return]
    if self._layout.is_sparse or is_sparse(src):
        return meet_sparse("copy_" if isinstance(src, Tensor) else "fill_", (self, src))  # type: ignore[no-any-return]
    src = resolved(src)
    require_may_change(self, writing=room is self._array)
    require_apart(self, (src,))
    layout = self._layout
    if not isinstance(src, Tensor):
        src = _number(src, layout)
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
    if modes.special and layout.dtype.may_have_gradient:
        carry((self,), (self, src), partial(_tangent_of_copy, layout))
    return self


def _tangent_of_copy(layout: Layout, _: Any, tangents: Any, outs: Any) -> tuple[Tensor]:
    """Return the source's tangent as the tangent of the tensor that it was written into."""
    return (zeros_like(outs[0]) if tangents[1] is None else fitted(tangents[1], layout),)


def _number(value: Any, layout: Layout) -> Tensor:
    if isinstance(value, np.ndarray):
        return from_users_array(value)
    return from_array(placed(value, layout.dtype))


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
        """Return the name that graphs show."""
        source = node_of(self.edges[1]) if hasattr(self, "in_place") else None
        if source is None or hasattr(self, "_called"):
            return CallNode.name_of_call(self)
        name: str = source.name_of_call()
        return name

    def apply(self, g: Any, keep: bool) -> tuple[Any, ...]:
        """Return zeros, and g in the shape and dtype of the source."""
        layout, source, passed = self.output_layout, self.source, None
        nothing = None if self.edges[0] is None else zeros_of(layout)
        if self.edges[1] is not None:
            target = Layout.of(layout.dtype, layout.device, source.shape)
            passed = cast_array(sum_array_to(g, target), layout, source)
        return nothing, passed

    def apply_recorded(self, g: Any, keep: bool) -> tuple[Any, ...]:
        """Return the same gradients as Tensors."""
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


def inplace_of(name: str, function: Callable[..., Any]) -> Callable[..., Tensor]:
    """Return a function that writes the result of function into its first argument."""

    def inplace(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        is_plain = self.__class__ in PLAIN and not kwargs and none_overrides(args)
        if (modes.tracers and mode_is_open()) or not is_plain:
            found = offer(inplace, (self, *args), kwargs)
            if found is not NOT_TAKEN:
                return found  # type: ignore[no-any-return]
        if not isinstance(self, Tensor):
            fault = f"must be Tensor, not {type(self).__name__}"
            raise ArgumentError(f"{name}_(): argument 'input' (position 1) {fault}")
        if isinstance(self, Batched | LazyConjNeg):
            before = OPS["clone"].public(self)  # copy_ asks whether it may be changed
        else:
            require_may_change(self)
            require_apart(self, (*args, *kwargs.values()))
            before = value_of(self, (*args, *kwargs.values()))
        result = function(before, *args, **kwargs)
        if result is NotImplemented:
            raise TypeError(f"{name}_(): unsupported arguments")
        return overwrite(f"{name}_", self, result)

    return dressed_as_twin(inplace, name, function, TWIN_DOC)


def overwrite(name: str, target: Tensor, result: Tensor) -> Tensor:
    """Write the result of an op over target, and return it; name is the name of the in-place op."""
    require_result_fits(name, target, result._layout.shape, result._layout.dtype)
    return copy_computed(target, result)


def dressed_as_twin(
    inplace: Any, name: str, function: Callable[..., Any], doc: str
) -> Callable[..., Tensor]:
    """Return an in-place twin with the name and signature of function, which is an op's or a
    composite's, without its `out=`; told is its docstring, with `{}` for the name.
    """
    inplace.__name__ = inplace.__qualname__ = f"{name}_"
    inplace.__doc__ = doc.format(name)
    op = OPS.get(name)
    if op is not None and op.__dict__.get("public") is function:
        declared = op.declared
    else:
        declared = getattr(function, "__wrapped__", function)
    inplace.__wrapped__ = declared
    if "out" in (declared.__kwdefaults__ or ()):
        signature = inspect.signature(declared)
        taken = [p for p in signature.parameters.values() if p.name != "out"]
        inplace.__signature__ = signature.replace(parameters=taken)
    return inplace  # type: ignore[no-any-return]
