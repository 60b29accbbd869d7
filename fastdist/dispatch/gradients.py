"""Gradients on their way back to an input that was broadcast, promoted or not on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.errors import ShapeError
from ..core.scalar import CONDITIONS, Body, Name
from ..devices.backend import backend_of
from ..kernels.cpu.small import TERMS, ones
from ..tensor.broadcast import sum_array_to
from ..tensor.layout import Layout
from ..tensor.tensor import Tensor


def gradient_array(
    body: Body,
    operands: Sequence[Any],
    layout: Layout,
    target: Layout,
    exact: frozenset[str] = frozenset(),
) -> Any:
    """Return the gradient that body says of g and saved arrays, summed and cast to the input's
    layout.

    Note    body is in_used_order; operands are in the order of its names, g last; of `exact` names,
            numbers stay wider than half types
    """
    backend = backend_of(layout.device.type)
    dtype = layout.dtype.numpy
    index = layout.device.index
    if body.tree.__class__ is Name:
        found = operands[-1]
    else:
        if not layout.dtype.is_half:
            exact = frozenset()
        arrays = [
            operand
            if name in CONDITIONS or (name in exact and operand.shape == ())
            else as_array(backend, operand, dtype, index)
            for name, operand in zip(body.names, operands, strict=True)
        ]
        found = backend.empty(layout.shape, dtype, index)
        backend.pointwise(body, arrays, found)
    found = sum_array_to(found, Layout.of(layout.dtype, layout.device, target.shape))
    if target.dtype is layout.dtype and target.device is layout.device:
        return found
    return cast_array(found, layout, target)


def gathered(array: Any, target: Layout) -> Any:
    """Return a CPU gradient summed over the axes along which an operand of layout target was
    repeated.
    """
    shape = array.shape
    if shape == target.shape:
        return array
    if len(shape) == 2 and shape[1:] == target.shape and 0 < shape[0] <= TERMS:
        # The commonest: the bias of a layer. A third of np.add.reduce's time.
        return ones(shape[0], array.dtype).dot(array)
    return sum_array_to(array, target)


def cast_array(array: Any, layout: Layout, target: Layout) -> Any:
    """Return array in the dtype, and on the device, of target."""
    if target.device is not layout.device:
        array = backend_of(layout.device.type).to_numpy(array)
        array = backend_of(target.device.type).from_numpy(array, target.device.index)
    if target.dtype is not layout.dtype:
        backend = backend_of(target.device.type)
        out = backend.empty(tuple(array.shape), target.dtype.numpy, target.device.index)
        backend.copy_into(out, array)
        array = out
    return array


def as_array(backend: Any, operand: Any, dtype: Any, index: int | None) -> Any:
    """Return operand in dtype."""
    if operand.dtype == dtype:
        return operand
    out = backend.empty(tuple(operand.shape), dtype, index)
    backend.copy_into(out, operand)
    return out


def in_used_order(body: Body) -> Body:
    """Return the body over the inputs it uses and no others: kernels take one array a name."""
    names = tuple(name for name in body.names if name in body.used)
    return body if names == body.names else Body.of(body.tree, names)


def reduce_recorded(
    gradient: Tensor | None, target: Layout, made_by: tuple[str, int, str] | None = None
) -> Tensor | None:
    """Return gradient summed and cast to the input's layout with recorded ops.

    Raises  RuntimeError where it has another shape; `made_by` is the Node's name, the index of the
            input, and a word on who made the gradient
    """
    if gradient is None:
        return None
    if gradient.facts.shape != target.shape:
        try:
            gradient = gradient.sum_to_size(target.shape)
        except ShapeError as error:
            if made_by is None:
                raise
            node, i, maker = made_by
            raise ShapeError(
                f"Function {node} returned an invalid gradient at index {i} - got "
                f"{list(gradient.facts.shape)} but expected shape compatible with "
                f"{list(target.shape)}: {maker}"
            ) from error
    if gradient.facts.dtype.is_complex and not target.dtype.is_complex:
        gradient = gradient.real
    if gradient.facts.dtype is not target.dtype:
        gradient = gradient.to(target.dtype)
    return gradient
