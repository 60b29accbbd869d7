"""The instruction sets of the processor, under PyTorch's names."""

from __future__ import annotations

import functools
import platform
from pathlib import Path


@functools.cache
def _flags() -> frozenset[str]:
    """Return the flags of the processor that Linux lists; an empty set on other systems."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return frozenset()
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return frozenset()


def get_capabilities() -> dict[str, bool | str]:
    """Return, by name, whether the processor has each instruction set; also its architecture."""
    found: dict[str, bool | str] = {"architecture": platform.machine()}
    names = "avx avx2 avx512f avx512_bf16 avx512_vnni amx_tile amx_bf16 amx_int8 fma f16c"
    for name in names.split():
        found[name.removesuffix("f") if name == "avx512f" else name] = name in _flags()
    return found


def _is_avx2_supported() -> bool:
    """Return whether the processor has AVX2."""
    return "avx2" in _flags()


def _is_avx512_supported() -> bool:
    """Return whether the processor has AVX-512."""
    return "avx512f" in _flags()


def _is_avx512_bf16_supported() -> bool:
    """Return whether the processor has AVX-512's instructions for bfloat16."""
    return "avx512_bf16" in _flags()


def _is_vnni_supported() -> bool:
    """Return whether the processor has AVX-512's instructions for int8."""
    return "avx512_vnni" in _flags()


def _is_amx_tile_supported() -> bool:
    """Return whether the processor has AMX's tiles."""
    return "amx_tile" in _flags()
