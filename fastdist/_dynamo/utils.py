"""Questions to PyTorch's compiler, which is switched off."""

from __future__ import annotations

from typing import Any

from ..core.missing import explain_missing

__all__ = ["is_compile_supported"]


def is_compile_supported(device_type: Any) -> bool:
    """Return False: nothing is compiled for any device."""
    return False


explain_missing(__name__)
