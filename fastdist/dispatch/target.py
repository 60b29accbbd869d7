"""Where the result of a call goes: to a new tensor, to the first operand, or to `out=`."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ..core.dtypes import WORDS, bool_, int64, uint8
from ..core.errors import DeviceError, DTypeError, ShapeError, SharedMemoryError
from ..devices.backend import backend_of
from ..graph.inplace_history import require_may_change, set_history
from ..graph.lazy_conj_neg import LazyConjNeg, write_through
from ..graph.modes import modes, tls
from ..graph.tensor_tangents import levels_of, value_before
from ..interpreters.batched_tensor import Batched, TakesNoBatch, level_of
from ..interpreters.tracing import active_recorder, traced
from ..system.shared_block import block_of
from ..tensor.layout import Shape
from ..tensor.promotion import can_cast
from ..tensor.storage import storage_of
from ..tensor.tensor import Tensor, layout_of
from ..tensor.writable import may_overlap, require_apart, require_writable, shares_memory
from .declaration import OutRule
from .inplace import overwrite, require_result_fits, value_of, will_record
from .op import OPS, Given, refuse_devices
from .route import Route, arrays_of, run_silently
from .tangents import has_tangents

# The argument `out=` of a call; a tuple for an op with several results.
GivenOut = Tensor | tuple[Tensor, ...] | None


class Target:
    """A new tensor, the usual target. A call uses the methods of its target in this order. `accept`
    raises an error if the target cannot take a result at all. Then there are two cases: `run` runs
    a Route; or other ops compute the result from the operands that `before` returns, and `take`
    writes the result to the target.
    """

    def accept(self, operands: Sequence[Any]) -> None:
        """Raise the errors of the target that do not depend on the result."""

    def before(self, operands: Given) -> Given:
        """Return the operands for ops that compute the result."""
        return operands

    def take(self, result: Any, operands: Sequence[Any]) -> Any:
        """Return `result`, which other ops computed, or the tensor that now contains it."""
        return result

    def run(self, op: Any, route: Route, values: Given) -> Any:
        """Run a Route of op, and return the new result or the tensor that now contains it."""
        return op.run_recorded(route, values)


NEW: Final = Target()


class First(Target):
    """The first operand, which is overwritten by the result of an op or a composite. See Note
    [In-place on views] in graph/inplace_history.py.
    """

    def __init__(self, name: str, tensor: Tensor, of: Any = None) -> None:
        self.name, self.tensor, self.of = name, tensor, of

    def accept(self, operands: Sequence[Any]) -> None:
        # For a batch or a lazy view, copy_ makes these checks: the values are in another tensor.
        if not isinstance(self.tensor, Batched | LazyConjNeg):
            require_may_change(self.tensor)
            require_apart(self.tensor, operands)

    def before(self, operands: Given) -> Given:
        first, *others = operands
        if isinstance(first, Batched | LazyConjNeg):
            return (OPS["clone"].public(first), *others)
        return (value_of(first, others), *others)

    def take(self, result: Any, operands: Sequence[Any]) -> Tensor:
        is_complex = self.of is not None and self.tensor._layout.dtype.is_complex
        if is_complex and not result._layout.dtype.is_complex:
            raise DTypeError(
                f"In-place {self.of.name} is not supported for complex tensors. "
                f"Take {self.of.name}()."
            )
        return overwrite(self.name, self.tensor, result)

    def run(self, op: Any, route: Route, values: Given) -> Tensor:
        """Overwrite the tensor, record the call, compute the tangents, and return the tensor.

        Raises  RuntimeError for a result that the tensor cannot hold
        """
        target, layout, of = self.tensor, route.layout, self.of
        require_result_fits(self.name, target, layout.shape, layout.dtype)
        if layout.device is not target._layout.device:
            refuse_devices(op, values[: len(op.tensors)])
        recording, special = will_record(values, target._layout), has_tangents(values)
        arrays, room, kept = arrays_of(values), target._array, values
        if recording or special:
            if layout.dtype is not target._layout.dtype:
                # The gradients are defined for the result before its cast to the target's dtype.
                made = of.run_recorded(route, _with(values, value_before(target)))
                return overwrite(self.name, target, made)
            if of.form.derivatives_need_first(keeps_spare=route.keeps_spare):
                # The old value must be copied: a gradient needs it, and it will be overwritten.
                kept = _with(values, value_before(target))
            # Another operand that shares the target's memory, such as x.detach(), is copied, too.
            memory, (first, *others) = storage_of(target), kept
            kept = (first, *[value_before(o) if o._storage is memory else o for o in others])
        if room.__class__ is np.ndarray:
            arrays = [
                one.copy() if one is not room and may_overlap(one, room) else one for one in arrays
            ]
        run_silently(route.change, [*arrays, room])
        storage_of(target).bump()
        if recording:
            of.record((target,), kept, route, _attach)
        if special:
            of.carry_tangents((target,), values, route, kept)
        return target


def _attach(target: Tensor, node: Any) -> None:
    node.in_place = True
    set_history(target, node)


def _with(values: Given, before: Tensor) -> Given:
    """Return values with each occurrence of the first operand replaced by its old value."""
    return tuple([before if one is values[0] else one for one in values])


class Out(Target):
    """The tensor that the caller gives as `out=`; an OutRule says which tensors are allowed."""

    def __init__(self, rule: OutRule, tensor: Any) -> None:
        self.rule, self.tensor = rule, tensor

    def take(self, result: Any, operands: Sequence[Any]) -> Any:
        if isinstance(result, tuple):
            return _write_parts(self.rule, self.tensor, result, operands)
        return write_out(self.rule, self.tensor, result, operands)

    def run(self, op: Any, route: Route, values: Given) -> Tensor:
        if not self._may_write(route, values):
            return write_out(self.rule, self.tensor, op.run_route(route, values)[0], values)
        out: Tensor = self.tensor
        require_writable(out)
        run_silently(route.write, arrays_of((*values, out)))
        storage_of(out).bump()
        return out

    def _may_write(self, route: Route, values: Sequence[Any]) -> bool:
        """Return whether `route` may write directly into the tensor. If not, write_out raises an
        error, resizes the tensor, casts the result, or copies it because an operand shares memory
        with the tensor.
        """
        out = self.tensor
        if route.write is None or modes.special or not isinstance(out, Tensor):
            return False
        if out._layout.is_sparse or out.__class__ is LazyConjNeg:
            return False
        own, made = out._layout, route.layout
        if (own.dtype, own.device, own.shape) != (made.dtype, made.device, made.shape):
            return False
        given = [one for one in values if one is not None]
        if any(shares_memory(out, one) for one in given):
            return False
        if True in self.rule.memory and any(one is out for one in given):
            return False
        return not (tls.grad and any(one._edge is not None for one in (out, *given)))


def write_out(rule: OutRule, out: Tensor, result: Tensor, operands: Sequence[Any]) -> Tensor:
    """Write a tensor into out and return out.

    Raises  RuntimeError when a gradient or a tangent would be lost; ShapeError, DTypeError,
            DeviceError when out cannot hold the result
    """
    recorder = active_recorder() if modes.tracers else None
    if recorder is not None:
        given = (rule, out, result, operands)
        return traced(recorder, "copy_", write_out, given)  # type: ignore[no-any-return]
    _require_takes(rule, out, result, operands)
    if out.__class__ is LazyConjNeg:
        return write_through(out, lambda numbers: write_out(rule, numbers, result, operands))
    if out._layout.shape != result._layout.shape:
        _resize(out, result._layout.shape)
    backend_of(out._layout.device.type).copy_into(out._array, result._array)
    storage_of(out).bump()
    return out


def _require_takes(rule: OutRule, out: Tensor, result: Tensor, operands: Sequence[Any]) -> None:
    """Raise all errors about `out` before anything is written."""
    name = rule.name
    if not isinstance(out, Tensor):
        raise TypeError(f"{name}(): argument 'out' must be a Tensor, not {type(out).__name__}")
    if isinstance(out, LazyConjNeg):
        out = out.value
    for i, one in enumerate(operands):
        wholly = rule.memory[i > 0]
        if wholly is not None:
            require_apart(out, one if isinstance(one, tuple | list) else (one,), wholly=wholly)
    if tls.grad and any(isinstance(o, Tensor) and o._edge is not None for o in (*operands, out)):
        raise RuntimeError(
            f"{name}(): functions with out=... arguments don't support automatic differentiation, "
            "but one of the arguments requires grad."
        )
    if modes.special:
        if level_of((out, result)):
            raise TakesNoBatch(
                f"vmap: {name}(..., out=...) has no batching rule: use the result of {name}()"
            )
        _refuse_tangents(name, out, result, operands)
    if out._layout.device is not result._layout.device:
        raise DeviceError(
            "Expected all tensors to be on the same device, but found at least two devices: "
            f"{name} gives its result on {result._layout.device}, out is on "
            f"{out._layout.device}; give an out on {result._layout.device}, or move the result "
            f"of {name} with .to(device)"
        )
    _require_cast(rule, out, result, operands)
    if out._layout.shape != result._layout.shape:
        _require_resizable(name, out, result._layout.shape)
    else:
        require_writable(out)


def _refuse_tangents(name: str, out: Tensor, result: Tensor, operands: Sequence[Any]) -> None:
    """Raise NotImplementedError where a tangent would be lost, even in no_grad."""
    # A composite's operand may be a list; tangents of its tensors show only in the result.
    which = "out" if levels_of((out,)) else "an operand" if levels_of((*operands, result)) else ""
    if which:
        raise NotImplementedError(
            f"Trying to use forward AD with {name}_out that does not support it because it is an "
            f"out= function: {which} has a tangent; use {name}() without out=, or give it "
            "tensors without tangents, as unpack_dual(x).primal is"
        )


# Note [Memory of out]
# fastdist computes a result before it writes the result to out, so the result is right even if out
# shares memory with an operand. PyTorch writes during the computation, and therefore raises an
# error for some overlaps; fastdist raises the same errors. Elementwise ops, ops along an axis and
# sorts refuse an out that partly overlaps an operand. Ops that move data to other positions refuse
# any overlap. Reductions, products and factorizations accept any overlap, except that a product
# does not accept every overlap with the tensor that is added to it. So the default rule is "apart"
# for a pointwise op and "anywhere" for all others. Other rules are declared, such as "outside" for
# an op that moves data (MEMORY_WORDS in declaration.py).


# Note [Casting into out]
# PyTorch casts the result into an out= of another dtype for elementwise ops, joins, means, standard
# deviations, and a few matrix factorizations. Every other op requires an out= of the result's
# dtype, and so does an elementwise op of one operand whose result keeps the operand's dtype. So the
# default is "cast" or "kept" for a pointwise op, and "same" for all others (OUT_WORDS). No op casts
# to a lower kind, such as float to int. Sums and products are computed in out's dtype from the
# start (`computes_in_out` of structured.py).


def _require_cast(rule: OutRule, out: Tensor, result: Tensor, operands: Sequence[Any]) -> None:
    """Raise DTypeError if the result may not be cast to out's dtype.

    See Note [Casting into out].
    """
    into, of = out._layout.dtype, result._layout.dtype
    if rule.dtype == "truth" and into in (bool_, uint8):
        return
    if rule.dtype == "kind" and not (into.is_complex if of.is_complex else into.is_floating_point):
        kind, called = "complex" if of.is_complex else "floating point", rule.name.partition(".")[2]
        raise DTypeError(f"{called} expects a {kind} output tensor, but got {WORDS[into]}")
    if rule.dtype in ("same", "truth"):
        _require_dtype(rule.name, out, result)
    elif rule.dtype == "kept" and into is not of is operands[0]._layout.dtype:
        raise DTypeError(
            f"Found dtype {into.name} but expected {of.name}: {rule.name} writes into an out of "
            "its result's dtype"
        )
    if not can_cast(of, into):
        raise DTypeError(
            f"result type {of.name} can't be cast to the desired output type {into.name}"
        )


def _require_dtype(name: str, out: Tensor, result: Tensor) -> None:
    """Raise DTypeError if out's dtype is not the result's."""
    if out._layout.dtype is not result._layout.dtype:
        raise DTypeError(
            f"{name}(): Expected out tensor to have dtype {result._layout.dtype.name}, but got "
            f"{out._layout.dtype.name} instead: give an out of the result's dtype"
        )


def _require_resizable(name: str, out: Tensor, shape: Shape) -> None:
    """Raise for an out that cannot be resized.

    Raises  SharedMemoryError for memory that other processes share; ShapeError for a view, for the
            base of a view, and for a tensor in a graph, because views and Nodes rely on the shape
    """
    layout = out._layout
    if block_of(out._array) is not None:
        raise SharedMemoryError(
            f"Trying to resize storage that is not resizable: {name}: out has shape "
            f"{layout.shape}, the result has {shape}, and other processes share the memory of out; "
            "give an out of that shape, or one that is not shared"
        )
    is_view = out._extra is not None and out._extra.base is not None
    if is_view or out._edge is not None or storage_of(out).living_views():
        raise ShapeError(
            f"{name}: out has shape {layout.shape}, the result has {shape}; give an out of that "
            "shape, or one that can be resized: it is not a view, has no views and is in no graph"
        )


def _resize(out: Tensor, shape: Shape) -> None:
    """Resize out to shape, with PyTorch's warning if it had elements."""
    layout = out._layout
    if layout.numel:
        warnings.warn(
            "An output with one or more elements was resized since it had shape "
            f"{list(layout.shape)}, which does not match the required output shape {list(shape)}. "
            "This behavior is deprecated, and in a future PyTorch release outputs will not be "
            "resized unless they have zero elements: give an out of the result's shape, or an "
            "empty one.",
            UserWarning,
            stacklevel=2,
        )
    device = layout.device
    out._array = backend_of(device.type).empty(shape, layout.dtype.numpy, device.index)
    out._layout = layout_of(out._array, device)


