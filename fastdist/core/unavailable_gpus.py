"""Answers for devices that fastdist has no kernels for: `mps`, `mtia` and `xpu` use them.

`__all__` lists what `mtia` and `xpu` both offer.

Queries return what a machine without such a device would; functions that need one raise.
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
    """Do nothing: no random numbers are drawn there."""


def manual_seed_all(seed: int) -> None:
    """Do nothing: no random numbers are drawn there."""


def seed() -> None:
    """Do nothing: no random numbers are drawn there."""


def seed_all() -> None:
    """Do nothing: no random numbers are drawn there."""


def get_rng_state_all() -> list[Any]:
    """Return an empty list: a state for each device."""
    return []


def set_rng_state_all(new_states: list[Any]) -> None:
    """Do nothing with the states of no devices."""


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
    """Do nothing: nothing is counted."""


def raise_without_device(names: dict[str, Any], kind: str, raising: str) -> None:
    """Give a module functions that raise DeviceError when called: they need a device of this kind.

    Args:
        names: The module's globals; `__all__` gets the names of the functions as well.
        kind: The device's type, such as "xpu".
        raising: The names, separated by blanks.
    """
    module, listed = names["__name__"], raising.split()
    words = f"fastdist has no {kind} devices: {module}.is_available() is False; use cpu or cuda"
    names.update({name: refusing(module, name, words, DeviceError) for name in listed})
    names["__all__"] += sorted(listed)
    explain_missing(module)
