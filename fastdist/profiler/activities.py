"""Activities that can be recorded: the work of the CPU, and of other devices."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Final

from ..core.caller_warning import warn_caller
from ..devices.gpus import device_count


class ProfilerActivity(enum.Enum):
    """The kinds of work to record. PrivateUse1 means all devices other than the CPU and CUDA, such
    as `sim`.
    """

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


class DeviceType(enum.Enum):
    """The device type of an event. PrivateUse1 means all devices other than the CPU and CUDA."""

    CPU = 0
    CUDA = 1
    MKLDNN = 2
    OPENGL = 3
    OPENCL = 4
    IDEEP = 5
    HIP = 6
    FPGA = 7
    MAIA = 8
    XLA = 9
    Vulkan = 10
    Metal = 11
    XPU = 12
    MPS = 13
    Meta = 14
    HPU = 15
    VE = 16
    Lazy = 17
    IPU = 18
    MTIA = 19
    PrivateUse1 = 20


_OF_DEVICES: Final = frozenset({ProfilerActivity.CUDA, ProfilerActivity.PrivateUse1})


def device_type_of(device: str) -> DeviceType:
    """Return the type of a device such as "cuda:0"; "" means the CPU."""
    kind = device.partition(":")[0]
    return {"": DeviceType.CPU, "cuda": DeviceType.CUDA}.get(kind, DeviceType.PrivateUse1)


def supported_activities() -> set[ProfilerActivity]:
    """Return the kinds of work that can be recorded on this machine."""
    found = {ProfilerActivity.CPU}
    return found | {ProfilerActivity.CUDA} if device_count() else found


def activities_of(
    wanted: Iterable[ProfilerActivity] | None, use_cuda: bool | None = None
) -> set[ProfilerActivity]:
    """Return the activities to record. Warn of unavailable activities, and leave them out.

    If `wanted` is None, record all available activities. `use_cuda` is an older flag for CUDA.

    Raises  ValueError for an activity that is given twice; TypeError for a value that is not an
            activity; AssertionError for an empty collection
    """
    if use_cuda is not None:
        warn_caller("`use_cuda` is deprecated, use `activities` argument instead", FutureWarning)
        known = set(supported_activities() if wanted is None else wanted) - {ProfilerActivity.CUDA}
        wanted = known | {ProfilerActivity.CUDA} if use_cuda else known
    if wanted is None:
        return supported_activities()
    found: set[ProfilerActivity] = set()
    for one in wanted:
        if not isinstance(one, ProfilerActivity):
            raise TypeError(f"Expected ProfilerActivity, got {type(one)}")
        if one in found:
            raise ValueError(f"Activity {one} specified more than once")
        found.add(one)
    if not found:
        raise AssertionError("No valid profiler activities found")
    for one in sorted(found - supported_activities() - {ProfilerActivity.PrivateUse1}, key=str):
        warn_caller(f"{one.name} is not available, disabling {one.name} profiling")
        found.discard(one)
    return found


def activities_with(device: str | None) -> set[ProfilerActivity]:
    """Return the activities to record: the CPU, and the kind of `device` unless it is None."""
    found = {ProfilerActivity.CPU}
    if device is not None:
        is_cuda = device.partition(":")[0] == "cuda"
        found.add(ProfilerActivity.CUDA if is_cuda else ProfilerActivity.PrivateUse1)
    return found


def want_devices(activities: set[ProfilerActivity]) -> bool:
    """Return whether to record the work of devices other than the CPU."""
    return not activities.isdisjoint(_OF_DEVICES)
