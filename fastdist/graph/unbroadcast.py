"""Reduces gradients of inputs that were broadcast, promoted or copied to another device."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.errors import ShapeError
from ..core.folded_frames import private_cause
from ..devices.backend import backend_of
from ..kernels.cpu.small.call_facts import TERMS, adder_of_columns
from ..tensor.broadcast import sum_array_to
from ..tensor.layout import Layout
from ..tensor.tensor import Tensor


def sum_to_layout(array: Any, target: Layout) -> Any:
    """Return a CPU gradient summed to the shape of `target`, the layout of an operand that was
    broadcast.
    """
    shape = array.shape
    if shape == target.shape:
        return array
    if len(shape) == 2 and shape[1:] == target.shape and 0 < shape[0] <= TERMS:
        # The most common case, the bias of a layer: a third of the time of np.add.reduce.
        return adder_of_columns(*shape, array.dtype)(array)
    return sum_array_to(array, target)


def cast_array(array: Any, layout: Layout, target: Layout) -> Any:
    """Return `array` cast to the dtype of `target`, and moved to the device of `target`."""
    if target.device is not layout.device:
        array = backend_of(layout.device.type).to_numpy(array)
        array = backend_of(target.device.type).from_numpy(array, target.device.index)
    backend = backend_of(target.device.type)
    return as_array(backend, array, target.dtype.numpy, target.device.index)


def zeros_of(layout: Layout) -> Any:
    """Return a raw array of zeros with layout's shape, dtype and device."""
    backend, dtype = backend_of(layout.device.type), layout.dtype.numpy
    zeros = backend.empty(layout.shape, dtype, layout.device.index)
    backend.copy_into(zeros, np.zeros((), dtype))
    return zeros


def as_array(backend: Any, operand: Any, dtype: Any, index: int | None) -> Any:
    """Return `operand` if it has this dtype, or a copy cast to `dtype` in the backend's memory."""
    if operand.dtype == dtype:
        return operand
    out = backend.empty(tuple(operand.shape), dtype, index)
    backend.copy_into(out, operand)
    return out


def reduce_recorded(
    gradient: Tensor | None, target: Layout, made_by: tuple[Any, int] | None = None
) -> Tensor | None:
    """Return the gradient of an input, summed and cast to the input's layout by recorded ops.

    `made_by` is for the error's message: the op whose vjp made the gradient, and the input's index.

    Raises  RuntimeError if the shape of the gradient does not fit
    """
    if gradient is None:
        return None
    if gradient._layout.shape != target.shape:
        try:
            gradient = gradient.sum_to_size(target.shape)
        except ShapeError as error:
            if made_by is None:
                raise
            op, i = made_by
            raise ShapeError(
                f"Function {op.node_name} returned an invalid gradient at index {i} - got "
                f"{list(gradient._layout.shape)} but expected shape compatible with "
                f"{list(target.shape)}: the vjp of {op.name} by {op.tensors[i]}"
            ) from private_cause(error)
    if gradient._layout.dtype.is_complex and not target.dtype.is_complex:
        gradient = gradient.real
    if gradient._layout.dtype is not target.dtype:
        gradient = gradient.to(target.dtype)
    return gradient
