"""Gradients of products on GPUs, computed on raw arrays by prepared launches, without Tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...core.device import Device
from ...devices.backend import Result, backend_of
from ...dispatch.structured import RawGradients
from ...tensor.layout import Layout

Layouts = Sequence[Layout | None]


def gradients_of_matmul(layouts: Layouts, device: Device) -> RawGradients | None:
    """Return functions that compute the gradients of a matrix product, or None if only the vjps of
    the op support these layouts.
    """
    first, second = layouts
    if first is None or second is None or not _are_served(layouts, device):
        return None
    if len(first.shape) != 2 or len(second.shape) != 2:
        return None
    return (
        _filling("linalg.product.by_first", first, first.shape, 2),
        _filling("linalg.product.by_second", first, second.shape, 2),
    )


def gradients_of_linear(layouts: Layouts, device: Device) -> RawGradients | None:
    """Return functions that compute the gradients of input @ weight.T + bias for a matrix input, or
    None, as gradients_of_matmul does.
    """
    first, weight, bias = layouts
    if first is None or weight is None or not _are_served(layouts, device):
        return None
    by_bias = None
    if bias is not None:
        axes = (0,) if bias.shape else (0, 1)
        by_bias = _filling("reduce.reductions.sum", first, bias.shape, 1, (axes,))
    return (
        _filling("linalg.product.matmul", first, first.shape, 2),
        _filling("linalg.product.by_weight", first, weight.shape, 2),
        by_bias,
    )


def _are_served(layouts: Layouts, device: Device) -> bool:
    return all(
        one is None or (one.device is device and one.numel and not one.dtype.is_complex)
        for one in layouts
    )


def _filling(
    kernel: str, like: Layout, shape: tuple[int, ...], reads: int, numbers: tuple[Any, ...] = ()
) -> Callable[..., Any]:
    """Return a function that allocates an array with the given shape and with the dtype and device
    of the layout `like`, and launches a kernel that fills this array. The gradients that are passed
    to the function may have any strides.
    """
    dtype, device = like.dtype, like.device
    result = Result(shape, dtype.numpy, shape)
    given = reads if dtype.is_half or dtype.is_float8 else None
    making = backend_of(device.type).making
    return making(kernel, [result], numbers, given, device.index, of_any_layout=True)
