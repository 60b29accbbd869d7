"""Tensors on their way to devices: what those who use them on other streams wait for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastdist.core.device import Device
from fastdist.devices.backend import Event, Stream, backend_of, is_cpu_alone
from fastdist.tensor.tensor import Tensor

# Note [Events in Futures]
# Nobody waits for tensors on their way to a device: what is queued behind the copies, on the
# streams of the thread that opened the message, sees them. Who waits for a Future may have other
# streams. So the Future of an answer holds events behind the copies, and whoever takes its value
# lets its own streams wait for them; the CPU does not.


class Arrival:
    """Tensors of devices, and a point behind their copies on each stream that does them.

    Thread  made by the thread that opened the message; followed by any
    Source  PyTorch, aten/src/ATen/core/ivalue_inl.h, Future::synchronizeWithCurrentStreams
    """

    __slots__ = ("_points",)

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        by_device: dict[Device, list[Any]] = {}
        for tensor in tensors:
            by_device.setdefault(tensor.facts.device, []).append(tensor.array)
        self._points: list[tuple[Device, Stream, Event, list[Any]]] = []
        for device, arrays in by_device.items():
            stream = backend_of(device.type).current_stream(device.index)
            self._points.append((device, stream, stream.record_event(), arrays))

    def follow(self) -> None:
        """Let what the calling thread's current streams are given next see the tensors."""
        for device, stream, event, arrays in self._points:
            backend = backend_of(device.type)
            here = backend.current_stream(device.index)
            if here == stream:
                continue
            here.wait_event(event)
            for array in arrays:
                backend.record_stream(array, here)


def arrival_of(tensors: Sequence[Tensor]) -> Arrival | None:
    """Return how to follow those of tensors that are on devices; None if all are on the CPU."""
    if is_cpu_alone():
        return None
    away = [tensor for tensor in tensors if tensor.facts.device.index is not None]
    return Arrival(away) if away else None
