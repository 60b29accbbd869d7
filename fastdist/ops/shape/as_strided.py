"""Views with given strides: windows along an axis, and as_strided."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.errors import GraphError, ShapeError
from ...core.sequences import all_of
from ...core.short_repr import short_repr
from ...devices.backend import Backend
from ...dispatch.composite import composite
from ...dispatch.op import OPS, Op
from ...dispatch.tangents import has_tangents
from ...dispatch.view import view as view_op
from ...graph.lazy_conj_neg import LazyConjNeg
from ...graph.tensor_tangents import levels_of, tangent_of
from ...graph.views import replay_array
from ...interpreters.batched_tensor import Batched, NeedsNumbers, unbatched
from ...interpreters.batching import along_axes
from ...tensor.axes import normalize_axis
from ...tensor.layout import Layout, Shape
from ...tensor.tensor import Tensor, from_array
from ...tensor.view_steps import ViewSteps
from ..create.creation import zeros


@view_op("nowhere", known_as="unfold")
def windows(input: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Return a view of all windows of `size` elements along an axis. Neighbouring windows start
    `step` elements apart. The last axis of the view holds the elements of a window. The public name
    is Tensor.unfold.
    """


@windows.prepare
def _(input: Tensor, dimension: int, size: int, step: int) -> tuple[Any, ...]:
    shape = input._layout.shape
    axis = normalize_axis("unfold", dimension, len(shape))
    length = shape[axis] if shape else 1
    if size < 0:
        raise ShapeError(f"size is {short_repr(size)} but must be >= 0")
    if size > length:
        raise ShapeError(
            f"maximum size for tensor at dimension {axis} is {length} but size is "
            f"{short_repr(size)}"
        )
    if step <= 0:
        raise ShapeError(f"step is {step} but must be > 0")
    return axis, size, step


@windows.batches
def _(op: Op, operands: tuple[Any, ...], attributes: tuple[Any, ...], level: int) -> Any:
    if operands[0]._layout.shape:
        return along_axes(op, operands, attributes, level)
    dimension, size, step = attributes
    normalize_axis("unfold", dimension, 0)
    return op.general((operands[0].value.reshape(-1, 1),), (1, size, step)).squeeze(1)


@windows.array
def _(backend: Backend, array: Any, dimension: int, size: int, step: int) -> Any:
    shape, strides = list(array.shape), list(array.strides)
    if not shape:
        return backend.as_strided(array, (size,), (array.dtype.itemsize,))
    strides.append(strides[dimension])
    shape.append(size)
    strides[dimension] *= step
    shape[dimension] = (shape[dimension] - size) // step + 1
    return backend.as_strided(array, shape, strides)


@windows.vjp("input")
def _(g: Tensor, input_layout: Layout, dimension: int, size: int, step: int) -> Any:
    shape = input_layout.shape
    if not shape:
        return g.sum()
    count = g._layout.shape[dimension]
    places = np.arange(count)[:, None] * step + np.arange(size)
    flat = g.movedim(-1, dimension + 1).flatten(dimension, dimension + 1)
    whole: Any = zeros(shape, dtype=g._layout.dtype, device=g._layout.device)
    return whole.index_add(dimension, _on_device(places.reshape(-1), g), flat)


def _on_device(places: np.ndarray[Any, Any], like: Tensor) -> Tensor:
    return from_array(places).to(like._layout.device)


@view_op("nowhere", known_as="as_strided")
def strided(input: Tensor, size: Shape, stride: Shape, start: int) -> Tensor:
    """Return a view of the memory of input with this size and stride. The view begins `start`
    elements after the first element of input.
    """


@strided.array
def _(backend: Backend, array: Any, size: Shape, stride: Shape, start: int) -> Any:
    item = array.dtype.itemsize
    return backend.as_strided(array, size, [n * item for n in stride], start * item)


