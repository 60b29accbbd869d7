"""Copies several arrays between devices and the CPU through one block of pinned memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Protocol, cast

import numpy as np

from fastdist.core.dense_order import undone, walk_order
from fastdist.core.device import Device

from .backend import Backend, Event, Stream, backend_of, loaded_backends
from .host_ring import HostRing, Loan, Passed

# The alignment of each array in a block, in bytes.
_ALIGNMENT: Final = 64


class Away(Backend, Protocol):
    """A backend whose memory is not the CPU's."""

    host_ring: HostRing

    def copy_stream(self, index: int | None = None) -> Stream:
        """Return the device's stream that is reserved for copies to the CPU."""

    def begin_copy_to_host(self, out: np.ndarray, array: Any) -> None:
        """Queue a copy to contiguous CPU memory on the current stream. The caller keeps `out`."""

    def begin_copy_from_host(self, array: np.ndarray, index: int | None = None) -> Any:
        """Queue a copy of contiguous CPU memory on the current stream; return the new array.

        The CPU memory must not change until the copy is done.
        """


class HostCopies:
    """Queued copies of device arrays to the CPU. Callers may read `arrays` after `wait_for`.

    The copies of one device run on its copy stream. The copy stream waits for the work that the
    calling thread has queued on the device. Other streams do not wait for the copies. With
    `holds_back`, later work of the current stream waits for the copies, so that it may write to the
    device arrays.

    Thread  any may create this object and wait for it; creation may wait for a block of the
            HostRing
    """

    __slots__ = ("_holds_back", "_loans", "arrays", "events")

    def __init__(self, given: Sequence[tuple[Device, Any]], *, holds_back: bool = False) -> None:
        self._holds_back = holds_back
        self.arrays: list[np.ndarray[Any, Any]] = [np.empty(0)] * len(given)
        self.events: list[tuple[Stream, Event]] = []
        self._loans: list[Loan] = []
        for backend, numbers in _by_type([device for device, _ in given]):
            self._begin(backend, given, numbers)

    def _begin(
        self, backend: Away, given: Sequence[tuple[Device, Any]], numbers: Sequence[int]
    ) -> None:
        loan, places = _lend(backend, [given[i][1] for i in numbers])
        self._loans.append(loan)
        by_device: dict[int | None, list[tuple[Any, np.ndarray[Any, Any]]]] = {}
        for i, place in zip(numbers, places, strict=True):
            device, array = given[i]
            array, self.arrays[i] = _in_order(array), _as_before(place, array)
            by_device.setdefault(device.index, []).append((array, place))
        for index, pairs in by_device.items():
            stream = backend.copy_stream(index)
            stream.wait_event(backend.current_stream(index).record_event())
            try:
                with stream:
                    for array, place in pairs:
                        backend.begin_copy_to_host(place, array)
            finally:
                event = stream.record_event()
                loan.hold(cast(Passed, event), [array for array, _ in pairs])
                self.events.append((stream, event))
                if self._holds_back:
                    backend.current_stream(index).wait_event(event)

    def wait(self) -> None:
        """Wait until the copies are complete. Raises errors of the device."""
        wait_for([self])


def wait_for(copies: Iterable[HostCopies]) -> None:
    """Wait until all copies are complete. This waits only for the last event of each stream.

    Raises  errors of the devices
    """
    copies = list(copies)
    last: dict[Stream, Event] = {}
    for each in copies:
        last.update(each.events)
    for event in last.values():
        event.synchronize()
    for each in copies:
        for loan in each._loans:
            loan.has_arrived()


def copy_to_devices(
    arrays: Sequence[np.ndarray[Any, Any]], devices: Sequence[Device]
) -> tuple[list[Any], list[tuple[Device, Event]]]:
    """Queue copies of CPU arrays to devices; return the new arrays, and events after the copies.

    The caller may change the given arrays as soon as this function returns. The copies run on the
    calling thread's current streams.

    Thread  any; may wait for a block of the HostRing
    """
    found: list[Any] = [None] * len(arrays)
    events: list[tuple[Device, Event]] = []
    for backend, numbers in _by_type(devices):
        loan, places = _lend(backend, [arrays[i] for i in numbers])
        by_device: dict[Device, list[int]] = {}
        for i, place in zip(numbers, places, strict=True):
            np.copyto(place, _in_order(arrays[i]))
            by_device.setdefault(devices[i], []).append(i)
        place_of = dict(zip(numbers, places, strict=True))
        for device, members in by_device.items():
            try:
                for i in members:
                    made = backend.begin_copy_from_host(place_of[i], device.index)
                    found[i] = _as_before(made, arrays[i])
            finally:
                event = backend.current_stream(device.index).record_event()
                loan.hold(cast(Passed, event))
                events.append((device, event))
    return found, events


def usage() -> dict[str, tuple[int, int]]:
    """Return two byte counts for each loaded device type: locked memory in use, and all of it."""
    # The ring is read from vars(), because in a forked child each attribute of the CUDA backend
    # raises an error.
    rings = {kind: vars(backend).get("host_ring") for kind, backend in loaded_backends()}
    return {kind: ring.usage() for kind, ring in rings.items() if ring is not None}


def _by_type(devices: Sequence[Device]) -> Iterator[tuple[Away, list[int]]]:
    found: dict[str, list[int]] = {}
    for i, device in enumerate(devices):
        found.setdefault(device.type, []).append(i)
    for kind, numbers in found.items():
        yield cast(Away, backend_of(kind)), numbers


def _lend(backend: Away, arrays: Sequence[Any]) -> tuple[Loan, list[np.ndarray[Any, Any]]]:
    """Return a loan and, for each array of `arrays`, a contiguous array in the loan's memory."""
    starts, end = [], 0
    for array in arrays:
        starts.append(end)
        end += -(-array.nbytes // _ALIGNMENT) * _ALIGNMENT
    loan, memory = backend.host_ring.lend(end)
    return loan, [
        memory[start : start + array.nbytes].view(array.dtype).reshape(_in_order(array).shape)
        for start, array in zip(starts, arrays, strict=True)
    ]


def _order_of(array: Any) -> tuple[int, ...] | None:
    return walk_order(array.shape, array.strides)


def _in_order(array: Any) -> Any:
    """Return a view of an array whose axes are transposed to their order in memory."""
    order = _order_of(array)
    return array if order is None else array.transpose(order)


def _as_before(copied: Any, array: Any) -> Any:
    """Transpose `copied`, a copy of `_in_order(array)`, back to the order of the array's axes."""
    order = _order_of(array)
    return copied if order is None else copied.transpose(undone(order))
