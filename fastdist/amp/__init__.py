"""Mixed precision: what PyTorch's lists name computes in float16, and losses are scaled for it.

autocast_mode.py has the block in which ops cast (interpreters/autocast.py has the lists of ops),
grad_scaler.py keeps small gradients from becoming 0. switches.py has the functions with which old
programs build such blocks, older_names.py both for one kind of device (`cuda.amp`).
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
