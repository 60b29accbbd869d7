"""Intel's GPUs as PyTorch's programs ask for them: fastdist has none, and says so."""

from __future__ import annotations

from .core.missing import explain_missing
from .core.unavailable_gpus import (
    device_count,
    empty_cache,
    get_rng_state_all,
    is_available,
    is_bf16_supported,
    is_initialized,
    manual_seed,
    manual_seed_all,
    max_memory_allocated,
    max_memory_reserved,
    memory_allocated,
    memory_reserved,
    memory_stats,
    reset_peak_memory_stats,
    seed,
    seed_all,
    set_rng_state_all,
    without_device,
)

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

_RAISING = without_device(
    __name__,
    "xpu",
    """
        Event Stream current_device current_stream device device_of get_device_capability
        get_device_name get_device_properties get_rng_state init initial_seed
        is_current_stream_capturing mem_get_info set_device set_rng_state set_stream stream
        synchronize
        """,
)
globals().update(_RAISING)
__all__ += sorted(_RAISING)  # noqa: PLE0605 (the names of functions, all strings)
explain_missing(__name__)
