"""Apple's GPUs as PyTorch's programs ask for them: fastdist has none, and says so."""

from __future__ import annotations

from .core.missing import explain_missing
from .core.unavailable_gpus import device_count, empty_cache, is_available, manual_seed

__all__ = ["device_count", "empty_cache", "is_available", "manual_seed"]

explain_missing(__name__)
