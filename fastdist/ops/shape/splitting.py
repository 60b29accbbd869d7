"""Views of parts of a tensor: narrow, select, split, chunk, unbind, tensor_split."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from ...core.device import CPU
from ...core.errors import ShapeError
from ...core.memory_format import contiguous_format
from ...core.sequences import all_of
from ...core.short_repr import short_repr
from ...core.torch_function import NOT_TAKEN
from ...devices.backend import backend_of
from ...dispatch.composite import composite
from ...dispatch.declaration import recorded_as
from ...dispatch.op import PLAIN
from ...graph.call_node import CallNode
from ...graph.modes import modes, tls
from ...graph.node import Edge, next_sequence_number
from ...graph.recording import begin_node
from ...graph.views import see_parts
from ...tensor.axes import normalize_axis
from ...tensor.constants import as_operand
from ...tensor.layout import Layout
from ...tensor.tensor import Tensor
from ...tensor.view_steps import ViewSteps
from .basic_index import basic_index, is_near
from .copying import place as place_op


@composite()
def tensor_split(
    input: Tensor, indices_or_sections: int | Sequence[int] | Tensor, dim: int = 0
) -> tuple[Tensor, ...]:
    """Return views of the parts of input along dim. If indices_or_sections is an int, it is the
    number of parts; if they cannot be equal, the first parts are longer by 1. Otherwise, it holds
    the indices at which the second and later parts begin.
    """
    if not input._layout.shape:
        raise ShapeError(
            "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims"
        )
    axis = normalize_axis("tensor_split", dim, len(input._layout.shape))
    length = input._layout.shape[axis]
    wanted = indices_or_sections
    if isinstance(wanted, Tensor):
        wanted = wanted.tolist()
    if hasattr(wanted, "__index__"):
        count = wanted.__index__()
        if count <= 0:
            raise ShapeError(f"number of sections must be larger than 0, got {short_repr(count)}")
        longer = length % count
        lengths = [length // count + 1] * longer + [length // count] * (count - longer)
        views: tuple[Tensor, ...] = split(input, lengths, axis)
        recorded_as("SliceBackward0", views[:1], ())  # names the one Node of all views
        return views
    ends = [0, *[slice(None, end).indices(length)[1] for end in all_of(wanted)], length]
    whole = (slice(None),) * axis
    return tuple([input[(*whole, slice(a, max(a, b)))] for a, b in itertools.pairwise(ends)])


def _split(name: str, input: Tensor, wanted: Any, axis: int, least: int) -> tuple[Tensor, ...]:
    shape = input._layout.shape
    if len(shape) < least:
        raise ShapeError(
            f"torch.{name} requires a tensor with at least {least} dimension, but got a tensor "
            f"with {len(shape)} dimensions!"
        )
    if hasattr(wanted, "__index__") and (wanted <= 0 or shape[axis] % wanted):
        raise ShapeError(
            f"torch.{name} attempted to split along dimension {axis}, but the size of the "
            f"dimension {shape[axis]} is not divisible by the split_size {short_repr(wanted)}!"
        )
    return tensor_split(input, wanted, axis)


@composite()
def hsplit(input: Tensor, indices_or_sections: int | Sequence[int] | Tensor) -> tuple[Tensor, ...]:
    """Return views of parts along the second axis, or along the only axis of a vector."""
    axis = 0 if len(input._layout.shape) == 1 else 1
    return _split("hsplit", input, indices_or_sections, axis, 1)


@composite()
def vsplit(input: Tensor, indices_or_sections: int | Sequence[int] | Tensor) -> tuple[Tensor, ...]:
    """Return views of parts along the first axis; input must have at least two axes."""
    return _split("vsplit", input, indices_or_sections, 0, 2)


@composite()
def dsplit(input: Tensor, indices_or_sections: int | Sequence[int] | Tensor) -> tuple[Tensor, ...]:
    """Return views of parts along the third axis."""
    return _split("dsplit", input, indices_or_sections, 2, 3)


@composite(node="split_with_sizes")
def split_with_sizes(input: Tensor, split_sizes: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Return views of the parts of input whose lengths along dim are split_sizes."""
    return split(input, list(split_sizes), dim)


