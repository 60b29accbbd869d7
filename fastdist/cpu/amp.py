"""Mixed precision on the CPU under its older name: `from torch.cpu.amp import autocast`."""

from __future__ import annotations

from ..amp.older_names import AutocastOfDevice, GradScalerOfDevice
from ..core.dtypes import bfloat16
from ..core.missing import explain_missing

__all__ = ["GradScaler", "autocast"]


class autocast(AutocastOfDevice):
    """`amp.autocast("cpu")`."""

    _device_type = "cpu"
    _dtype = bfloat16


class GradScaler(GradScalerOfDevice):
    """`amp.GradScaler("cpu")`."""

    _device_type = "cpu"


# Makes PyTorch's modules below this one importable: see core/alias_names.py.
__path__: list[str] = []

explain_missing(__name__)
