"""Gradients of products on devices by raw arrays: no Tensors, and prepared launches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from ..core.device import Device
from ..devices.backend import Result, backend_of
from ..tensor.layout import Layout

Gradients = tuple[Callable[..., Any] | None, ...]


def device_gradients(
    kernel: str, layouts: Sequence[Layout | None], device: Device
) -> Gradients | None:
    """Return the functions that make raw gradients by the inputs of a kernel on a device; None
    where the op's vjps do.
    """
    maker = _MAKERS.get(kernel)
    first = layouts[0]
    if maker is None or first is None or first.dtype.is_complex:
        return None
    if not all(one is None or (one.device is device and one.numel) for one in layouts):
        return None
    return maker(_Maker(first, device), layouts)


class _Maker:
    """Makes the functions of raw arrays that fill memory of a dtype on a device."""

    def __init__(self, like: Layout, device: Device) -> None:
        self.dtype, self.index = like.dtype.numpy, device.index
        self.making = backend_of(device.type).making
        self.is_half = like.dtype.is_half or like.dtype.is_float8

    def __call__(
        self,
        kernel: str,
        shape: tuple[int, ...],
        reads: int,
        numbers: tuple[Any, ...] = (),
    ) -> Callable[..., Any]:
        # Gradients may have any strides.
        found = [Result(shape, self.dtype, shape)]
        given = reads if self.is_half else None
        return self.making(kernel, found, numbers, given, self.index, of_any_layout=True)


def _of_matmul(make: _Maker, layouts: Sequence[Layout | None]) -> Gradients | None:
    first, second = layouts
    assert first is not None and second is not None
    if len(first.shape) != 2 or len(second.shape) != 2:
        return None
    return (
        make("linalg.product.by_first", first.shape, 2),
        make("linalg.product.by_second", second.shape, 2),
    )


def _of_linear(make: _Maker, layouts: Sequence[Layout | None]) -> Gradients | None:
    first, weight, bias = layouts
    assert first is not None and weight is not None
    by_bias = None
    if bias is not None:
        axes = (0,) if bias.shape else (0, 1)
        by_bias = make("reduce.reductions.sum", bias.shape, 1, (axes,))
    return (
        make("linalg.product.matmul", first.shape, 2),
        make("linalg.product.by_weight", weight.shape, 2),
        by_bias,
    )


_MAKERS: Final[dict[str, Callable[[_Maker, Sequence[Layout | None]], Gradients | None]]] = {
    "linalg.product.matmul": _of_matmul,
    "linalg.product.linear": _of_linear,
}
