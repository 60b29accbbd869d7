"""Joining tensors along an axis: cat, stack, hstack, vstack, dstack, and adding axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from ...core.device import CPU
from ...core.dtypes import DType
from ...core.errors import ShapeError
from ...core.folded_frames import fold
from ...core.torch_function import NOT_TAKEN, offer
from ...devices.backend import Result, backend_of
from ...dispatch.composite import before, composite
from ...dispatch.op import common_device
from ...dispatch.target import GivenOut, store_in_out
from ...graph.call_node import CallNode
from ...graph.modes import modes, tls
from ...graph.node import next_sequence_number
from ...graph.recording import begin_node
from ...graph.tensor_tangents import levels_of, set_tangent, tangent_of, zeros_like
from ...graph.unbroadcast import cast_array, reduce_recorded
from ...interpreters.batching import joined_batch
from ...interpreters.sparse_rules import RULES, is_sparse, refusal
from ...tensor.axes import normalize_axis
from ...tensor.layout import Layout
from ...tensor.promotion import result_dtype
from ...tensor.tensor import Tensor, empty_shell, layout_of, wrap
from ..channels_last import common_order
from .splitting import narrow, select


class CatBackward0(CallNode):
    """The Node of `cat`: each of the joined tensors gets its part of the gradient."""

    __slots__ = ()
    saved_names = ("axis", "layouts")
    axis: int
    layouts: tuple[Layout, ...]

    def __init__(
        self, tensors: Sequence[Tensor], layouts: Sequence[Layout], result: Layout, axis: int
    ) -> None:
        edges = tuple([tensor._edge for tensor in tensors])
        if modes.tracers or result.device is not CPU:
            begin_node(self, edges, result)
        else:
            # The same as begin_node, inlined.
            self.seq, self.hooks = next_sequence_number(), None
            self.edges, self.output_layout = edges, result
        self.layouts, self.axis = tuple(layouts), axis

    def apply(self, g: Tensor, keep: bool) -> tuple[Any, ...]:
        """Return each tensor's part of g, as a view."""
        found: list[Any] = []
        start = 0
        for edge, layout in zip(self.edges, self.layouts, strict=True):
            length = layout.shape[self.axis] if layout.shape != (0,) else 0
            if edge is None:
                found.append(None)
            elif layout.shape == (0,):
                found.append(_nothing(layout))
            else:
                part = g[(slice(None),) * self.axis + (slice(start, start + length), ...)]
                found.append(cast_array(part, self.output_layout, layout))
            start += length
        return tuple(found)

    def apply_recorded(self, g: Any, keep: bool) -> tuple[Any, ...]:
        """Return each tensor's part of g, as a Tensor."""
        found: list[Any] = []
        start = 0
        for edge, layout in zip(self.edges, self.layouts, strict=True):
            length = layout.shape[self.axis] if layout.shape != (0,) else 0
            if edge is None:
                found.append(None)
            elif layout.shape == (0,):
                found.append(wrap(_nothing(layout), layout))
            else:
                found.append(reduce_recorded(narrow(g, self.axis, start, length), layout))
            start += length
        return tuple(found)


class StackBackward0(CatBackward0):
    """The Node of `stack` on CPU tensors of one dtype: each gets the gradient at its index."""

    __slots__ = ()

    def apply(self, g: Tensor, keep: bool) -> tuple[Any, ...]:
        """Return each tensor's part of g, as a view."""
        before = (slice(None),) * self.axis
        parts = enumerate(self.edges)
        return tuple([None if edge is None else g[(*before, i, ...)] for i, edge in parts])

    def apply_recorded(self, g: Any, keep: bool) -> tuple[Any, ...]:
        """Return each tensor's part of g, as a Tensor."""
        parts = enumerate(self.edges)
        return tuple([None if edge is None else select(g, self.axis, i) for i, edge in parts])


def _nothing(layout: Any) -> Any:
    return backend_of(layout.device.type).empty((0,), layout.dtype.numpy, layout.device.index)


class Route(NamedTuple):
    """How NumPy joins CPU tensors of known layouts; `layout` is the layout of the result.

    If `rows` is empty, the tensors are copied one by one: the axes `order` of the result have the
    axis of the tensors in front. Otherwise NumPy concatenates them, into an array of the shape
    `rows` over the result, or into a new array if `rows` is None.
    """

    layout: Layout
    axis: int
    rows: tuple[int, ...] | None
    order: tuple[int, ...] = ()


_BY_COMPOSITE: Final[Any] = object()
_SEQUENCES: Final = frozenset({list, tuple})


