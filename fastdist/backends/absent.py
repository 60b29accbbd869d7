"""The functions of libraries that PyTorch may use and fastdist does not."""

from __future__ import annotations

from ..core.missing import explain_missing


def is_available() -> bool:
    """Return False: fastdist does not use this library."""
    return False


def version() -> None:
    """Return None: fastdist does not use this library."""


explain_missing(__name__)
