"""Where PyTorch's users import Parameter from."""

from __future__ import annotations

from ..tensor.parameter import Parameter

__all__ = ["Parameter"]
