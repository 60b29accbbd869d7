"""Joining tensors along an axis: cat, stack, hstack, vstack, dstack, and adding axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.device import CPU
from ...core.dtypes import DType
from ...core.errors import ShapeError
from ...core.torch_function import NOT_TAKEN, offer
from ...devices.backend import Result, backend_of
from ...dispatch.composite import composite
from ...dispatch.op import common_device
from ...dispatch.target import GivenOut, store_in_out
from ...graph.call_node import CallNode
from ...graph.modes import modes, tls
from ...graph.recording import begin_node
from ...graph.tensor_tangents import levels_of, set_tangent, tangent_of, zeros_like
from ...graph.unbroadcast import cast_array, reduce_recorded
from ...interpreters.batching import joined_batch
from ...interpreters.sparse_rules import RULES, is_sparse, refusal
from ...tensor.axes import normalize_axis
from ...tensor.layout import Layout
from ...tensor.promotion import result_dtype
from ...tensor.tensor import Tensor, layout_of, wrap
from ..channels_last import common_order
from .splitting import narrow


class CatBackward0(CallNode):
    """The Node of `cat`: each of the joined tensors gets its part of the gradient."""

    __slots__ = ()
    saved_names = ("axis", "layouts")
    axis: int
    layouts: tuple[Layout, ...]

    def __init__(self, tensors: Sequence[Tensor], result: Tensor, axis: int) -> None:
        begin_node(self, tuple([tensor._edge for tensor in tensors]), result._layout)
        self.layouts = tuple([tensor._layout for tensor in tensors])
        self.axis = axis

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


def _nothing(layout: Any) -> Any:
    return backend_of(layout.device.type).empty((0,), layout.dtype.numpy, layout.device.index)


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
    if out is None and modes.plain.issuperset(map(type, given)):
        key = ("cat", dim, dim.__class__, *[tensor._layout for tensor in given])
        known = given[0]._layout.routes.get(key)
        if known is not None:
            return _joined_at_once(given, *known)
    else:
        found = offer(cat, (tensors,), {"dim": dim} if dim else {})
        if found is not NOT_TAKEN:
            return found  # type: ignore[no-any-return]
        found = joined_batch(given, dim, cat, out)
        if found is not NOT_TAKEN:
            return found  # type: ignore[no-any-return]
        key = None
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
        result._edge = CatBackward0(given, result, axis)
    _carry(result, given, axis)
    if key is not None and device is CPU and _can_join_at_once(given, result._layout, order):
        has_gaps = not all(tensor._layout.contiguous for tensor in given)
        given[0]._layout.routes.remember(key, (result._layout, axis, has_gaps))
    return store_in_out("cat", out, result, given, "cast", "outside")


# If tensors have gaps in memory, NumPy joins them only up to this number of elements. NumPy has
# less overhead per call, but the kernel copies many elements faster.
_FEW = 1 << 14


def _can_join_at_once(
    given: tuple[Tensor, ...], result: Layout, order: Sequence[int] | None
) -> bool:
    """Return whether NumPy can join these tensors; NumPy is used only for results in C order."""
    gapless = all(tensor._layout.contiguous for tensor in given)
    return (gapless or (order is None and result.numel <= _FEW)) and all(
        tensor._layout.dtype is result.dtype and tensor._layout.shape != (0,) for tensor in given
    )


def _joined_at_once(given: tuple[Tensor, ...], layout: Layout, axis: int, has_gaps: bool) -> Tensor:
    """Join CPU tensors of one dtype, as `cat` does, after a first call with the same layouts."""
    # If tensors have gaps, NumPy might choose another memory order, so it gets the result array.
    room = np.empty(layout.shape, layout.dtype.numpy) if has_gaps else None
    result = wrap(np.concatenate([tensor._array for tensor in given], axis, room), layout)
    if not modes.grad_off or tls.grad:
        for tensor in given:
            if tensor._edge is not None:
                result._edge = CatBackward0(given, result, axis)
                break
    return result


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


@composite(homes="function", node="stack")
def stack(tensors: Sequence[Tensor], dim: int = 0, *, out: GivenOut = None) -> Tensor:
    """Return tensors of one shape joined along a new axis at dim.

    Args:
        tensors: A list or tuple of tensors of one shape.
        dim: The position of the new axis in the result.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor with a new axis, whose length is the number of tensors. The dtype of the result is
        the dtype to which all tensors promote.

    Raises:
        RuntimeError: There are no tensors, or their shapes differ.
        IndexError: dim is out of range.

    Example:
        >>> torch.stack([torch.tensor([1, 2]), torch.tensor([3, 4])], dim=1)
        tensor([[1, 3],
                [2, 4]])
    """
    given = tuple(tensors)
    if not given:
        raise RuntimeError("stack expects a non-empty TensorList")
    if out is None and dim == 0 and _may_be_copied(given):
        return _stacked_at_once(given)
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


def _may_be_copied(given: tuple[Any, ...]) -> bool:
    """Return whether stack can simply copy the tensors, as when samples form a batch."""
    if not modes.plain.issuperset(map(type, given)):
        return False
    layout = given[0]._layout
    if layout.device is not CPU or not layout.contiguous or not layout.shape:
        return False
    return all(one._layout is layout and one._edge is None for one in given)


def _stacked_at_once(given: tuple[Tensor, ...]) -> Tensor:
    shape = given[0]._layout.shape
    array = np.empty((len(given), *shape), given[0]._layout.dtype.numpy)
    rows = array.reshape(len(given) * shape[0], *shape[1:])
    np.concatenate([one._array for one in given], 0, out=rows)
    return wrap(array, layout_of(array))


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
