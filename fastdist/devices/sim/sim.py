"""The backend of simulated devices: the CPU's kernels, queued on streams."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from fastdist.core.errors import DeviceError

from ..backend import Result, filling
from ..cpu import CpuBackend, add_into, copy_into
from ..host_ring import HostRing
from .device import SimArray, SimDevice, memory_of
from .faults import Behaviour
from .stream import Currents, SimStream

if TYPE_CHECKING:
    from fastdist.language.scalar import Body

DEFAULT_DEVICES = 2


class SimBackend:
    """The backend of `sim:0`, `sim:1` ...; tests inject faults through `behaviour`."""

    type = "sim"

    def __init__(self, device_count: int) -> None:
        self.behaviour = Behaviour()
        self._cpu = CpuBackend()
        self._kernels: dict[tuple[str, int | None], Callable[..., None]] = {}
        self._currents = Currents()
        self.tables: dict[Any, list[Any]] = {}
        self.host_ring = HostRing(_some_pages)
        # Guards _devices and _device_count.
        self._devices_lock = threading.Lock()
        self._devices: dict[int, SimDevice] = {}
        self._device_count = device_count

    def device_count(self) -> int:
        return self._device_count

    def set_device_count(self, count: int) -> None:
        """Reset the backend and set the number of devices. Existing arrays become invalid."""
        self.reset()
        self._device_count = count

    def reset(self) -> None:
        """Stop all threads, drop queued work, remove all faults. Existing arrays become invalid."""
        self.behaviour.clear()
        self.tables.clear()
        with self._devices_lock:
            devices, self._devices = self._devices, {}
        together = object()
        for device in devices.values():
            device.stop(together)

    def device(self, index: int | None = None) -> SimDevice:
        """Return the device with an index; None is index 0.

        Raises  DeviceError if there is no such device
        """
        device = self._devices.get(index or 0)
        if device is not None:
            return device
        index = index or 0
        if not 0 <= index < self._device_count:
            raise DeviceError(
                f"sim:{index} does not exist: there are {self._device_count} simulated devices; "
                "FASTDIST_SIM_DEVICES says how many"
            )
        with self._devices_lock:
            if index not in self._devices:
                self._devices[index] = SimDevice(index, self.behaviour, self._currents)
            return self._devices[index]

    def empty(
        self, shape: Sequence[int], dtype: np.dtype[Any], index: int | None = None
    ) -> SimArray:
        return self.device(index).empty(shape, np.dtype(dtype))

    def from_numpy(
        self, array: np.ndarray, index: int | None = None, *, non_blocking: bool = False
    ) -> SimArray:
        out = self.device(index).empty(array.shape, array.dtype)
        # The array is copied now, because the caller may change it before the stream reads it.
        stream = out.device.current_stream()
        stream.launch("copy_from_host", np.copyto, memory_of(out), array.copy())
        return out

    from_constant = from_numpy

    def is_capturing(self, index: int | None = None) -> bool:
        return False

    def into_host(self, room: np.ndarray, array: SimArray) -> bool:
        return False  # simulated devices have no pinned memory

    def to_numpy(self, array: SimArray, *, non_blocking: bool = False) -> np.ndarray:
        out = np.empty(array.shape, array.dtype)
        stream = array.device.current_stream()
        stream.launch("copy_to_host", np.copyto, out, memory_of(array))
        stream.synchronize()
        return out

    def begin_copy_to_host(self, out: np.ndarray, array: SimArray) -> None:
        array.device.current_stream().launch("copy_to_host", np.copyto, out, memory_of(array))

    def begin_copy_from_host(self, array: np.ndarray, index: int | None = None) -> SimArray:
        out = self.device(index).empty(array.shape, array.dtype)
        out.device.current_stream().launch("copy_from_host", np.copyto, memory_of(out), array)
        return out

    def index_of(self, array: SimArray) -> int:
        return array.device.index

    def data_ptr(self, array: SimArray) -> int:
        return array.address

    def expand(self, array: SimArray, shape: Sequence[int]) -> SimArray:
        return array.expand(shape)

    def as_strided(
        self,
        array: SimArray,
        shape: Sequence[int],
        strides_bytes: Sequence[int],
        offset_bytes: int = 0,
    ) -> SimArray:
        return array.as_strided(shape, strides_bytes, offset_bytes)

    def reinterpret(self, array: SimArray, dtype: Any) -> SimArray:
        return array.view(dtype)

    def copy_into(self, out: SimArray, array: SimArray | np.ndarray) -> None:
        if not isinstance(array, SimArray) or array.device is out.device:
            self._launch("copy", copy_into, out, array)
            return
        # The copy waits until the values exist, and `there`, the stream of the source, waits until
        # the copy has read them.
        here, there = out.device.current_stream(), array.device.current_stream()
        here.wait_event(there.record_event())
        here.launch("copy", copy_into, memory_of(out), memory_of(array))
        there.wait_event(here.record_event())

    def pointwise(self, body: Body, arrays: Sequence[Any], out: SimArray) -> None:
        kernel = import_module("fastdist.kernels.cpu.pointwise.pointwise").kernel_for(body)
        self._launch(f"pointwise: {body.text}", kernel.run, list(arrays), out)

    def kernel(self, name: str, reads: int | None = None) -> Callable[..., None]:
        found = self._kernels.get((name, reads))
        if found is None:
            on_cpu = self._cpu.kernel(name, reads)

            def launch(*arguments: Any) -> None:
                self._launch(name, on_cpu, *arguments)

            found = self._kernels.setdefault((name, reads), launch)
        return found

    def making(
        self,
        kernel: str | Body,
        results: Sequence[Result],
        numbers: tuple[Any, ...] = (),
        reads: int | None = None,
        index: int | None = None,
        *,
        of_any_layout: bool = False,
    ) -> Callable[..., Any]:
        empty = partial(self.empty, index=index)
        return filling(self, empty, kernel, results, numbers, reads)

    def add_into(self, accumulator: SimArray, array: SimArray) -> None:
        self._launch("add_into", add_into, accumulator, array)

    def current_stream(self, index: int | None = None) -> SimStream:
        return self.device(index).current_stream()

    def stream(self, index: int | None = None) -> SimStream:
        return self.device(index).take_stream()

    def copy_stream(self, index: int | None = None) -> SimStream:
        return self.device(index).copy_stream

    def record_stream(self, array: SimArray, stream: SimStream) -> None:
        if stream is not array.storage.block.stream:
            array.storage.other_streams.add(stream)

    def synchronize(self, index: int | None = None) -> None:
        self.device(index).synchronize()

    def _launch(self, name: str, kernel: Callable[..., None], *arguments: Any) -> None:
        """Queue a kernel, with the NumPy arrays of its arguments, on the current stream of their
        device.
        """
        device: SimDevice | None = None

        def unwrap(argument: Any) -> Any:
            nonlocal device
            if isinstance(argument, SimArray):
                if device is not None and argument.device is not device:
                    raise DeviceError(
                        f"{name}: Expected all tensors to be on the same device, "
                        "but found at least two devices, "
                        f"sim:{device.index} and sim:{argument.device.index}"
                    )
                device = argument.device
                return memory_of(argument)
            if isinstance(argument, tuple):
                return tuple(map(unwrap, argument))
            if isinstance(argument, list):
                return list(map(unwrap, argument))
            if isinstance(argument, np.ndarray) and argument.ndim:
                raise DeviceError(f"{name}: got a CPU array among arrays of sim; copy it first")
            return argument.copy() if isinstance(argument, np.ndarray) else argument

        unwrapped = [unwrap(argument) for argument in arguments]
        if device is None:
            raise DeviceError(f"{name}: none of its arrays is on a simulated device")
        device.current_stream().launch(name, kernel, *unwrapped)


def _some_pages(size_bytes: int) -> np.ndarray[Any, Any]:
    return np.empty(size_bytes, np.uint8)


def load() -> SimBackend:
    """Return a new backend. Each stream's thread starts with its first work, and stops at exit."""
    given = os.environ.get("FASTDIST_SIM_DEVICES", str(DEFAULT_DEVICES))
    if not given.isdigit():
        raise DeviceError(f"FASTDIST_SIM_DEVICES is {given!r}; it must be a number, 0 or more")
    backend = SimBackend(int(given))
    atexit.register(backend.reset)
    return backend
