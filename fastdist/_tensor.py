"""PyTorch's module of the class Tensor, for `from torch._tensor import Tensor`."""

from __future__ import annotations

from .core.missing import explain_missing
from .serialization.rebuilding import rebuild_from_type_v2 as _rebuild_from_type_v2  # noqa: F401
from .tensor.tensor import Tensor

__all__ = ["Tensor"]

explain_missing(__name__)
