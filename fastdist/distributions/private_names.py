"""Private functions of PyTorch's distributions that packages import."""

from __future__ import annotations

from typing import Any

from ..namespace.limits import finfo
from ..tensor.tensor import Tensor


def _clipped_sigmoid(x: Tensor) -> Tensor:
    """Return the sigmoid s of x, clamped so that log(s) and log(1 - s) are finite."""
    limits: Any = finfo(x.dtype)
    return x.sigmoid().clamp(min=limits.tiny, max=1.0 - limits.eps)
