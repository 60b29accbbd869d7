"""Tensors on their way to devices: what those who use them on other streams wait for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fastdist.core.device import Device
from fastdist.devices.backend import Event, Stream, backend_of, is_cpu_alone
from fastdist.tensor.tensor import Tensor

# Note [Events in Futures]
# Nobody waits for tensors on their way to a device: what is queued behind the copies, on the
# streams of the thread that opened the message, sees them. Who waits for a Future may have other
# streams. So the Future of an answer holds events behind the copies, and whoever takes its value
# lets its own streams wait for them; the CPU does not.


def arrival_of(tensors: Sequence[Tensor]) -> Callable[[], None] | None:
    """Return what lets the current streams of the thread that calls it wait for those of tensors
    that are on their way to devices; None if all are on the CPU.

    Thread  the one that opened their message; what it returns: any
    Source  PyTorch, aten/src/ATen/core/ivalue_inl.h, Future::synchronizeWithCurrentStreams
    """
    by_device: dict[Device, list[Any]] = {}
    for tensor in () if is_cpu_alone() else tensors:
        if tensor.facts.device.index is not None:
            by_device.setdefault(tensor.facts.device, []).append(tensor.array)
    if not by_device:
        return None
    points: list[tuple[Device, Stream, Event]] = []
    for device in by_device:
        stream = backend_of(device.type).current_stream(device.index)
        points.append((device, stream, stream.record_event()))

    def follow() -> None:
        for device, stream, event in points:
            backend = backend_of(device.type)
            here = backend.current_stream(device.index)
            if here == stream:
                continue
            here.wait_event(event)
            for array in by_device[device]:
                backend.record_stream(array, here)

    return follow
