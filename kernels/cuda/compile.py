"""Compiles CUDA C++ source to machine code, with or without a GPU."""

from __future__ import annotations

import functools
import os
from typing import Final

OPTIONS: Final = ("--std=c++17",)
"""NVRTC's options for every text. No fast-math: it loses NaN and infinities."""

ARCHITECTURES: Final = ("sm_80", "sm_90", "sm_100")
"""For which the tests compile every text."""


def compile_text(source: str, architecture: str = "sm_90", name: str = "kernel.cu") -> bytes:
    """Return the machine code of `source` for an architecture. No driver and no GPU is needed.

    Raises  cupy.cuda.compiler.CompileException, or cuda.core's NVRTCError, with NVRTC's log
    Note    CuPy's public function queries a device first; the private class that it uses does not.
            If CuPy is missing or no longer has that class, cuda.core compiles (`pip install
            'cuda-core[cu12]'`)
    """
    try:
        from cupy.cuda.compiler import _NVRTCProgram
    except ImportError:
        return _compile_by_cuda_core(source, architecture, name)

    options = (*OPTIONS, *header_options(), f"--gpu-architecture={architecture}")
    machine_code, _ = _NVRTCProgram(source, name, method="cubin").compile(options)
    return bytes(machine_code)


def _compile_by_cuda_core(source: str, architecture: str, name: str) -> bytes:
    from cuda.core import Program, ProgramOptions

    options = ProgramOptions(
        name=name,
        std=OPTIONS[0].removeprefix("--std="),
        arch=architecture,
        include_path=[option.removeprefix("-I") for option in header_options()],
    )
    return bytes(Program(source, "c++", options).compile("cubin").code)


@functools.cache
def header_options() -> tuple[str, ...]:
    """Return the options with which NVRTC finds cuda_fp16.h: in NVIDIA's wheels, or in a
    toolkit.
    """
    try:
        from cuda.pathfinder import find_nvidia_header_directory
    except ModuleNotFoundError:  # cuda.pathfinder comes with CuPy 14
        folder = None
    else:
        folder = find_nvidia_header_directory("cudart")
    if folder is None and (toolkit := os.environ.get("CUDA_PATH")):
        folder = os.path.join(toolkit, "include")
    return () if folder is None else (f"-I{folder}",)
