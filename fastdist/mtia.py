"""PyTorch's module for Meta's accelerators: its functions report that there is no such device."""

from __future__ import annotations

from .core import unavailable_gpus
from .core.unavailable_gpus import *  # noqa: F403
from .core.unavailable_gpus import raise_without_device

__all__: list[str] = []
__all__ += unavailable_gpus.__all__

raise_without_device(
    globals(),
    "mtia",
    """
    Event Stream current_device current_stream default_stream device get_device_capability
    get_device_properties get_rng_state init initial_seed set_device set_rng_state
    set_stream stream synchronize
    """,
)
