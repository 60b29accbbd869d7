"""`x[...]`: views for integers and slices, copies for tensors of indices."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.device import CPU
from ...core.dtypes import DType, bool_, int64
from ...core.errors import DTypeError, ShapeError, VersionError
from ...core.folded_frames import fold, private_cause
from ...core.short_repr import short_repr
from ...core.torch_function import NOT_TAKEN, is_offered, offer, offer_to_mode
from ...devices.backend import backend_of
from ...dispatch.composite import composite, late
from ...dispatch.declaration import node_named
from ...dispatch.inplace import copy_, may_write_at_once, overwrite, value_of
from ...dispatch.op import PLAIN
from ...dispatch.structured import Plan, structured
from ...dispatch.tangents import is_differentiated
from ...graph.inplace_history import require_may_change
from ...graph.lazy_conj_neg import LazyConjNeg, write_through
from ...graph.modes import modes
from ...graph.tensor_tangents import zeros_like
from ...interpreters.batch_loop import writable_copy
from ...interpreters.batched_tensor import Batched, levels
from ...interpreters.tracing import active_recorder, traced
from ...tensor.axes import DimError
from ...tensor.broadcast import broadcast_shapes
from ...tensor.constants import as_operand, placed
from ...tensor.layout import Layout, Shape
from ...tensor.storage import storage_of
from ...tensor.tensor import Tensor, from_array
from ...tensor.writable import may_overlap, shares_memory
from .. import late_ops
from ..shape.basic_index import basic_index, is_near, kept_view
from .batched_index import assign_batch, indexed_batch
from .index_entries import TakenOver, axes_of, from_list, split_index
from .indexing import select_slices
from .quick_writes import BASIC, makes_a_view, write_at_once, write_quickly


class Places:
    """The positions that index tensors select: for each axis an array, or None for the whole axis.

    Note    stores the versions of the tensors, because a backward pass must not use changed indices
    """

    __slots__ = ("arrays", "shape", "sources")

    def __init__(self, entries: tuple[Any, ...], of: Layout) -> None:
        tensors = [entry for entry in entries if isinstance(entry, Tensor)]
        self.sources = [(one, storage_of(one), storage_of(one).version) for one in tensors]
        # Indices may be on the CPU, for example if they come from a mask. They are copied to the
        # device of the data.
        self.arrays = tuple([None if e is None else e.to(device=of.device)._array for e in entries])
        self.shape = _indexed_shape(self.arrays, of.shape)

    def require_unchanged(self) -> None:
        """Raise RuntimeError if an index tensor has been changed in place."""
        for tensor, storage, version in self.sources:
            if storage.version != version:
                raise VersionError(
                    "one of the variables needed for gradient computation has been modified by an "
                    f"inplace operation: an index of shape {tensor._layout.shape} is at version "
                    f"{storage.version}; expected version {version} instead."
                )


def _indexed_shape(arrays: tuple[Any, ...], shape: Shape) -> Shape:
    """Return the shape of x[arrays]. The axes of the indices replace the indexed axes if
    the indexed axes are adjacent; otherwise, the axes of the indices come first.
    """
    used = [i for i, array in enumerate(arrays) if array is not None]
    shapes = [tuple(arrays[i].shape) for i in used]
    try:
        met = broadcast_shapes("index", shapes)
    except ShapeError as error:
        raise DimError(
            "shape mismatch: indexing tensors could not be broadcast together with shapes "
            f"{', '.join(str(list(one)) for one in shapes)}"
        ) from private_cause(error)
    rest = [n for i, n in enumerate(shape) if i >= len(arrays) or arrays[i] is None]
    adjoining = used == list(range(used[0], used[-1] + 1))
    lead = used[0] if adjoining else 0
    return (*rest[:lead], *met, *rest[lead:])


@structured(
    "index.indexing.take",
    linear=True,
    fresh=True,
    homes="nowhere",
    known_as="index",
    takes_complex=True,
)
def take_places(input: Tensor, places: Places) -> Tensor:
    """Return a copy of the elements of input at places."""


@take_places.plan
def _(input: Tensor, places: Places) -> Plan:
    return Plan(places.shape, input._layout.dtype, (places.arrays,))


@take_places.vjp("input")
def _(g: Tensor, input_layout: Layout, places: Places) -> Any:
    places.require_unchanged()
    return put_zeros.general((g,), (input_layout.shape, places))


@structured(
    "index.indexing.put_zeros",
    linear=True,
    fresh=True,
    homes="nowhere",
    known_as="index_put",
    takes_complex=True,
)
def put_zeros(input: Tensor, shape: Shape, places: Places) -> Tensor:
    """Return zeros of the given shape, plus input at places: the adjoint of take_places."""


@put_zeros.plan
def _(input: Tensor, shape: Shape, places: Places) -> Plan:
    return Plan(shape, input._layout.dtype, (places.arrays,))


@put_zeros.vjp("input")
def _(g: Tensor, places: Places) -> Any:
    return take_places.general((g,), (places,))


@structured(
    "index.indexing.replace", fresh=True, homes="nowhere", known_as="index_put", takes_complex=True
)
def put_places(input: Tensor, src: Tensor, places: Places, accumulate: bool) -> Tensor:
    """Return input with src written, or added, at places."""


@put_places.plan
def _(input: Tensor, src: Tensor, places: Places, accumulate: bool) -> Plan:
    return Plan(input._layout.shape, input._layout.dtype, (places.arrays, accumulate))


@put_places.vjp("input")
def _(g: Tensor, places: Places, accumulate: bool) -> Any:
    places.require_unchanged()
    if accumulate:
        return g * 1
    return put_places.general((g, from_array(as_operand(0, g._layout.dtype))), (places, False))


@put_places.vjp("src")
def _(g: Tensor, places: Places) -> Any:
    places.require_unchanged()
    return take_places.general((g,), (places,))


@put_places.jvp
def _(input: Tensor, input_t: Any, src: Any, src_t: Any, places: Places, accumulate: bool) -> Any:
    base = zeros_like(input) if input_t is None else input_t
    return put_places.general(
        (base, zeros_like(src) if src_t is None else src_t), (places, accumulate)
    )


_INDEXED = node_named("index")


def subscript(input: Tensor, index: Any) -> Tensor:
    """Return `input[index]`: a view for integers, slices, None and `...`, a copy for tensors."""
    try:
        kind = index.__class__
        if modes.tracers:
            found = offer_to_mode(Tensor.__getitem__, (input, index), {})
            if found is not NOT_TAKEN:
                return found  # type: ignore[no-any-return]
        if kind is int or index is None:
            # An integer is the most frequent index, such as in loops. This is `kept_view`, inlined.
            key: tuple[Any, ...] = (basic_index, index)
            if input.__class__ in modes.plain:
                route = input._layout.routes.get(key)
                if route is not None:
                    return basic_index.again(input, route)
            return view_at(input, (index, Ellipsis), key if is_near(index) else None)
        if (
            kind is slice
            and index.step is None
            and BASIC.issuperset((index.start.__class__, index.stop.__class__))
        ):
            key = (basic_index, index.start, index.stop, 0)
            if (route := kept_view(input, key)) is not None:
                return basic_index.again(input, route)
            is_kept = is_near(index.start) and is_near(index.stop)
            return view_at(input, (index, Ellipsis), key if is_kept else None)
        if kind is tuple and input.__class__ in modes.plain:
            seen = _seen_by(input, index)
            if seen is not None:
                return seen
        if kind is list:
            index = from_list(index)
        if modes.tracers:
            found = indexed_batch(input, index) if levels.depth else NOT_TAKEN
            if found is not NOT_TAKEN:
                return found  # type: ignore[no-any-return]
            recorder = active_recorder()
            if recorder is not None:
                return traced(recorder, "__getitem__", subscript, (input, index))  # type: ignore[no-any-return]
        if index.__class__ in PLAIN and input.__class__ in modes.plain:
            rows = _rows_at(input, index)
            if rows is not None:
                chosen: Tensor = select_slices(*rows, 0)
                if chosen._edge is not None:
                    chosen._edge._called = _INDEXED
                return chosen
        try:
            basic, entries = split_index(input, index)
        except TakenOver:
            return offer(Tensor.__getitem__, (input, index), {})  # type: ignore[no-any-return]
        if basic or entries is None:
            input = view_at(input, basic or (Ellipsis,))
        if entries is None:
            return input
        return take_places.general((input,), (Places(entries, input._layout),))  # type: ignore[no-any-return]
    except Exception as error:
        fold(error)
        raise


_ALL = slice(None)


def _seen_by(input: Tensor, index: tuple[Any, ...]) -> Tensor | None:
    """Return input[index] of a plain tensor if the result is a view; None for other indices."""
    if len(index) == 2 and index[0].__class__ is slice and index[0] == _ALL:
        column = index[1]
        key: tuple[Any, ...] = ()
        if column.__class__ is int:
            # The key under which `select(1, column)` is cached.
            key, is_kept = (basic_index, 1, column), is_near(column)
        elif column.__class__ is slice and column.step is None:
            start, stop = column.start, column.stop
            if BASIC.issuperset((start.__class__, stop.__class__)):
                key, is_kept = (basic_index, start, stop, 1), is_near(start) and is_near(stop)
        if key:
            if (route := input._layout.routes.get(key)) is not None:
                return basic_index.again(input, route)
            return view_at(input, index, key if is_kept else None)
    return view_at(input, index) if makes_a_view(index) else None


def _rows_at(input: Tensor, index: Tensor) -> tuple[Tensor, Tensor] | None:
    """Return a tensor and a vector of indices: the slices of the tensor at these indices along axis
    0 are input[index]. Return None if index is of another kind.
    """
    layout, found = input._layout, index._layout
    if layout.device is not CPU or found.device is not CPU or not layout.numel:
        return None
    if found.dtype is int64:
        places = index._array
        # Negative indices are not handled here.
        if len(found.shape) == 1 and found.numel and layout.shape:
            return (input, index) if places.item(places.argmin()) >= 0 else None
    elif found.dtype is bool_ and found.shape == layout.shape and layout.shape:
        return input.reshape(-1), from_array(index._array.ravel().nonzero()[0])
    return None


def view_at(input: Tensor, basic: tuple[Any, ...], key: Any = None) -> Tensor:
    """Return the view of input that integers, slices, None and `...` select; for key see `at`."""
    try:
        if Ellipsis not in basic:
            # With an Ellipsis NumPy returns a 0-d view, never a scalar.
            basic = (*basic, Ellipsis)
        return basic_index.at(input, basic, key)
    except (IndexError, OverflowError) as error:
        raise _explained(input, basic) from private_cause(error)


def _explained(input: Tensor, basic: tuple[Any, ...]) -> Exception:
    shape = input._layout.shape
    wanted = [one for one in basic if one is not None and one is not Ellipsis]
    if not shape:
        return DimError(
            "invalid index of a 0-dim tensor. Use `tensor.item()` to convert a 0-dim tensor to a "
            "number"
        )
    if len(wanted) > len(shape):
        return DimError(
            f"too many indices for tensor of dimension {len(shape)}: its shape is {shape}"
        )
    axis = 0
    for one in basic:
        if one is Ellipsis:
            axis += len(shape) - len(wanted)
        elif one is not None:
            if isinstance(one, int) and not -shape[axis] <= one < shape[axis]:
                break
            axis += 1
    return DimError(
        f"index {short_repr(one)} is out of bounds for dimension {axis} with size {shape[axis]}"
    )


def subscript_assign(self: Tensor, index: Any, value: Any) -> None:
    """Do `self[index] = value`, where value, a tensor or a number, is broadcast."""
    try:
        if modes.tracers:
            found = offer_to_mode(Tensor.__setitem__, (self, index, value), {})
            if found is not NOT_TAKEN:
                return
        if (
            (index.__class__ is int or (index.__class__ is slice and index.step is None))
            and value.__class__ in PLAIN
            and value._layout.dtype is self._layout.dtype
            and value._layout.device is CPU
            and may_write_at_once(self, value)
            and not shares_memory(self, value)
            and write_at_once(self._array, index, value._array)
        ):
            storage_of(self).bump()
            return
        if may_write_at_once(self) and write_quickly(self, index, value):
            storage_of(self).bump()
            return
        if index.__class__ is list:
            index = from_list(index)
        if modes.tracers:
            if levels.depth and assign_batch(self, index, value):
                return
            recorder = active_recorder()
            if recorder is not None:
                traced(recorder, "__setitem__", subscript_assign, (self, index, value))
                return
        if self._layout.is_sparse:
            raise TypeError("Cannot assign to a sparse tensor: make one of other entries")
        try:
            if is_offered(value):
                raise TakenOver
            basic, entries = split_index(self, index)
        except TakenOver:
            offer(Tensor.__setitem__, (self, index, value), {})
            return
        part = view_at(self, basic) if basic else self
        if entries is None:
            copy_(part, _fitted(value, part._layout.shape))
            return
        put_inplace(part, Places(entries, part._layout), value, accumulate=False)
    except Exception as error:
        fold(error)
        raise


def _fitted(value: Any, shape: Shape) -> Any:
    """Return value without additional leading axes of length 1, which PyTorch accepts."""
    if not isinstance(value, Tensor):
        if isinstance(value, list | tuple):
            from ..create.creation import tensor

            value = tensor(value)
        else:
            return value
    extra = len(value._layout.shape) - len(shape)
    if extra > 0 and all(n == 1 for n in value._layout.shape[:extra]):
        return value.reshape(value._layout.shape[extra:])
    return value


def put_inplace(target: Tensor, places: Places, value: Any, *, accumulate: bool) -> Tensor:
    """Write value into target at places or, if accumulate is true, add value at places."""
    from ..create.allocation import number_like

    if isinstance(target, LazyConjNeg):
        return write_through(
            target, lambda numbers: put_inplace(numbers, places, value, accumulate=accumulate)
        )
    require_may_change(target)
    dtype: DType = target._layout.dtype
    value = _fitted(value, places.shape)
    if not isinstance(value, Tensor):
        value = number_like(target, value, placed)
    elif value._layout.dtype is not dtype:
        if value._layout.numel != 1:
            raise DTypeError(
                "Index put requires the source and destination dtypes match, got "
                f"{dtype.name} for the destination and {value._layout.dtype.name} for the source."
            )
        value = value.to(dtype)
    if broadcast_shapes("index_put", [value._layout.shape, places.shape]) != places.shape:
        raise ShapeError(
            f"shape mismatch: value tensor of shape {list(value._layout.shape)} cannot be "
            "broadcast "
            f"to indexing result of shape {list(places.shape)}"
        )
    if is_differentiated(target, value):
        old = value_of(target, (value,))
        return overwrite(
            "index_put_", target, put_places.general((old, value), (places, accumulate))
        )
    if value is target or shares_memory(target, value) or _is_alias(value._array, target):
        value = value.clone()  # value must not change while the kernel reads it
    backend = backend_of(target._layout.device.type)
    array = value._array
    if value._layout.device is not target._layout.device:
        array = backend.from_numpy(value.to_numpy(), target._layout.device.index)
    kernel = backend.kernel("index.indexing.put", 1 if target._layout.dtype.is_half else None)
    read = [
        one.copy() if one is not None and _is_alias(one, target) else one for one in places.arrays
    ]
    kernel(array, target._array, read, accumulate)
    storage_of(target).bump()
    return target


def _is_alias(array: Any, target: Tensor) -> bool:
    """Return whether a CPU array may share memory with a tensor, for example by from_numpy."""
    return array.__class__ is np.ndarray and may_overlap(array, target._array)


def _with_axes(indices: Any) -> tuple[Any, ...]:
    # A 0-d tensor would count as a basic index, like an integer.
    return tuple(
        [
            index.reshape(1) if isinstance(index, Tensor) and not index._layout.shape else index
            for index in indices
        ]
    )


def _places_from(indices: Any, input: Tensor) -> Places:
    basic, entries = split_index(input, _with_axes(indices))
    if entries is None or basic:
        raise DimError("index_put: indices must be tensors of int64, int32 or bool")
    return Places(entries, input._layout)


@composite(homes="method")
def index_put_(input: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    """Write values into input[indices] or, if accumulate is true, add them; return input."""
    if levels.depth and assign_batch(input, _with_axes(indices), values, accumulate=accumulate):
        return input
    return put_inplace(input, _places_from(indices, input), values, accumulate=accumulate)


@composite(node="index_put")
def index_put(input: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    """Return a copy of input with values written, or added, at indices."""
    base = writable_copy(input, (values, *indices)) if levels.depth else input.clone()
    return index_put_(base, indices, values, accumulate)


@composite(out="same", node="masked_select", memory="outside of first")
def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """Return the elements of input where mask is true, as a vector. On a GPU, this waits for the
    number of these elements.

    Args:
        input: A tensor of any shape and dtype.
        mask: A tensor of bool that broadcasts with input.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> x = torch.tensor([-1, 2, 3])
        >>> torch.masked_select(x, x > 0)
        tensor([2, 3])
    """
    if mask._layout.dtype is not bool_:
        raise DTypeError("masked_select: expected BoolTensor for mask")
    shape = broadcast_shapes("masked_select", [input._layout.shape, mask._layout.shape])
    return subscript(input.expand(shape), mask.expand(shape))


@composite(out="same", quick=late(f"{__package__}.few_nonzero", "nonzero_of_few"))
def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
    """Return the indices of nonzero elements. On a GPU, this waits for the number of elements.

    Raises  TypeError if input is not a tensor

    Args:
        input: A tensor of any dtype. NaN counts as nonzero; a 0-d tensor gives rows without
            columns.
        as_tuple: Whether to return one tensor for each axis instead of one row for each element.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of int64 of shape (count, number of axes), or a tuple of tensors of shape (count,).

    Example:
        >>> torch.nonzero(torch.tensor([[0, 1], [2, 0]]))
        tensor([[0, 1],
                [1, 0]])
    """
    if not as_tuple:
        return _rows_that_hold(input)
    if input._layout.device is not CPU:
        return tuple(_columns_that_hold(input))
    columns = np.nonzero(np.atleast_1d(input.to_numpy()))
    return tuple([from_array(np.ascontiguousarray(c)) for c in columns])


def _columns_that_hold(input: Tensor) -> list[Tensor]:
    from .searchsorted import places_that_hold

    return axes_of(places_that_hold(input), input._layout.shape)


def _rows_that_hold(input: Tensor) -> Any:
    from ..shape.joining import stack

    if input._layout.device is CPU:
        return from_array(np.argwhere(input.to_numpy()))
    rows: Any = stack(_columns_that_hold(input), 1)
    return rows if input._layout.shape else rows[:, :0]


@composite(out="same")
def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """Return `size` rows: the indices of the first nonzero elements, then rows of fill_value."""
    if size < 0:
        raise ShapeError("nonzero_static: 'size' must be an non-negative integer")
    from ..create.creation import full
    from ..create.ranges import arange
    from ..shape.joining import stack
    from .searchsorted import searchsorted

    layout = input._layout
    if layout.device is CPU and input.__class__ is not Batched:
        found = _rows_that_hold(input)[:size]
        count, axes = found._layout.shape
        rows: Any = full((size, axes), fill_value, dtype=int64)
        rows[:count] = found
        return rows  # type: ignore[no-any-return]
    holds: Any = input.detach().reshape(-1) != 0
    if not holds._layout.numel or not layout.shape:
        return full((size, len(layout.shape)), fill_value, dtype=int64, device=layout.device)
    # The k-th index is the first at which the cumulative sum reaches k. This computation does not
    # wait for a device.
    wanted = arange(1, size + 1, device=layout.device)
    places = searchsorted(holds.cumsum(0), wanted)
    columns = stack(axes_of(places.clamp(max=layout.numel - 1), layout.shape), 1)
    is_found = (places < layout.numel).unsqueeze(1)
    return late_ops.where(is_found, columns, fill_value)


@composite()
def argwhere(input: Tensor) -> Tensor:
    """Return the indices of nonzero elements, one row for each element."""
    return nonzero(input)  # type: ignore[no-any-return]
