"""PyTorch's module for Intel's GPUs: its functions report that there is no such device."""

from __future__ import annotations

from .core import unavailable_gpus
from .core.unavailable_gpus import *  # noqa: F403
from .core.unavailable_gpus import max_memory_reserved, memory_reserved, raise_without_device

__all__ = ["max_memory_reserved", "memory_reserved"]
__all__ += unavailable_gpus.__all__

raise_without_device(
    globals(),
    "xpu",
    """
    Event Stream current_device current_stream device device_of get_device_capability
    get_device_name get_device_properties get_rng_state init initial_seed
    is_current_stream_capturing mem_get_info set_device set_rng_state set_stream stream
    synchronize
    """,
)
