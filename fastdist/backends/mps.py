"""Apple's GPUs: not supported."""

from __future__ import annotations

from ..core.missing import explain_missing

__all__ = ["is_available", "is_built", "is_macos_or_newer"]


def is_available() -> bool:
    """Return False: Apple's GPUs are not supported.

    Example:
        >>> torch.backends.mps.is_available()
        False
    """
    return False


def is_built() -> bool:
    """Return False: Apple's GPUs are not supported."""
    return False


def is_macos_or_newer(major: int, minor: int) -> bool:
    """Return False: Apple's GPUs are not supported."""
    return False


explain_missing(__name__)
