"""PyTorch's module for Apple's GPUs: its functions report that there is no such device."""

from __future__ import annotations

from .core.unavailable_gpus import (
    device_count,
    empty_cache,
    is_available,
    manual_seed,
    raise_without_device,
)

__all__ = [
    "device_count",
    "empty_cache",
    "is_available",
    "manual_seed",
]

raise_without_device(
    globals(),
    "mps",
    """
    Event compile_shader current_allocated_memory driver_allocated_memory get_rng_state
    recommended_max_memory seed set_per_process_memory_fraction set_rng_state synchronize
    """,
)
