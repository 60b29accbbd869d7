"""Grad modes, under PyTorch's module name."""

from __future__ import annotations

from ..core.missing import explain_missing
from ..graph.modes import enable_grad, inference_mode, no_grad, set_grad_enabled

__all__ = ["enable_grad", "inference_mode", "no_grad", "set_grad_enabled"]

explain_missing(__name__)