_Find: TypeAlias = Callable[[Sequence[Layout], int], Route | None]


def _at_once(find: _Find, recorded: type[CatBackward0]) -> Callable[[Any], Any]:
    """Return a decorator, used with `before`, that joins plain tensors by the Route that `find`
    returns for their layouts and `dim`, and records the Node `recorded`. It is for lists and tuples
    only, because it would exhaust an iterator.
    """

    def decorate(general: Any) -> Any:
        def join(*args: Any, **named: Any) -> Any:
            try:
                tensors, dim = _BY_COMPOSITE, 0
                if not named:
                    if len(args) == 1:
                        (tensors,) = args
                    elif len(args) == 2:
                        tensors, dim = args
                elif len(args) == len(named) == 1 and "dim" in named:
                    (tensors,), dim = args, named["dim"]
                if tensors.__class__ not in _SEQUENCES or dim.__class__ is not int or not tensors:
                    return general(*args, **named)
                plain, layouts, arrays, has_edge = modes.plain, [], [], False
                for tensor in tensors:
                    if tensor.__class__ not in plain:
                        return general(*args, **named)
                    layouts.append(tensor._layout)
                    arrays.append(tensor._array)
                    if tensor._edge is not None:
                        has_edge = True
                key = (general, dim, *layouts)
                route = None if layouts[0].is_sparse else layouts[0].routes.get(key)
                if route is None:
                    route = _find_route(find, key, layouts, dim)
                if route is _BY_COMPOSITE:
                    return general(*args, **named)
                layout, axis, rows, order = route
                out = empty_shell()
                if rows is None:
                    out._array = np.concatenate(arrays, axis)
                else:
                    out._array = array = np.empty(layout.shape, layout.dtype.numpy)
                    if rows:
                        np.concatenate(arrays, axis, array.reshape(rows))
                    else:
                        array = array.transpose(order) if order else array
                        for i, one in enumerate(arrays):
                            array[i] = one
                out._layout = layout
                out._edge = out._extra = out._storage = None
                if has_edge and (not modes.grad_off or tls.grad):
                    out._edge = recorded(tensors, layouts, layout, axis)
                return out
            except Exception as error:
                fold(error)
                raise

        return join

    return decorate


def _find_route(find: _Find, key: Any, layouts: Sequence[Layout], dim: int) -> Any:
    """Return the Route for these layouts and remember it under `key`; _BY_COMPOSITE if there is
    none.
    """
    if any(layout.is_sparse for layout in layouts):
        return _BY_COMPOSITE
    return layouts[0].routes.remember(key, find(layouts, dim) or _BY_COMPOSITE)


# If tensors have gaps in memory, NumPy joins them only up to this number of elements. NumPy has
# less overhead per call, but the kernel copies many elements faster.
_FEW: Final = 1 << 14
# For fewer tensors, copying one after another takes less time than a call of np.concatenate.
_SEVERAL: Final = 5


def _are_alike(layouts: Sequence[Layout]) -> bool:
    """Return whether all layouts are on the CPU with one dtype, and `cat` returns C order."""
    first = layouts[0]
    return (first.contiguous or common_order(layouts) is None) and all(
        one.device is CPU and one.dtype is first.dtype for one in layouts
    )


def _cat_route(layouts: Sequence[Layout], dim: int) -> Route | None:
    """Return the Route of `cat`; None for empty vectors, many elements with gaps, and mistakes."""
    first = layouts[0]
    axes = len(first.shape)
    if not -axes <= dim < axes or not _are_alike(layouts):
        return None
    axis, shapes = dim % axes, [one.shape for one in layouts]
    around = first.shape[:axis], first.shape[axis + 1 :]
    if (0,) in shapes or any((one[:axis], one[axis + 1 :]) != around for one in shapes):
        return None
    shape = (*around[0], sum(one[axis] for one in shapes), *around[1])
    layout = Layout.of(first.dtype, CPU, shape)
    if all(one.contiguous for one in layouts):
        return Route(layout, axis, None)
    # If tensors have gaps, NumPy might choose another memory order, so it gets the result array.
    return Route(layout, axis, shape) if layout.numel <= _FEW else None


