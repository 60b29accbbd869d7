"""Mixed precision under the names of older PyTorch programs: `from torch.cuda.amp import ...`."""

from __future__ import annotations

from typing import Any

from ..amp import custom_bwd as _custom_bwd
from ..amp import custom_fwd as _custom_fwd
from ..amp.older_names import AutocastOfDevice, GradScalerOfDevice
from ..core.dtypes import DType, float16
from ..core.missing import explain_missing

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


class autocast(AutocastOfDevice):
    """`amp.autocast("cuda")`."""

    _device_type = "cuda"
    _dtype = float16


class GradScaler(GradScalerOfDevice):
    """`amp.GradScaler("cuda")`."""

    _device_type = "cuda"


def custom_fwd(fwd: Any = None, *, cast_inputs: DType | None = None) -> Any:
    """`amp.custom_fwd(device_type="cuda")`."""
    return _custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd: Any) -> Any:
    """`amp.custom_bwd(device_type="cuda")`."""
    return _custom_bwd(bwd, device_type="cuda")


# Makes PyTorch's modules below this one importable: see core/alias_names.py.
__path__: list[str] = []

explain_missing(__name__)
