"""Measures how long a device works for an op, by an event before the op and one after it."""

# Note [Work of devices]
# A GPU finishes the work of an op after the op has returned. While a profile records the work, an
# event is recorded on the current stream before the op, and a second event after the op. When the
# profile ends, the time between the two events is read: it is the op's work, whichever kernels the
# op launched. Work of an op that runs within another op counts for the outer op. The offset between
# the clocks of a device and of the host is measured once per device, by waiting for an event.

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from ..core.device import CPU, Device
from ..devices.backend import backend_of
from ..instrumentation.time_ranges import TimeRange, clock, time_ranges
from ..tensor.tensor import Tensor

_next_id: Final[Callable[[], int]] = itertools.count(1).__next__


class _Base(NamedTuple):
    """The same moment as an event on a device and as a time of the host's clock."""

    event: Any
    at_ns: int


class _Within(threading.local):
    is_open = False


_within: Final = _Within()
# Two threads may measure a device's offset at the same time: either result is right.
_bases: Final[dict[Device, _Base]] = {}
time_ranges.watch("device", lambda is_wanted: None if is_wanted else _bases.clear())


def device_of_operands(operands: Any) -> Device:
    """Return the device of an op: the device of the first operand that is not on the CPU."""
    for value in operands:
        if isinstance(value, Tensor) and value._layout.device is not CPU:
            return value._layout.device
    return CPU


@contextmanager
def work_of(name: str, device: Device, known: Any) -> Iterator[None]:
    """Measure a device's work for an op within this block; `known` is the time range of the op."""
    if _within.is_open:
        yield
        return
    stream = backend_of(device.type).current_stream(device.index)
    base = _bases.get(device) or _find_base(device, stream)
    if base is None:
        yield
        return
    before, _within.is_open = _timed_event(stream), True
    try:
        yield
        kernel_id = _next_id()
        known.note(kernel_id=kernel_id)
        after = _timed_event(stream)
        time_ranges.await_work(_Work(name, device, stream, base, before, after, kernel_id))
    finally:
        _within.is_open = False


def _timed_event(stream: Any) -> Any:
    return stream.record_event(timed=True)


def _find_base(device: Device, stream: Any) -> _Base | None:
    event = _timed_event(stream)
    return _bases.setdefault(device, _Base(event, clock())) if event.wait_quietly() else None


class _Work(NamedTuple):
    """The work of a stream between two events."""

    name: str
    device: Device
    stream: Any
    base: _Base
    before: Any
    after: Any
    kernel_id: int

    def when_done(self) -> TimeRange | None:
        """Wait for the work to end; return its time range, or None if it failed."""
        if not self.after.wait_quietly():
            return None
        event, at_ns = self.base
        start_ns = at_ns + round(event.elapsed_ms(self.before) * 1e6)
        length_ns = round(self.before.elapsed_ms(self.after) * 1e6)
        return TimeRange(
            *(f"{self.name} on {self.device}", "kernel", start_ns, start_ns + length_ns),
            *(id(self.stream), self.stream.name, time_ranges.node_id),
            device=str(self.device),
            kernel_id=self.kernel_id,
        )