@before(_at_once(_cat_route, CatBackward0))
@composite(homes="function")
def cat(tensors: Sequence[Tensor], dim: int = 0, *, out: GivenOut = None) -> Tensor:
    """Return tensors joined along the axis dim; their shapes may differ only in that axis.

    Dtype   the dtype to which all tensors promote
    Raises  RuntimeError if an axis other than dim differs in length, or if there are no tensors;
            IndexError if dim is out of range

    Args:
        tensors: A list or tuple of tensors.
        dim: The axis along which to join.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.cat([torch.tensor([[1, 2]]), torch.tensor([[3, 4]])], dim=0)
        tensor([[1, 2],
                [3, 4]])
    """
    given = tuple(tensors)
    if not given:
        raise ShapeError("torch.cat(): expected a non-empty list of Tensors")
    if not modes.plain.issuperset(map(type, given)):
        found = offer(cat, (tensors,), {"dim": dim} if dim else {})
        if found is not NOT_TAKEN:
            return found  # type: ignore[no-any-return]
        found = joined_batch(given, dim, cat, out)
        if found is not NOT_TAKEN:
            return found  # type: ignore[no-any-return]
    if any(is_sparse(tensor) for tensor in given):
        if out is not None:
            raise refusal("cat.out", next(filter(is_sparse, given)))
        return RULES["cat"](given, dim)  # type: ignore[no-any-return]
    axis, shape = _joined_shape(given, dim)
    device = common_device(_NAMED, given)
    dtype: DType = result_dtype(given)
    backend = backend_of(device.type)
    order = None if given[0]._layout.contiguous else common_order([one._layout for one in given])
    array = Result(shape, dtype.numpy, shape, order).made_by(
        lambda sizes, kind: backend.empty(sizes, kind, device.index)
    )
    kernel = backend.kernel("shape.copying.cat")  # one kernel for all dtypes, because it casts
    start = 0
    for tensor in given:
        if tensor._layout.shape != (0,):
            kernel(tensor._array, array, axis, start)
            start += tensor._layout.shape[axis]
    result = wrap(array, layout_of(array, device))
    if dtype.may_have_gradient and tls.grad and any(tensor._edge is not None for tensor in given):
        layouts = [tensor._layout for tensor in given]
        result._edge = CatBackward0(given, layouts, result._layout, axis)
    _carry(result, given, axis)
    return store_in_out("cat", out, result, given, "cast", "outside")


class _Named:
    """A substitute for an op in calls of common_device, which reads only these attributes."""

    name = "cat"
    tensors = tuple(f"tensors[{i}]" for i in range(64))


_NAMED: Any = _Named()


def _joined_shape(tensors: Sequence[Tensor], dim: int) -> tuple[int, tuple[int, ...]]:
    shapes = [tensor._layout.shape for tensor in tensors]
    if () in shapes:
        raise ShapeError(
            f"zero-dimensional tensor (at position {shapes.index(())}) cannot be concatenated"
        )
    # As in PyTorch, an empty vector may be joined with tensors of any shape, so that a loop can
    # start with an empty vector.
    counted = [shape for shape in shapes if shape != (0,)]
    if not counted:
        return 0, (0,)  # any dim is accepted, as in PyTorch
    first = counted[0]
    axis = normalize_axis("cat", dim, len(first))
    total = 0
    for i, shape in enumerate(counted):
        if len(shape) != len(first):
            raise ShapeError(
                f"Tensors must have same number of dimensions: got {len(first)} and {len(shape)}"
            )
        for other, (n, m) in enumerate(zip(first, shape, strict=True)):
            if other != axis and n != m:
                raise ShapeError(
                    f"Sizes of tensors must match except in dimension {axis}. Expected size {n} "
                    f"but got size {m} for tensor number {i} in the list."
                )
        total += shape[axis]
    return axis, (*first[:axis], total, *first[axis + 1 :])


def _carry(result: Tensor, tensors: Sequence[Tensor], axis: int) -> None:
    for level in levels_of(tensors):
        parts = []
        for tensor in tensors:
            tangent = tangent_of(tensor, level)
            parts.append(zeros_like(tensor) if tangent is None else tangent)
        set_tangent(result, cat(parts, axis), level)


def _stack_route(layouts: Sequence[Layout], dim: int) -> Route | None:
    """Return the Route of `stack`; None for many elements that only the kernel copies fast."""
    first, count = layouts[0], len(layouts)
    shape, axes = first.shape, len(first.shape) + 1
    if not -axes <= dim < axes or any(one.shape != shape for one in layouts):
        return None
    # Results of tensors that are not contiguous may be in channels_last.
    if not first.contiguous or not _are_alike(layouts):
        return None
    axis = dim % axes
    is_few = count * first.numel <= _FEW
    layout = Layout.of(first.dtype, CPU, (*shape[:axis], count, *shape[axis:]))
    if axis == 0 and shape and not (is_few and count < _SEVERAL):
        is_gapless = all(one.contiguous for one in layouts)
        rows = (count * shape[0], *shape[1:])
        return Route(layout, axis, rows) if is_few or is_gapless else None
    order = (axis, *range(axis), *range(axis + 1, axes)) if axis else ()
    return Route(layout, axis, (), order) if is_few else None


