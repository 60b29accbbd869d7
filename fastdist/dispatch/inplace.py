"""Tensors that are changed in place: checks, and the writes themselves.

In-place ops without their own kernel compute a result, and `copy_` writes it over the tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..core.device import CPU
from ..core.dtypes import DType
from ..core.errors import DTypeError, ShapeError
from ..core.folded_frames import fold
from ..core.torch_function import NOT_TAKEN, offer
from ..devices.backend import backend_of
from ..graph.inplace_history import CopyBackwards, require_may_change, set_history
from ..graph.lazy_conj_neg import LazyConjNeg, resolved, write_through
from ..graph.modes import modes, tls
from ..graph.tensor_tangents import value_before, zeros_like
from ..graph.views import replay
from ..interpreters.batched_tensor import level_of
from ..interpreters.batching import change_batch
from ..interpreters.sparse_rules import is_sparse, meet_sparse
from ..interpreters.tracing import active_recorder, traced
from ..tensor.broadcast import broadcast_shapes
from ..tensor.constants import is_plain_number, placed, require_held
from ..tensor.layout import Layout, Shape
from ..tensor.promotion import can_cast
from ..tensor.storage import storage_of
from ..tensor.tensor import Tensor, from_array, from_users_array
from ..tensor.writable import (
    distinct_elements,
    may_overlap,
    require_apart,
    shares_memory,
)
from .declaration import node_named
from .op import PLAIN
from .tangents import carry, fitted, is_differentiated, is_recorded


def may_write_at_once(target: Tensor, source: Any = None) -> bool:
    """Return whether an in-place op on a CPU tensor may write without further checks. If so, the op
    is not recorded, carries no tangents and raises no error, whichever Tensor it reads.
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
    """Raise RuntimeError if `target` cannot hold a result; `name` is the in-place op's name."""
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
    """Return whether an in-place op that writes a tensor with this layout is recorded."""
    return layout.dtype.may_have_gradient and is_recorded(operands)


def value_of(target: Tensor, others: Sequence[Any]) -> Tensor:
    """Return the current value of `target`: a copy if a Node may save it, else `target` itself."""
    if not is_differentiated(target, *others):
        return target
    before, extra = value_before(target), target._extra
    base = None if extra is None else extra.base
    if extra is not None and base is not None and base._edge is not None:
        # The view is replayed on the base, as for a view whose base was changed. Then intermediate
        # views get no gradient, and elements that only as_strided reaches keep their gradient.
        assert extra.replay is not None, "a view knows how it is made of its base"
        before._edge = replay(base, extra.replay)._edge
    return before


def copy_(self: Tensor, src: Any, non_blocking: bool = False) -> Tensor:
    """Write `src`, broadcast and cast, into this tensor, and return this tensor.

    Raises  RuntimeError if src does not broadcast to this shape, or if a gradient would be lost
    """
    try:
        if non_blocking is not False and not isinstance(non_blocking, bool):
            given = type(non_blocking).__name__
            raise TypeError(
                f"copy_(): argument 'non_blocking' (position 2) must be bool, not {given}"
            )
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
    except Exception as error:
        fold(error)
        raise


def copy_result(target: Tensor, result: Tensor, known_as: str = "") -> Tensor:
    """Write a result over `target`, and return `target`. The Node of the write is named after
    `known_as`, PyTorch's name of the function that made the result. Without `known_as`, the Node
    gets the name of the op that computed the result.
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
    """Offer an in-place method to its operands and interpreters; return a result or NOT_TAKEN."""
    if modes.tracers and level_of(operands):
        # A number that differs between the calls of a vmap has a batch axis. copy_ writes it,
        # because fill_ does not accept an axis.
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
    """Write `src` into `room`, which is self's raw array or a view of that array without repeated
    elements. The Node is named `called`; if `called` is empty, CopyBackwards.
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
    """Return the new tangent of the tensor that was written: the source's tangent, or zeros."""
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


def fill_(self: Tensor, value: Any) -> Tensor:
    """Write `value`, a number or a 0-d tensor, into every element.

    Raises  RuntimeError if value is a tensor with axes, or a number that the dtype cannot hold
    """
    try:
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
            require_held(
                value, self._layout.dtype
            )  # only fill_ checks; `x[0] = value` rounds to inf
        if isinstance(value, Tensor):
            return _overwrite(self, value, self._array, called="FillBackward3")
        room = distinct_elements(self._array, self._layout)
        return _overwrite(self, value, room, called="FillBackward2")
    except Exception as error:
        fold(error)
        raise


def zero_(self: Tensor) -> Tensor:
    """Write 0 into every element."""
    try:
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
    except Exception as error:
        fold(error)
        raise


def overwrite(name: str, target: Tensor, result: Tensor) -> Tensor:
    """Write an op's result over `target`, and return `target`; `name` names the in-place op."""
    require_result_fits(name, target, result._layout.shape, result._layout.dtype)
    return copy_result(target, result)