@composite(out="same", node="narrow_copy")
def narrow_copy(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """Return a copy of `length` elements along dim, from index start on."""
    return narrow(input, dim, start, length).clone(memory_format=contiguous_format)


def _quick_narrow(input: Tensor, dim: int, start: int, length: int) -> Any:
    """Return a view if the Route of this call is cached, otherwise NOT_TAKEN."""
    if not dim.__class__ is start.__class__ is length.__class__ is int:
        return NOT_TAKEN
    if input.__class__ not in PLAIN:
        return NOT_TAKEN
    route = input._layout.routes.get(("narrow", dim, start, length))
    return NOT_TAKEN if route is None else basic_index.again(input, route)


@composite(quick=_quick_narrow)
def narrow(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """Return a view of `length` elements along dim, from index start on.

    Raises  IndexError if dim or start is out of range; RuntimeError if start + length is beyond the
            axis, or length is negative

    Args:
        input: A tensor of any dtype with at least one axis.
        dim: The axis to shorten; negative numbers count from the end.
        start: The first index, an int or a 0-d tensor; negative numbers count from the end of the
            axis.
        length: The number of indices, which may be 0; start + length must not exceed the axis.

    Example:
        >>> torch.narrow(torch.arange(5), 0, 1, 3)
        tensor([1, 2, 3])
    """
    if not input._layout.shape:
        raise ShapeError("narrow() cannot be applied to a 0-dim tensor.")
    axis = normalize_axis("narrow", dim, len(input._layout.shape))
    n = input._layout.shape[axis]
    if not -n <= start <= n:
        raise DimRange(
            f"start out of range (expected to be in range of [{-n}, {n}], but got {start})"
        )
    key = ("narrow", axis, start, length)
    start = start + n if start < 0 else start
    if length < 0:
        raise ShapeError(f"narrow(): length must be non-negative, got {length}.")
    if start + length > n:
        raise ShapeError(f"start ({start}) + length ({length}) exceeds dimension size ({n}).")
    index = (slice(None),) * axis + (slice(start, start + length), ...)
    return basic_index.at(input, index, key if is_near(start) and is_near(length) else None)


class DimRange(ShapeError, IndexError):
    """The error for an index that is out of range, or for a tensor without axes."""


def _quick_select(input: Tensor, dim: int, index: int) -> Any:
    """Return a view if the Route of this call is cached, otherwise NOT_TAKEN."""
    if dim.__class__ is not int or index.__class__ is not int or input.__class__ not in PLAIN:
        return NOT_TAKEN
    route = input._layout.routes.get((basic_index, dim, index))
    return NOT_TAKEN if route is None else basic_index.again(input, route)


@composite(quick=_quick_select)
def select(input: Tensor, dim: int, index: int) -> Tensor:
    """Return a view of the elements at one index along dim; the view does not have that axis.

    Raises  IndexError if dim or index is out of range

    Args:
        input: A tensor of any dtype with at least one axis.
        dim: The axis to remove; negative numbers count from the end.
        index: The index along dim; negative numbers count from the end.

    Example:
        >>> torch.select(torch.tensor([[1, 2], [3, 4]]), 1, 0)
        tensor([1, 3])
    """
    axis = normalize_axis("select", dim, len(input._layout.shape))
    if not input._layout.shape:
        raise DimRange("select() cannot be applied to a 0-dim tensor.")
    n = input._layout.shape[axis]
    if not -n <= index < n:
        raise DimRange(
            f"select(): index {index} out of range for tensor of size "
            f"{list(input._layout.shape)} at dimension {axis}"
        )
    where = (slice(None),) * axis + (index, ...)
    return basic_index.at(input, where, (basic_index, axis, index) if is_near(index) else None)


class SplitBackward0(CallNode):
    """The Node of several views that do not overlap: it combines their gradients into one gradient.

    Without it, each view would have its own Node, with a gradient of the size of the whole tensor.
    """

    __slots__ = ()
    saved_names = ("input_layout", "num_outputs", "places")
    fresh = True
    input_layout: Layout
    places: Sequence[Any]

    def __init__(self, input: Tensor, layouts: tuple[Layout, ...], places: Sequence[Any]) -> None:
        if modes.tracers or input._layout.device is not CPU:
            begin_node(self, (input._edge,), layouts)
        else:
            # The same as begin_node, inlined.
            self.seq, self.hooks = next_sequence_number(), None
            self.edges, self.output_layout = (input._edge,), layouts
        self.input_layout = input._layout
        self.num_outputs = len(layouts)
        self.places = places

    def apply(self, g: Tensor, keep: bool) -> tuple[Any, ...]:
        """Return the gradient of the input: zeros, with the views' gradients at their positions."""
        layout = self.input_layout
        backend = backend_of(layout.device.type)
        whole = backend.empty(layout.shape, layout.dtype.numpy, layout.device.index)
        backend.copy_into(whole, as_operand(0, layout.dtype))
        for part, place in zip(g, self.places, strict=True):
            if part is not None:
                backend.copy_into(whole[place], part)
        return (whole,)

    def apply_recorded(self, g: tuple[Tensor | None, ...], keep: bool) -> tuple[Any, ...]:
        """Return the gradient of the input as a Tensor."""
        total: Any = None
        for part, place in zip(g, self.places, strict=True):
            if part is not None:
                whole = place_op(part, self.input_layout.shape, place)
                total = whole if total is None else total + whole
        return (total,)


class UnbindBackward0(SplitBackward0):
    """The Node of `unbind`, whose views do not have the axis along which they were taken."""

    __slots__ = ()


def _views_at(
    input: Tensor,
    places: Sequence[Any],
    recorded: type[SplitBackward0] = SplitBackward0,
    key: tuple[Any, ...] = (),
) -> tuple[Tensor, ...]:
    """Return the views of input at the given indices. If a key is given, the data for making these
    views is cached for later calls with the same layout.
    """
    views = tuple([basic_index.at(input, place) for place in places])
    layout, layouts = input._layout, tuple([view._layout for view in views])
    if len(views) > 1 and views[0]._edge is not None and not layout.is_sparse:
        node = recorded(input, layouts, places)
        for i, view in enumerate(views):
            view._edge = Edge(node, i)
    if key and 1 < len(views) <= _MANY and input.__class__ in modes.plain:
        steps = [ViewSteps(None, (basic_index, (place,))) for place in places]
        made = [(p, v._layout, s) for p, v, s in zip(places, views, steps, strict=True)]
        layout.routes.remember(key, (made, places, recorded, layouts))
    return views


_MANY = 32
_INTS = frozenset({int})


def _quickly(name: str) -> Callable[..., Any]:
    """Return a short path of `name` for calls with integers for which the views' data is cached."""

    def quick(input: Tensor, *given: int, **named: Any) -> Any:
        if named or input.__class__ not in PLAIN or not _INTS.issuperset(map(type, given)):
            return NOT_TAKEN
        found = input._layout.routes.get((name, *given))
        if found is None:
            return NOT_TAKEN
        made, places, recorded, layouts = found
        edge, views = input._edge, see_parts(input, made)
        if edge is not None and not (modes.grad_off and not tls.grad):
            node = recorded(input, layouts, places)
            for i, view in enumerate(views):
                view._edge = Edge(node, i)
        return views

    return quick


@composite(quick=_quickly("split"))
def split(
    tensor: Tensor, split_size_or_sections: Any = None, dim: int = 0, *, split_size: Any = None
) -> tuple[Tensor, ...]:
    """Return views of the parts along dim, either of one length or of a list of lengths. With one
    length, the last part may be shorter.

    Raises  RuntimeError if a size is negative, the sizes do not add up to the length of the axis,
            or the one length is 0 although that of the axis is not; IndexError if dim is out of
            range

    Args:
        tensor: A tensor of any dtype with at least one axis.
        split_size_or_sections: The length of each view, or a list of lengths; None: see split_size.
            The length may be 0 if that of the axis is 0: the result is then one empty view.
        dim: The axis to divide, by default the first.
        split_size: split_size_or_sections, under the name that the method uses; None: not used.

    Example:
        >>> [part.tolist() for part in torch.split(torch.arange(5), 2)]
        [[0, 1], [2, 3], [4]]
        >>> [part.tolist() for part in torch.split(torch.arange(5), [1, 4])]
        [[0], [1, 2, 3, 4]]
    """
    if (split_size_or_sections is None) == (split_size is None):
        raise TypeError(
            "split() takes a size or a list of sizes, once: got split_size_or_sections="
            f"{short_repr(split_size_or_sections)} and split_size={short_repr(split_size)}"
        )
    if split_size is not None:
        split_size_or_sections = split_size
    if not tensor._layout.shape:
        raise ShapeError("split expects at least a 1-dimensional tensor, got one without axes")
    axis = normalize_axis("split", dim, len(tensor._layout.shape))
    places: list[Any] = []
    start = 0
    for size in _sizes_of_parts(split_size_or_sections, axis, tensor._layout.shape[axis]):
        places.append((slice(None),) * axis + (slice(start, start + size), ...))
        start += size
    size_or_list = split_size_or_sections
    key = ("split", size_or_list, *_given(dim)) if size_or_list.__class__ is int else ()
    views = _views_at(tensor, places, key=key)
    if isinstance(split_size_or_sections, list | tuple):
        recorded_as("SplitWithSizesBackward0", views[:1], ())
    # A single view does not have a Node from _views_at, so its own Node is renamed.
    elif len(views) == 1 and (edge := views[0]._edge) is not None:
        edge._called = "SplitBackward0"
    return views


def _sizes_of_parts(size_or_sections: Any, axis: int, n: int) -> list[int]:
    """Return the lengths of the parts of an axis of length n."""
    if hasattr(size_or_sections, "__index__"):
        size = size_or_sections.__index__()
        if size < 0:
            raise RuntimeError(
                f"split expects split_size be non-negative, but got split_size={short_repr(size)}"
            )
        if size == 0 and n:
            raise RuntimeError(
                f"split_size can only be 0 if dimension size is 0, but got dimension size of {n}"
            )
        return [min(size, n - start) for start in range(0, n, size or 1)] or [0]
    sizes = [size.__index__() for size in all_of(size_or_sections)]
    if min(sizes, default=0) < 0:
        raise RuntimeError(
            "split_with_sizes expects split_sizes have only non-negative entries, but got "
            f"split_sizes={short_repr(sizes)}"
        )
    if sum(sizes) != n:
        raise RuntimeError(
            f"split_with_sizes expects split_sizes to sum exactly to {n} (input tensor's size "
            f"at dimension {axis}), but got split_sizes={short_repr(sizes)}"
        )
    return sizes


@composite(quick=_quickly("chunk"))
def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Return at most `chunks` views along dim, all of the same length except the last one.

    Raises  RuntimeError if chunks is not positive, or input has no axes; IndexError if dim is out
            of range

    Args:
        input: A tensor of any dtype with at least one axis.
        chunks: The number of views to make; fewer, if the length is not enough: 6 elements in 4
            chunks give 3 views of 2.
        dim: The axis to divide, by default the first.

    Example:
        >>> [part.tolist() for part in torch.chunk(torch.arange(5), 2)]
        [[0, 1, 2], [3, 4]]
    """
    if not input._layout.shape:
        raise ShapeError("chunk expects at least a 1-dimensional tensor, got one without axes")
    if chunks < 1:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    axis = normalize_axis("chunk", dim, len(input._layout.shape))
    n = input._layout.shape[axis]
    if n == 0:
        return tuple(narrow(input, axis, 0, 0) for _ in range(chunks))
    views: tuple[Tensor, ...] = split(input, -(-n // chunks), axis)
    if input.__class__ in modes.plain:
        # The call of split has cached the data for making these views, which is reused here.
        routes = input._layout.routes
        if (kept := routes.get(("split", -(-n // chunks), *_given(axis)))) is not None:
            routes.remember(("chunk", chunks, *_given(dim)), kept)
    return views


def _given(dim: int) -> tuple[int, ...]:
    """Return the part of a cache key for dim: empty for the default 0, which most calls omit."""
    return (dim,) if dim else ()


@composite(quick=_quickly("unbind"))
def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """Return a view for each index along dim; the views do not have that axis.

    Raises  IndexError if dim is out of range

    Args:
        input: A tensor of any dtype. An axis without elements gives an empty tuple.
        dim: The axis to remove, by default the first.

    Example:
        >>> [row.tolist() for row in torch.tensor([[1, 2], [3, 4]]).unbind()]
        [[1, 2], [3, 4]]
    """
    axis = normalize_axis("unbind", dim, len(input._layout.shape))
    if not input._layout.shape:
        raise DimRange("Dimension specified as 0 but tensor has no dimensions")
    lead = (slice(None),) * axis
    places = [(*lead, i, ...) for i in range(input._layout.shape[axis])]
    return _views_at(input, places, UnbindBackward0, ("unbind", *_given(dim)))
