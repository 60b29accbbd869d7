"""cuDNN: not in use, but two of its switches apply to float32 convolutions on a GPU.

`allow_tf32` (True by default) lets convolutions, transposed convolutions and their gradients
compute in TF32, which keeps 10 bits of each factor's mantissa. With `enabled` set to False,
convolutions follow `backends.cuda.matmul.allow_tf32` instead, like matrix products. The other
switches can be set, and change nothing. All switches belong to the process, not to a thread. A call
reads the switches when the call is queued. A captured graph keeps the settings of its capture.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from types import ModuleType

from ..core.missing import explain_missing
from ..core.precision import convolutions
from .switches import Float32Precision, require_bool, set_for_a_block

__all__ = [
    "allow_tf32",
    "benchmark",
    "benchmark_limit",
    "conv",
    "deterministic",
    "enabled",
    "flags",
    "is_acceptable",
    "is_available",
    "version",
]

enabled: bool
allow_tf32: bool
benchmark = False
benchmark_limit = 10
# This switch changes nothing: kernels always add in the same order, so results are reproducible.
deterministic = False


class _Switches(ModuleType):
    """The class of this module; kernels read the module's two switches of convolutions."""

    @property
    def allow_tf32(self) -> bool:
        """Whether float32 convolutions may be computed in TF32."""
        return convolutions.allow_tf32

    @allow_tf32.setter
    def allow_tf32(self, allowed: bool) -> None:
        convolutions.allow_tf32 = require_bool("allow_tf32", allowed)

    @property
    def enabled(self) -> bool:
        """Whether convolutions follow `allow_tf32` and not the switch of matrix products."""
        return convolutions.has_own_choice

    @enabled.setter
    def enabled(self, enabled: bool) -> None:
        convolutions.has_own_choice = require_bool("enabled", enabled)


def is_available() -> bool:
    """Return False: cuDNN is not used."""
    return False


def version() -> int | None:
    """Return None: cuDNN is not used."""
    return None


def is_acceptable(tensor: object) -> bool:
    """Return False: cuDNN is not used."""
    return False


def flags(
    enabled: bool = False,
    benchmark: bool = False,
    benchmark_limit: int = 10,
    deterministic: bool = False,
    allow_tf32: bool = True,
) -> AbstractContextManager[None]:
    """Set the switches in this block."""
    return set_for_a_block(
        __name__,
        enabled=enabled,
        benchmark=benchmark,
        benchmark_limit=benchmark_limit,
        deterministic=deterministic,
        allow_tf32=allow_tf32,
    )


explain_missing(__name__)
sys.modules[__name__].__class__ = _Switches
conv = Float32Precision(sys.modules[__name__])
