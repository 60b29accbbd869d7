"""Answers for GPUs that fastdist has no kernels for: `fastdist.mps` and `fastdist.xpu` use them."""

from __future__ import annotations

__all__ = ["device_count", "empty_cache", "is_available", "manual_seed"]


def is_available() -> bool:
    """Return False."""
    return False


def device_count() -> int:
    """Return 0."""
    return 0


def empty_cache() -> None:
    """Do nothing: there is no memory to release."""


def manual_seed(seed: int) -> None:
    """Do nothing: no random numbers are drawn there."""
