"""PyTorch's fake tensors, for its compilers: not supported."""

from __future__ import annotations

from typing import Any

from ..core.missing import explain_missing
from . import FakeTensor, FakeTensorMode

__all__ = ["FakeTensor", "FakeTensorMode", "is_fake", "maybe_get_fake_mode"]


def is_fake(x: Any) -> bool:
    """Return False: a tensor on device("meta") is an ordinary tensor, not a fake tensor."""
    return False


def maybe_get_fake_mode(t: Any) -> None:
    """Return None: fake tensors are not supported."""


explain_missing(__name__)
