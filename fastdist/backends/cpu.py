"""The CPU: what its kernels may use."""

from __future__ import annotations

from ..core.missing import explain_missing

__all__ = ["get_cpu_capability"]


def get_cpu_capability() -> str:
    """Return "DEFAULT": kernels are compiled for the machine that they run on."""
    return "DEFAULT"


explain_missing(__name__)
