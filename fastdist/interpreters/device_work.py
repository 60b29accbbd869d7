"""How long a device works for an op: the time between two events, one before and one after it."""

# Note [Work of devices]
# The GPU's work for an op is done after the op has returned. While a profile records it, an event
# is recorded on the current stream before the op and another after it; when the profile ends, the
# time between them is the op's work, whatever kernels it launched. An op within an op is a part of
# the outer one's. The offset between the clocks of a device and of the host is measured once for
# each device, by an event that is waited for.

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
    """A moment of a device's clock, and of ours."""

    event: Any
    at_ns: int


class _Within(threading.local):
    is_open = False


_within: Final = _Within()
# Two threads at the same time measure two offsets, either of which is right.
_bases: Final[dict[Device, _Base]] = {}
time_ranges.watch("device", lambda is_wanted: None if is_wanted else _bases.clear())


def device_of_operands(operands: Any) -> Device:
    """Return the device on which an op works: that of its first operand that is not on the CPU."""
    for value in operands:
        if isinstance(value, Tensor) and value._layout.device is not CPU:
            return value._layout.device
    return CPU


@contextmanager
def work_of(name: str, device: Device, known: Any) -> Iterator[None]:
    """Count the work that a device gets in the block for an op, whose range is `known`."""
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
        """Wait for it, and return its range, or None if it failed."""
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
