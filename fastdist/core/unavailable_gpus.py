"""Functions of the modules `mps`, `mtia` and `xpu`: fastdist has no kernels for these devices.

`__all__` lists the names that both `mtia` and `xpu` export.

Queries return the values of a machine without such a device. Functions that need a device raise
DeviceError.
"""

from __future__ import annotations

from typing import Any

from .errors import DeviceError
from .missing import explain_missing, refusing

__all__ = [
    "device_count",
    "empty_cache",
    "get_rng_state_all",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "memory_allocated",
    "memory_stats",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_rng_state_all",
]


def is_available() -> bool:
    """Return False."""
    return False


def is_initialized() -> bool:
    """Return False."""
    return False


def is_bf16_supported() -> bool:
    """Return False."""
    return False


def device_count() -> int:
    """Return 0."""
    return 0


def empty_cache() -> None:
    """Do nothing: there is no memory to release."""


def manual_seed(seed: int) -> None:
    """Do nothing: there is no device with a random number generator."""


def manual_seed_all(seed: int) -> None:
    """Do nothing: there is no device with a random number generator."""


def seed() -> None:
    """Do nothing: there is no device with a random number generator."""


def seed_all() -> None:
    """Do nothing: there is no device with a random number generator."""


def get_rng_state_all() -> list[Any]:
    """Return an empty list, because there are no devices with a state."""
    return []


def set_rng_state_all(new_states: list[Any]) -> None:
    """Do nothing: there are no devices that could have a state."""


def memory_allocated(device: Any = None) -> int:
    """Return 0 bytes."""
    return 0


def max_memory_allocated(device: Any = None) -> int:
    """Return 0 bytes."""
    return 0


def memory_reserved(device: Any = None) -> int:
    """Return 0 bytes."""
    return 0


def max_memory_reserved(device: Any = None) -> int:
    """Return 0 bytes."""
    return 0


def memory_stats(device: Any = None) -> dict[str, Any]:
    """Return an empty dict."""
    return {}


def reset_peak_memory_stats(device: Any = None) -> None:
    """Do nothing: no statistics are collected."""


def raise_without_device(names: dict[str, Any], kind: str, raising: str) -> None:
    """Add functions that need a device of this kind to a module. These functions raise DeviceError
    when they are called.

    Args:
        names: The module's globals. The function names are also added to the module's `__all__`.
        kind: The device's type, such as "xpu".
        raising: The names of the functions, separated by spaces.
    """
    module, listed = names["__name__"], raising.split()
    words = f"fastdist has no {kind} devices: {module}.is_available() is False; use cpu or cuda"
    names.update({name: refusing(module, name, words, DeviceError) for name in listed})
    names["__all__"] += sorted(listed)
    explain_missing(module)
