"""PyTorch's tensors without memory for its compilers: no tensor is one."""

from __future__ import annotations

from typing import Any

from ..core.missing import explain_missing
from . import FakeTensor, FakeTensorMode

__all__ = ["FakeTensor", "FakeTensorMode", "is_fake", "maybe_get_fake_mode"]


def is_fake(x: Any) -> bool:
    """Return False: device("meta") has tensors without memory, which are ordinary tensors."""
    return False


def maybe_get_fake_mode(t: Any) -> None:
    """Return None: no tensor belongs to such a mode."""


explain_missing(__name__)
