"""Mixed precision for one kind of device, under the older names `cpu.amp` and `cuda.amp`."""

from __future__ import annotations

from typing import ClassVar

from ..core.dtypes import DType
from .autocast_mode import autocast
from .grad_scaler import GradScaler

__all__ = ["AutocastOfDevice", "GradScalerOfDevice"]


class AutocastOfDevice(autocast):
    """`autocast` for the device type and with the default dtype that a subclass sets."""

    _device_type: ClassVar[str]
    _dtype: ClassVar[DType]

    def __init__(
        self, enabled: bool = True, dtype: DType | None = None, cache_enabled: bool = True
    ) -> None:
        dtype = self._dtype if dtype is None else dtype
        super().__init__(self._device_type, dtype, enabled, cache_enabled)


class GradScalerOfDevice(GradScaler):
    """`GradScaler` for the device type that a subclass sets."""

    _device_type: ClassVar[str]

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        settings = init_scale, growth_factor, backoff_factor, growth_interval, enabled
        super().__init__(self._device_type, *settings)
