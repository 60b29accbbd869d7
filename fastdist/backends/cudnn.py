"""cuDNN: not in use, but two of its switches choose how convolutions of float32 run on a GPU.

`allow_tf32`, True by default, lets them compute in TF32, which keeps 10 bits of each factor: the
convolution, its gradients and transposed convolutions. With `enabled` set to False they follow
`backends.cuda.matmul.allow_tf32` instead, as other products do. The other switches can be set, and
change nothing. All are of the process, not of a thread; each call reads them when it is queued, and
a graph that was captured keeps what it was captured with.
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
# Kernels here always add in one order.
deterministic = False


class _Switches(ModuleType):
    """This module, whose two switches of convolutions are read by kernels."""

    @property
    def allow_tf32(self) -> bool:
        """Whether convolutions of float32 may be computed in TF32."""
        return convolutions.allow_tf32

    @allow_tf32.setter
    def allow_tf32(self, allowed: bool) -> None:
        convolutions.allow_tf32 = require_bool("allow_tf32", allowed)

    @property
    def enabled(self) -> bool:
        """Whether convolutions follow `allow_tf32`, not the switch of products."""
        return convolutions.has_own_choice

    @enabled.setter
    def enabled(self, enabled: bool) -> None:
        convolutions.has_own_choice = require_bool("enabled", enabled)


def is_available() -> bool:
    """Return False."""
    return False


def version() -> int | None:
    """Return None."""
    return None


def is_acceptable(tensor: object) -> bool:
    """Return False: no tensor is given to cuDNN."""
    return False


def flags(
    enabled: bool = False,
    benchmark: bool = False,
    benchmark_limit: int = 10,
    deterministic: bool = False,
    allow_tf32: bool = True,
) -> AbstractContextManager[None]:
    """Set the switches for a block."""
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
