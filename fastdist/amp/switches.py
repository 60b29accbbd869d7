"""Functions that switch autocast without a block, for old programs.

These functions apply to the calling thread, like `autocast`. A setting that is changed inside of an
autocast block is restored at the end of the block.
"""

from __future__ import annotations

from typing import Any

from ..core.dtypes import DType
from ..core.folded_frames import fold_public
from ..interpreters import autocast as casts
from .autocast_mode import can_cast, get_autocast_dtype, is_autocast_enabled


def set_autocast_enabled(device_type: Any, enabled: bool | None = None) -> None:
    """Switch autocast on or off for a device type; with a bool as the only argument, for "cuda".

    Note    warns and casts nothing if the device or its dtype is not available
    """
    if enabled is None:
        device_type, enabled = "cuda", device_type
    dtype = get_autocast_dtype(device_type)
    casts.switch(device_type, dtype if enabled and can_cast(device_type, dtype) else None)


def set_autocast_dtype(device_type: str, dtype: DType) -> None:
    """Set the dtype of later autocast blocks without `dtype=` for a device type. If autocast is on,
    also change the dtype in use.
    """
    casts.casts.chosen[device_type] = dtype
    if is_autocast_enabled(device_type):
        casts.switch(device_type, dtype if can_cast(device_type, dtype) else None)


def is_autocast_cpu_enabled() -> bool:
    """Return whether autocast is on in this thread for the CPU."""
    return is_autocast_enabled("cpu")


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """Switch autocast for the CPU on or off."""
    set_autocast_enabled("cpu", enabled)


def get_autocast_cpu_dtype() -> DType:
    """Return the dtype of autocast on the CPU; see `get_autocast_dtype`."""
    return get_autocast_dtype("cpu")


def get_autocast_gpu_dtype() -> DType:
    """Return the dtype of autocast on a GPU; see `get_autocast_dtype`."""
    return get_autocast_dtype("cuda")


def set_autocast_cpu_dtype(dtype: DType) -> None:
    """Set the dtype to which autocast casts on the CPU."""
    set_autocast_dtype("cpu", dtype)


def set_autocast_gpu_dtype(dtype: DType) -> None:
    """Set the dtype to which autocast casts on a GPU."""
    set_autocast_dtype("cuda", dtype)


def is_autocast_cache_enabled() -> bool:
    """Return whether the results of casting parameters are cached."""
    return casts.casts.is_cached


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Choose whether the results of casting parameters are cached."""
    casts.casts.is_cached = bool(enabled)


def clear_autocast_cache() -> None:
    """Empty the cache of cast parameters."""
    casts.casts.cache.clear()


def autocast_increment_nesting() -> int:
    """Add one to this thread's count of nested autocast blocks, and return the count."""
    casts.casts.depth += 1
    return casts.casts.depth


def autocast_decrement_nesting() -> int:
    """Subtract one from this thread's count of nested autocast blocks, and return the count."""
    casts.casts.depth -= 1
    return casts.casts.depth


fold_public(__name__)
