"""oneDNN: not used; its switches can be set and change nothing."""

from __future__ import annotations

from contextlib import AbstractContextManager

from ..core.missing import explain_missing
from .switches import set_for_a_block

__all__ = ["allow_tf32", "deterministic", "enabled", "flags", "is_available"]

enabled = True
deterministic = False
allow_tf32 = True


def is_available() -> bool:
    """Return False: oneDNN is not used."""
    return False


def flags(
    enabled: bool = False, deterministic: bool = False, allow_tf32: bool = True
) -> AbstractContextManager[None]:
    """Set the switches in this block."""
    return set_for_a_block(
        __name__, enabled=enabled, deterministic=deterministic, allow_tf32=allow_tf32
    )


explain_missing(__name__)
