"""Switches for NVIDIA GPUs: only the switches of TF32 change results."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..core.missing import explain_missing
from ..core.precision import products
from .switches import allows_tf32, require_bool

__all__ = [
    "cudnn_sdp_enabled",
    "enable_cudnn_sdp",
    "enable_flash_sdp",
    "enable_math_sdp",
    "enable_mem_efficient_sdp",
    "flash_sdp_enabled",
    "is_built",
    "math_sdp_enabled",
    "matmul",
    "mem_efficient_sdp_enabled",
    "preferred_linalg_library",
    "sdp_kernel",
]


class _Matmul:
    """Switches of matrix products. `allow_tf32` is another name for the setting of
    set_float32_matmul_precision; the other switches change nothing.
    """

    allow_fp16_reduced_precision_reduction = True
    allow_bf16_reduced_precision_reduction = True
    allow_fp16_accumulation = False

    @property
    def allow_tf32(self) -> bool:
        """Whether float32 matrix products may be computed in TF32."""
        return products.precision != "highest"

    @allow_tf32.setter
    def allow_tf32(self, allowed: bool) -> None:
        products.choose("high" if require_bool("allow_tf32", allowed) else "highest")

    @property
    def fp32_precision(self) -> str:
        """The precision of float32 matrix products: "tf32" if that is allowed, else "none"."""
        return "tf32" if self.allow_tf32 else "none"

    @fp32_precision.setter
    def fp32_precision(self, precision: str) -> None:
        self.allow_tf32 = allows_tf32(precision)


matmul = _Matmul()
_sdp = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True}


def is_built() -> bool:
    """Return whether CuPy is installed."""
    return importlib.util.find_spec("cupy") is not None


def _asks(name: str) -> Callable[[], bool]:
    def enabled() -> bool:
        return _sdp[name]

    enabled.__name__ = enabled.__qualname__ = f"{name}_sdp_enabled"
    enabled.__doc__ = f"Return whether the {name} form of attention is allowed."
    return enabled


def _sets(name: str) -> Callable[[bool], None]:
    def enable(enabled: bool) -> None:
        _sdp[name] = bool(enabled)

    enable.__name__ = enable.__qualname__ = f"enable_{name}_sdp"
    enable.__doc__ = f"Allow the {name} form of attention, or not: there is one form here."
    return enable


flash_sdp_enabled, enable_flash_sdp = _asks("flash"), _sets("flash")
mem_efficient_sdp_enabled = _asks("mem_efficient")
enable_mem_efficient_sdp = _sets("mem_efficient")
math_sdp_enabled, enable_math_sdp = _asks("math"), _sets("math")
cudnn_sdp_enabled, enable_cudnn_sdp = _asks("cudnn"), _sets("cudnn")


@contextmanager
def sdp_kernel(
    enable_flash: bool = True,
    enable_math: bool = True,
    enable_mem_efficient: bool = True,
    enable_cudnn: bool = True,
) -> Iterator[None]:
    """Set the allowed implementations of attention in this block; fastdist has only one."""
    before = dict(_sdp)
    _sdp.update(
        flash=enable_flash, math=enable_math, mem_efficient=enable_mem_efficient, cudnn=enable_cudnn
    )
    try:
        yield
    finally:
        _sdp.update(before)


def preferred_linalg_library(backend: Any = None) -> str:
    """Return "default": there is only one library."""
    return "default"


explain_missing(__name__)
