"""Autocast without a block: what PyTorch's own `autocast` is made of, for programs that are old.

They apply to one thread, like `autocast` itself. A switch inside of a block ends with the block.
"""

from __future__ import annotations

from typing import Any

from ..core.dtypes import DType
from ..interpreters import autocast as casts
from .autocast_mode import can_cast, get_autocast_dtype, is_autocast_enabled


def set_autocast_enabled(device_type: Any, enabled: bool | None = None) -> None:
    """Cast on a type of device from now on, or no longer; of a bool alone, on "cuda".

    Note    where the device or its dtype is not there a warning says so, and nothing is cast
    """
    if enabled is None:
        device_type, enabled = "cuda", device_type
    dtype = get_autocast_dtype(device_type)
    casts.switch(device_type, dtype if enabled and can_cast(device_type, dtype) else None)


def set_autocast_dtype(device_type: str, dtype: DType) -> None:
    """Set the dtype to which blocks without `dtype=` cast on a type of device, from now on."""
    casts.casts.chosen[device_type] = dtype
    if is_autocast_enabled(device_type):
        casts.switch(device_type, dtype if can_cast(device_type, dtype) else None)


def is_autocast_cpu_enabled() -> bool:
    """Return whether this thread casts on the CPU now."""
    return is_autocast_enabled("cpu")


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """Cast on the CPU from now on, or no longer."""
    set_autocast_enabled("cpu", enabled)


def get_autocast_cpu_dtype() -> DType:
    """Return the dtype to which the CPU casts, or would."""
    return get_autocast_dtype("cpu")


def get_autocast_gpu_dtype() -> DType:
    """Return the dtype to which a GPU casts, or would."""
    return get_autocast_dtype("cuda")


def set_autocast_cpu_dtype(dtype: DType) -> None:
    """Set the dtype to which autocast casts on the CPU."""
    set_autocast_dtype("cpu", dtype)


def set_autocast_gpu_dtype(dtype: DType) -> None:
    """Set the dtype to which autocast casts on a GPU."""
    set_autocast_dtype("cuda", dtype)


def is_autocast_cache_enabled() -> bool:
    """Return whether a parameter that was cast is kept for its next use."""
    return casts.casts.is_cached


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Keep parameters that were cast for their next use, or do not."""
    casts.casts.is_cached = bool(enabled)


def clear_autocast_cache() -> None:
    """Forget the parameters that were cast."""
    casts.casts.cache.clear()


def autocast_increment_nesting() -> int:
    """Count one block more around this thread's work; return how many there are."""
    casts.casts.depth += 1
    return casts.casts.depth


def autocast_decrement_nesting() -> int:
    """Count one block less around this thread's work; return how many there are."""
    casts.casts.depth -= 1
    return casts.casts.depth