def _places(shape: Shape, strides: Shape, start: int) -> Any:
    """Return the position of each element in memory, in units of elements."""
    places = np.full(shape, start, np.int64)
    for axis, (n, step) in enumerate(zip(shape, strides, strict=True)):
        places += (np.arange(n) * step).reshape([-1 if i == axis else 1 for i in range(len(shape))])
    return places.reshape(-1)


@strided.batches
def _(op: Op, operands: tuple[Any, ...], attributes: tuple[Any, ...], level: int) -> Any:
    value = operands[0].value
    if has_tangents((value,)):
        raise NeedsNumbers("vmap: as_strided: tangents lie in memory as they please")
    size, stride, start = attributes
    ndim = len(value._layout.shape)
    n, step = (part[-ndim] for part in _layout_in_memory(value))
    return op.general((value,), ((n, *size), (step, *stride), start))


def _layout_in_memory(input: Tensor) -> tuple[Shape, Shape]:
    """Return a tensor's shape and strides. A batch has no strides; for it, return the shape and
    strides of the tensor that holds the values of all calls, whose first axes are the batch axes.
    """
    layout = unbatched(input)._layout
    return layout.shape, layout.strides


@strided.vjp("input")
def _(g: Tensor, input_layout: Layout, size: Shape, stride: Shape, start: int) -> Any:
    own = _places(input_layout.shape, input_layout.strides, 0)
    seen = _places(size, stride, start)
    low = min(own.min(initial=0), seen.min(initial=0))
    length = int(max(own.max(initial=0), seen.max(initial=0)) - low + 1)
    memory: Any = zeros(length, dtype=g._layout.dtype, device=g._layout.device)
    memory = memory.index_add(0, _on_device(seen - low, g), g.reshape(-1))
    found = memory.index_select(0, _on_device(own - low, g)).reshape(input_layout.shape)
    # Elements of input at the same memory position get equal shares of the gradient there.
    several = np.bincount(own - low)[own - low].reshape(input_layout.shape)
    if several.max(initial=1) > 1:
        found = found / _on_device(several, g).to(g._layout.dtype)
    return found


_FAR = 1 << 58  # in elements; 16 bytes each at most, so this fits into int64 in bytes, too


@composite()
def as_strided(input: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
    """Return a view of the memory of input with this size and stride. storage_offset is the number
    of elements before the view in the memory; None means the offset of input.
    """
    shape, steps = tuple(all_of(size)), tuple(all_of(stride))
    _require_steps(shape, steps, storage_offset or 0)
    if any(n < 2 for n in shape):
        # NumPy ignores the strides of these axes, but requires that they, in bytes, fit into int64.
        pairs = zip(shape, steps, strict=True)
        steps = tuple([min(step, _FAR) if n < 2 or 0 in shape else step for n, step in pairs])
    if isinstance(input, Batched):
        own = unbatched(input).storage_offset()
        offset = own if storage_offset is None else storage_offset
        _require_own_room(input, shape, steps, offset)
    else:
        own, room = _place_in_memory(input)
        offset = own if storage_offset is None else storage_offset
        _require_room(shape, steps, offset, room, input._layout.dtype.itemsize)
        _require_tangents(input, shape, steps, offset - own)
    seen: Tensor = strided.general((input,), (shape, steps, offset - own))
    _see_base_itself(seen)
    return seen


def _see_base_itself(seen: Tensor) -> None:
    """Replace the recorded steps from the base to a strided view by a single step from the base.
    An intermediate view may not cover all elements of the strided view.
    """
    of: Any = seen.value if isinstance(seen, LazyConjNeg) else seen
    extra = of._extra
    if extra is None or extra.base is None or extra.tangent_root is not None:
        return
    base, before = extra.base, None
    if base._layout.dtype is not of._layout.dtype:
        if not base._layout.dtype.is_complex or of._layout.dtype.is_complex:
            return
        before = ViewSteps(None, (OPS["view_as_real"], ()))
    start = base.storage_offset() * base.itemsize // of.itemsize
    step = (strided, (of._layout.shape, of._layout.strides, of.storage_offset() - start))
    extra.replay = ViewSteps(before, step)
    # The array is made from the base: an expanded view is read-only, but its base may be writable.
    of._array = replay_array(base._array, of._layout.device, extra.replay)


def _require_own_room(input: Tensor, shape: Shape, steps: Shape, offset: int) -> None:
    """Raise RuntimeError if a view of a batch would give one call access to elements outside its
    own tensor, such as elements of other calls.
    """
    base, ndim = unbatched(input), len(input._layout.shape)
    lengths, strides = (part[len(part) - ndim :] for part in _layout_in_memory(input))
    first = base.storage_offset()
    last = _end(lengths, strides, first) - 1
    end = _end(shape, steps, offset) - 1
    if 0 not in shape and (offset < first or end > last):
        raise RuntimeError(
            f"result = tensor.as_strided({list(shape)}, {list(steps)}, {offset}) can access memory "
            f"outside of `tensor`. `result` can access some memory in range [{offset}, {end}], but "
            f"`tensor` can only access some memory in range [{first}, {last}]. This is not "
            "supported inside of vmap, please try to rewrite the `as_strided` call as a sequence "
            "of PyTorch view operations"
        )


def _end(shape: Shape, strides: Shape, start: int) -> int:
    """Return the position after the last element of a view that begins at start."""
    return start + 1 + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))