def store_in_out(name: str, out: Any, result: Any, operands: Sequence[Any], *words: str) -> Tensor:
    """Write `result` into `out` and return `out`; if `out` is None, return `result`. Composites
    with an `out=` call this function. `words` are the arguments `dtype` and `memory` of an OutRule.
    `out` and `result` may be tuples.
    """
    target = NEW if out is None else Out(OutRule(name, *words), out)
    return target.take(result, operands)  # type: ignore[no-any-return]


def _write_parts(rule: OutRule, out: Any, result: Any, operands: Sequence[Any]) -> Any:
    """Write the tensors of the tuple `result` into the tensors of the tuple `out`, and return
    `out`.
    """
    if not isinstance(out, tuple | list) or len(out) != len(result):
        raise TypeError(f"{rule.name}(): argument 'out' must be a tuple of {len(result)} Tensors")
    for one, part in zip(out, result, strict=True):
        if part._layout.dtype is int64 and part is not result[0] and isinstance(one, Tensor):
            _require_dtype(rule.name, one, part)
    if not modes.tracers:
        # All tensors are checked first, so that none is written if one is refused.
        for one, part in zip(out, result, strict=True):
            _require_takes(rule, one, part, operands)
    parts = [write_out(rule, o, r, operands) for o, r in zip(out, result, strict=True)]
    return type(result)(*parts) if hasattr(result, "_fields") else tuple(parts)
