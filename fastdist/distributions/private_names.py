"""Functions that PyTorch keeps private in its distributions, and that packages import."""

from __future__ import annotations

from typing import Any

from ..namespace.limits import finfo
from ..tensor.tensor import Tensor


def _clipped_sigmoid(x: Tensor) -> Tensor:
    """Return the sigmoid, kept away from 0 and 1 so that its logarithms stay finite."""
    limits: Any = finfo(x.dtype)
    return x.sigmoid().clamp(min=limits.tiny, max=1.0 - limits.eps)
