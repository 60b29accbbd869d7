"""Mixed precision: selected ops compute in float16 or bfloat16, and losses are scaled for it.

autocast_mode.py has `autocast`, the block in which ops cast; interpreters/autocast.py lists the
ops, as PyTorch does.
grad_scaler.py scales losses so that small gradients do not become 0. switches.py has the functions
with which old programs build such blocks, and older_names.py the classes for one kind of device
(`cuda.amp`).
"""

from __future__ import annotations

from ..core.missing import explain_missing
from . import autocast_mode, grad_scaler
from .autocast_mode import autocast, custom_bwd, custom_fwd, is_autocast_available
from .grad_scaler import GradScaler

__all__ = [
    "GradScaler",
    "autocast",
    "autocast_mode",
    "custom_bwd",
    "custom_fwd",
    "grad_scaler",
    "is_autocast_available",
]

explain_missing(__name__)
