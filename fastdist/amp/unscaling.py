"""Divides gradients by a GradScaler's factor, and adapts the factor, on the device."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..core.device import Device
from ..core.dtypes import float16, float32, float64
from ..devices.backend import backend_of
from ..language.program import read_program
from ..ops.create.creation import zeros
from ..tensor.storage import bump_all
from ..tensor.tensor import Tensor

# A program that updates the factor (`scale`) and the number of good steps since its last change
# (`good`), both float32. A good step has finite gradients. The factor does not grow if it would
# overflow float32.
_GROWN = "where(isfinite(scale * growth), scale * growth, scale)"
_ADAPT = f"""
scale = where(found != T(0), scale * backoff, where(good + T(1) == interval, {_GROWN}, scale))
good = where(logical_or(found != T(0), good + T(1) == interval), T(0), good + T(1))
"""


def unscale(parameters: Iterable[Tensor], scale: Tensor) -> dict[Device, Tensor]:
    """Divide the gradients of parameters by a factor, without waiting for the device.

    Return for each device a 0-d float32 flag: 1 if a gradient was not finite, else 0.

    Raises  ValueError for gradients in float16
    """
    found: dict[Device, Tensor] = {}
    alike: dict[tuple[Device, Any], list[Tensor]] = {}
    for parameter in parameters:
        grad = parameter.grad
        if grad is None:
            continue
        if grad.dtype is float16:
            raise ValueError("Attempting to unscale FP16 gradients.")
        device = grad._layout.device
        if device not in found:
            found[device] = zeros((), dtype=float32, device=device)
        if grad.is_sparse:
            # For a sparse gradient, test the coalesced entries, because an optimiser uses those.
            finite: Any = grad.coalesce()._values().isfinite().all()
            found[device].add_(1.0 - finite.to(float32)).clamp_(max=1.0)
            grad.mul_(1.0 / float(scale.item()))
        else:
            alike.setdefault((device, grad.dtype), []).append(grad)
    for (device, _), grads in alike.items():
        _unscale_alike(grads, scale, found[device], device)
    return found


def _unscale_alike(grads: list[Tensor], scale: Tensor, found: Tensor, device: Device) -> None:
    inverse = (1.0 / scale.to(float64)).to(device).expand(len(grads)).contiguous()
    packed = [grad.contiguous() for grad in grads]
    program = read_program("g = g * inverse", ("g",), ("inverse",))
    apply = backend_of(device.type).kernel("pointwise.multi_tensor.apply_watched")
    apply(program, [None], found._array.reshape((1,)), inverse._array, *[g._array for g in packed])
    bump_all([grad for grad, made in zip(grads, packed, strict=True) if made is grad])
    for grad, made in zip(grads, packed, strict=True):
        if made is not grad:
            grad.copy_(made)


def adapt(
    scale: Tensor, good: Tensor, found: Tensor, growth: float, backoff: float, interval: int
) -> None:
    """Shrink the factor if `found` is not 0. Else count a good step, and grow the factor after
    `interval` good steps. `scale`, `good` and `found` are 0-d float32 tensors on one device.
    """
    program = read_program(_ADAPT, ("scale", "good", "found"), ("growth", "backoff", "interval"))
    apply = backend_of(scale._layout.device.type).kernel("pointwise.multi_tensor.apply")
    arrays = [one._array.reshape((1,)) for one in (scale, good, found)]
    apply(program, [[growth, backoff, float(interval)]], *arrays)
    bump_all([scale, good])
