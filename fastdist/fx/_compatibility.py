"""The decorator with which PyTorch marks the stability of a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ..core.missing import explain_missing

__all__ = ["compatibility"]
_T = TypeVar("_T", bound=Callable[..., Any])


def compatibility(is_backward_compatible: bool) -> Callable[[_T], _T]:
    """Return a decorator that returns its function or class unchanged."""
    return lambda fn: fn


explain_missing(__name__)
