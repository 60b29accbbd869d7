"""Mixed precision on the CPU under its older name: `from torch.cpu.amp import autocast`."""

from __future__ import annotations

from ..amp import GradScaler as _GradScaler
from ..amp import autocast as _autocast
from ..core.dtypes import DType, bfloat16
from ..core.missing import explain_missing

__all__ = ["GradScaler", "autocast"]


class autocast(_autocast):
    """`amp.autocast("cpu")`."""

    def __init__(
        self, enabled: bool = True, dtype: DType = bfloat16, cache_enabled: bool = True
    ) -> None:
        super().__init__("cpu", dtype, enabled, cache_enabled)


class GradScaler(_GradScaler):
    """`amp.GradScaler("cpu")`."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        super().__init__("cpu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)


explain_missing(__name__)
