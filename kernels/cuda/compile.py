"""CUDA C++ text to machine code, with or without a GPU."""

from __future__ import annotations

import functools
import os
from typing import Final

OPTIONS: Final = ("--std=c++17",)
"""What NVRTC is told for every text. No fast-math: it loses NaN and infinities."""

ARCHITECTURES: Final = ("sm_80", "sm_90")
"""For which the tests compile every text."""


def compile_text(source: str, architecture: str = "sm_90", name: str = "kernel.cu") -> bytes:
    """Return the machine code of source for an architecture. Needs no driver and no GPU.

    Raises  cupy.cuda.compiler.CompileException with NVRTC's log
    Note    CuPy's public entry asks for a device first; the class behind it does not
    """
    from cupy.cuda.compiler import _NVRTCProgram

    options = (*OPTIONS, *header_options(), f"--gpu-architecture={architecture}")
    machine_code, _ = _NVRTCProgram(source, name, method="cubin").compile(options)
    return bytes(machine_code)


@functools.cache
def header_options() -> tuple[str, ...]:
    """Return the options that let NVRTC find cuda_fp16.h: in NVIDIA's wheels, or in a toolkit."""
    try:
        from cuda.pathfinder import find_nvidia_header_directory
    except ModuleNotFoundError:  # comes with CuPy 14
        folder = None
    else:
        folder = find_nvidia_header_directory("cudart")
    if folder is None and (toolkit := os.environ.get("CUDA_PATH")):
        folder = os.path.join(toolkit, "include")
    return () if folder is None else (f"-I{folder}",)
