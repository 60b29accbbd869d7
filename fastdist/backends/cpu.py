"""The CPU backend: the instruction set that kernels use."""

from __future__ import annotations

from ..core.missing import explain_missing

__all__ = ["get_cpu_capability"]


def get_cpu_capability() -> str:
    """Return "DEFAULT": kernels are compiled for the processor on which they run."""
    return "DEFAULT"


explain_missing(__name__)
