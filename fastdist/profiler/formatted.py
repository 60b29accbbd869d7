"""Formats times and bytes for tables; adds device times under older names to events."""

from __future__ import annotations

import warnings
from typing import Any


def duration(us: float, unit: str | None = None) -> str:
    """Return microseconds as text in s, ms or us; if unit is None, in the unit that fits."""
    if unit == "s" or (unit is None and us >= 1e6):
        return f"{us / 1e6:.3f}s"
    if unit == "ms" or (unit is None and us >= 1e3):
        return f"{us / 1e3:.3f}ms"
    return f"{us:.3f}us"


def memory(size_bytes: int) -> str:
    """Return a number of bytes as text in a unit that fits."""
    for unit, name in ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")):
        if abs(size_bytes) >= unit:
            return f"{size_bytes / unit:.2f} {name}"
    return f"{size_bytes} B"


def _shown(name: str) -> Any:
    return property(lambda self: duration(getattr(self, name)), doc=f"{name} as a text.")


def _older(name: str, of_today: str) -> Any:
    def get(self: Any) -> Any:
        warnings.warn(
            f"`{name}` is deprecated, please use `{of_today}` instead.", FutureWarning, stacklevel=2
        )
        return getattr(self, of_today)

    return property(get, doc=f"{of_today}, under its older name.")


class Formatted:
    """The properties that events and averages share."""

    # Constants: ops have no overloads in fastdist, and there is no legacy profiler.
    overload_name = ""
    is_legacy = False
    cpu_time_str = _shown("cpu_time")
    cpu_time_total_str = _shown("cpu_time_total")
    self_cpu_time_total_str = _shown("self_cpu_time_total")
    device_time_str = _shown("device_time")
    device_time_total_str = _shown("device_time_total")
    self_device_time_total_str = _shown("self_device_time_total")
    cuda_time = _older("cuda_time", "device_time")
    cuda_time_total = _older("cuda_time_total", "device_time_total")
    self_cuda_time_total = _older("self_cuda_time_total", "self_device_time_total")
    self_cuda_memory_usage = _older("self_cuda_memory_usage", "self_device_memory_usage")
