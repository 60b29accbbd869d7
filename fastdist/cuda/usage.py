"""GPU utilization, memory, temperature and power over all processes, as nvidia-smi reports them.

Raises  DeviceError without that GPU; ModuleNotFoundError without `pip install nvidia-ml-py`
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from ..core.folded_frames import fold_public
from ..devices.gpus import index_of


def _nvml(device: Any) -> AbstractContextManager[Any]:
    from ..devices.cuda.nvml import nvml_of  # imported late: few programs need it

    return nvml_of(index_of(device))


def utilization(device: Any = None) -> int:
    """Return the percentage of time, over the last sample period, in which a kernel ran."""
    with _nvml(device) as nvml:
        return int(nvml.library.nvmlDeviceGetUtilizationRates(nvml.handle).gpu)


def memory_usage(device: Any = None) -> int:
    """Return the percentage of time, over the last sample period, in which memory was accessed."""
    with _nvml(device) as nvml:
        return int(nvml.library.nvmlDeviceGetUtilizationRates(nvml.handle).memory)


def device_memory_used(device: Any = None) -> int:
    """Return the bytes of GPU memory that all processes use."""
    with _nvml(device) as nvml:
        return int(nvml.library.nvmlDeviceGetMemoryInfo(nvml.handle).used)


def temperature(device: Any = None) -> int:
    """Return the GPU's temperature in degrees Celsius."""
    with _nvml(device) as nvml:
        return int(nvml.library.nvmlDeviceGetTemperature(nvml.handle, 0))


def power_draw(device: Any = None) -> int:
    """Return the GPU's power draw in milliwatts."""
    with _nvml(device) as nvml:
        return int(nvml.library.nvmlDeviceGetPowerUsage(nvml.handle))


def clock_rate(device: Any = None) -> int:
    """Return the clock rate of the GPU's multiprocessors in MHz."""
    with _nvml(device) as nvml:
        return int(nvml.library.nvmlDeviceGetClockInfo(nvml.handle, 1))


def list_gpu_processes(device: Any = None) -> str:
    """Return a readable text with a line for each process that uses the GPU."""
    with _nvml(device) as nvml:
        running = nvml.library.nvmlDeviceGetComputeRunningProcesses(nvml.handle)
    lines = [f"GPU:{index_of(device)}"]
    lines += [
        f"process {one.pid:>10d} uses {(one.usedGpuMemory or 0) / 2**20:>12.3f} MB GPU memory"
        for one in running
    ]
    return "\n".join(lines if running else [*lines, "no processes are running"])


fold_public(__name__)
