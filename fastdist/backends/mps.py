"""Apple's GPUs: not in use."""

from __future__ import annotations

from ..core.missing import explain_missing

__all__ = ["is_available", "is_built", "is_macos_or_newer"]


def is_available() -> bool:
    """Return False.

    Example:
        >>> torch.backends.mps.is_available()
        False
    """
    return False


def is_built() -> bool:
    """Return False."""
    return False


def is_macos_or_newer(major: int, minor: int) -> bool:
    """Return False: nobody asks the system."""
    return False


explain_missing(__name__)