@before(_at_once(_stack_route, StackBackward0))
@composite(homes="function", node="stack")
def stack(tensors: Sequence[Tensor], dim: int = 0, *, out: GivenOut = None) -> Tensor:
    """Return tensors of one shape joined along a new axis at dim.

    Raises  RuntimeError if there are no tensors, or their shapes differ; IndexError if dim is out
            of range

    Args:
        tensors: A list or tuple of tensors of one shape.
        dim: The position of the new axis in the result.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor with a new axis, whose length is the number of tensors. The dtype of the result is
        the dtype to which all tensors promote.

    Example:
        >>> torch.stack([torch.tensor([1, 2]), torch.tensor([3, 4])], dim=1)
        tensor([[1, 3],
                [2, 4]])
    """
    given = tuple(tensors)
    if not given:
        raise RuntimeError("stack expects a non-empty TensorList")
    found = offer(stack, (tensors,), {"dim": dim} if dim else {})
    if found is not NOT_TAKEN:
        return found  # type: ignore[no-any-return]
    for i, tensor in enumerate(given):
        if tensor._layout.shape != given[0]._layout.shape:
            raise ShapeError(
                "stack expects each tensor to be equal size, but got "
                f"{list(given[0]._layout.shape)} at entry 0 and {list(tensor._layout.shape)} at "
                f"entry {i}"
            )
    axis = _new_axis(given[0], dim)
    if (
        not given[0]._layout.contiguous
        and axis < len(given[0]._layout.shape)
        and common_order([tensor._layout for tensor in given]) is not None
        and out is None
    ):
        # The tensors are in channels_last. `cat` along the existing axis keeps that order, and the
        # view splits that axis into the new axis and the old one.
        return cat(given, axis).unflatten(axis, (len(given), given[0]._layout.shape[axis]))
    return cat([tensor.unsqueeze(axis) for tensor in given], axis, out=out)


def _new_axis(tensor: Tensor, dim: int) -> int:
    return normalize_axis("stack", dim, len(tensor._layout.shape) + 1)


@composite(homes="function", out="cast", memory="outside")
def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """Join tensors horizontally: vectors along axis 0, all others along axis 1."""
    given = [tensor.reshape(1) if not tensor._layout.shape else tensor for tensor in tensors]
    if not given:
        raise ShapeError("hstack expects a non-empty TensorList")
    return cat(given, 0 if len(given[0]._layout.shape) == 1 else 1)


@composite(homes="function", out="cast", memory="outside")
def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """Join tensors vertically: along axis 0, with vectors as rows."""
    return cat([t.reshape(1, -1) if len(t._layout.shape) < 2 else t for t in tensors], 0)


def _at_least(given: tuple[Any, ...], ndim: int) -> Any:
    if len(given) == 1 and isinstance(given[0], tuple | list):
        return tuple([_at_least((one,), ndim) for one in given[0]])
    made = []
    for one in given:
        while len(one._layout.shape) < ndim:
            one = one.unsqueeze(-1 if len(one._layout.shape) == 2 else 0)
        made.append(one)
    return made[0] if len(made) == 1 else tuple(made)


@composite(homes="function")
def atleast_1d(*tensors: Tensor | Sequence[Tensor]) -> Any:
    """Return tensors with at least one axis; a 0-d tensor gets an axis of length 1."""
    return _at_least(tensors, 1)


@composite(homes="function")
def atleast_2d(*tensors: Tensor | Sequence[Tensor]) -> Any:
    """Return tensors with at least two axes; a vector becomes a row."""
    return _at_least(tensors, 2)


@composite(homes="function")
def atleast_3d(*tensors: Tensor | Sequence[Tensor]) -> Any:
    """Return tensors with at least three axes; a matrix gets the third axis at the end."""
    return _at_least(tensors, 3)


@composite(homes="function", out="cast", memory="outside")
def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """Join tensors along the third axis."""
    return cat([_at_least((one,), 3) for one in tensors], 2)


@composite(homes="function", out="cast", memory="outside")
def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Join tensors as columns: along axis 1, with vectors as columns."""
    given = [one.reshape(-1, 1) if len(one._layout.shape) < 2 else one for one in tensors]
    return cat(given, 1)