def _require_steps(shape: Shape, steps: Shape, offset: int) -> None:
    if len(shape) != len(steps):
        raise ShapeError(
            f"mismatch in length of strides and shape: {len(steps)} strides for {len(shape)} axes"
        )
    if any(step < 0 for step in steps):
        raise ShapeError(
            "as_strided: Negative strides are not supported at the moment, got strides: "
            f"{short_repr(list(steps))}"
        )
    if any(step >> 63 for step in (*steps, offset) if step >= 0):
        raise ShapeError(
            f"as_strided: strides {short_repr(list(steps))} or offset {short_repr(offset)} out of "
            "range: int64 does not hold them"
        )
    if offset < 0 or any(n < 0 for n in shape):
        raise ShapeError(
            f"as_strided: sizes {short_repr(list(shape))} and offset {short_repr(offset)} must "
            "not be below 0"
        )


def _require_room(shape: Shape, steps: Shape, offset: int, room: int, item: int) -> None:
    needed = _end(shape, steps, offset)
    if 0 not in shape and needed > room:
        raise ShapeError(
            f"setStorage: sizes {list(shape)}, strides {list(steps)}, storage offset {offset}, and "
            f"itemsize {item} requiring a storage size of {needed * item} are out of bounds for "
            f"storage of size {room * item}"
        )


def _require_tangents(input: Tensor, shape: Shape, steps: Shape, start: int) -> None:
    """Raise RuntimeError if the view covers elements for which a tangent has no value. Tangents
    have separate memory without gaps.
    """
    lengths, strides = input._layout.shape, input._layout.strides
    for level in levels_of((input,)):
        tangent: Any = tangent_of(input, level)
        own, room = _place_in_memory(tangent)
        apart = zip(lengths, strides, tangent._layout.strides, strict=True)
        lies_so = all(n < 2 or one == other for n, one, other in apart)
        first = own + start
        if 0 not in shape and not (lies_so and first >= 0 and _end(shape, steps, first) <= room):
            raise GraphError(
                f"as_strided: tensor of shape {lengths} and strides {strides} has a tangent of "
                f"strides {tangent._layout.strides}, which has no number for each place in "
                "between: "
                "make_dual of a tensor without gaps, or index instead"
            )


def _place_in_memory(input: Tensor) -> tuple[int, int]:
    """Return input's offset in its memory, and the position after the last element of its base,
    both in elements.
    """
    base = input
    while base._extra is not None and base._extra.base is not None:
        base = base._extra.base
    layout = base._layout
    if not layout.numel:
        return 0, 0
    end = _end(layout.shape, layout.strides, base.storage_offset()) * layout.dtype.itemsize
    return input.storage_offset(), end // input._layout.dtype.itemsize
