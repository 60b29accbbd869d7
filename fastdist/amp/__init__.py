"""Mixed precision: selected ops compute in float16 or bfloat16, and losses can be scaled.

autocast_mode.py has `autocast`, a context in which ops cast their operands;
interpreters/autocast.py has the lists of these ops, which are PyTorch's lists.
grad_scaler.py scales losses so that small gradients do not become 0. switches.py has functions that
switch autocast without a `with` block, for old programs. older_names.py has the classes for one
type of device (`cuda.amp`).
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
