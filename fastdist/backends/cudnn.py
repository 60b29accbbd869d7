"""cuDNN: not in use; its switches can be set all the same."""

from __future__ import annotations

from contextlib import AbstractContextManager

from ..core.missing import explain_missing
from .switches import set_for_a_block

__all__ = [
    "allow_tf32",
    "benchmark",
    "benchmark_limit",
    "deterministic",
    "enabled",
    "flags",
    "is_acceptable",
    "is_available",
    "version",
]

enabled = True
benchmark = False
benchmark_limit = 10
# Kernels here always add in one order.
deterministic = False
allow_tf32 = True


def is_available() -> bool:
    """Return False."""
    return False


def version() -> int | None:
    """Return None."""
    return None


def is_acceptable(tensor: object) -> bool:
    """Return False: no tensor is given to cuDNN."""
    return False


def flags(
    enabled: bool = False,
    benchmark: bool = False,
    benchmark_limit: int = 10,
    deterministic: bool = False,
    allow_tf32: bool = True,
) -> AbstractContextManager[None]:
    """Set the switches for a block."""
    return set_for_a_block(
        __name__,
        enabled=enabled,
        benchmark=benchmark,
        benchmark_limit=benchmark_limit,
        deterministic=deterministic,
        allow_tf32=allow_tf32,
    )


explain_missing(__name__)
