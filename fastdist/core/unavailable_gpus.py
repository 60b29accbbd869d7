"""Answers for devices that fastdist has no kernels for: `mps`, `mtia` and `xpu` use them.

Questions are answered as by a machine without such a device; what would use it raises.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from .errors import DeviceError

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
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
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


def without_device(module: str, kind: str, names: str) -> dict[str, Callable[..., NoReturn]]:
    """Return functions that raise DeviceError when called: they need a device of this kind."""
    return {name: _raising(module, kind, name) for name in names.split()}


def _raising(module: str, kind: str, name: str) -> Callable[..., NoReturn]:
    words = f"fastdist has no {kind} devices: {module}.is_available() is False; use cpu or cuda"

    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise DeviceError(f"{module}.{name}: {words}")

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__module__ = module
    refuse.__doc__ = f"Raise DeviceError: {words}."
    return refuse
