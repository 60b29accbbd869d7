"""Switches of einsum's contraction order; they change nothing: einsum goes from left to right."""

from __future__ import annotations

from ..core.missing import explain_missing

enabled = False
strategy: str | None = None


def is_available() -> bool:
    """Return False: einsum contracts its operands from left to right."""
    return False


def get_opt_einsum() -> None:
    """Return None: opt_einsum is not used."""


explain_missing(__name__)
