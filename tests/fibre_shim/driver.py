"""Run planned CUDA launches on NumPy arrays: g++ compiles the source, and CUDA threads are fibres.

A fibre is a user-space thread: fibres.cpp switches between them at barriers.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import math
import os
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from fastdist.kernels.cuda.launch import Launch, Scratch, Struct
from tests.fibre_shim.fences import Fences

SEEDS: Final = (0, 1, 2)
_FOLDER: Final = Path(__file__).parent
_FLAGS: Final = (
    *("-std=c++20", "-fPIC", "-fvisibility=hidden", "-fno-gnu-unique", "-w"),
    # Some systems enable these two features for some commands only. Disable both, because a
    # precompiled header can only be used with the flags of its compilation.
    "-U_FORTIFY_SOURCE",
    "-fno-stack-protector",
)
# Kernels throw nothing, and compiling exception tables took 5 % of the CPU time.
_THROWS_NOTHING: Final = ("-fno-exceptions", "-fno-asynchronous-unwind-tables")
# Thousands of sources run for milliseconds each. With -O1 they would take 1.5 times as long to
# compile, and as long to run as with -O0.
_QUICKLY: Final = "-O0"
# Products of tiles run much longer. On an AMD EPYC (Zen 4) their tests took 51 s of CPU time with
# -O0 and 22 s with -O1, without compilation, and 61 s and 44 s with compilation.
_OPTIMISED: Final = "-O1"
_PRODUCT_OF_TILES: Final = "void multiply("
_KERNEL: Final = re.compile(
    r'extern "C" __global__ void\s+(?:__launch_bounds__\([^)]*\)\s*)?(\w+)\(([^)]*)\)'
)
# Link no libraries: linking takes as long as compiling a source, and they are loaded already.
_ALONE: Final = ("-shared", "-nostdlib", "-fno-use-linker-plugin")
# The folder of compiled files, kept between runs and shared by checkouts. The name of a file is a
# hash of everything that determines its content.
_CACHE: Final = Path(tempfile.gettempdir()) / f"fastdist-fibres-{os.getuid()}"
# The pattern with which fibres.cpp fills shared memory.
_PATTERN: Final = np.uint64(0x7FF4DEAD7FA4DEAD)

# The fibres' state is global, and ctypes releases the GIL: allow one launch at a time.
_running: Final = threading.Lock()


class KernelError(Exception):
    """An error in a kernel, such as a divergent barrier or a write outside of its arrays."""


def run(launches: Sequence[Launch], seed: int) -> None:
    """Run launches in order; scratch memory is filled with a pattern before its first use."""
    scratch: dict[Scratch, np.ndarray[Any, Any]] = {}
    for step in launches:
        for arg in step.args:
            if isinstance(arg, Scratch) and arg not in scratch:
                scratch[arg] = _patterned(arg)
        args = [scratch[arg] if isinstance(arg, Scratch) else arg for arg in step.args]
        run_text(step.source, step.name, step.grid, (step.threads,), args, seed=seed)


def run_text(
    source: str,
    name: str,
    grid: Sequence[int],
    block: Sequence[int],
    args: Sequence[Any],
    *,
    shared_bytes: int = 0,
    seed: int = 0,
) -> None:
    """Run the kernel `name` of source. Arrays are passed as pointers, NumPy scalars by value.

    Raises  KernelError with the error that the fibres detected
    """
    if (count := _kernels(source)[name]) != len(args):
        raise KernelError(f"{name} has {count} parameters, and was given {len(args)} arguments")
    geometry = (ctypes.c_uint * 6)(*(*grid, 1, 1)[:3], *(*block, 1, 1)[:3])
    with _running:
        fences = Fences(args)
        # The targets of the pointers must outlive the call.
        kept = [_by_value(arg, fences) for arg in args]
        pointers = (ctypes.c_void_p * len(kept))(*(each.ctypes.data for each in kept))
        error = _function(source, name)(
            pointers, geometry, ctypes.c_size_t(shared_bytes), ctypes.c_ulonglong(seed)
        )
        written = fences.take_down()
    if error:
        raise KernelError(error.decode())
    if written:
        raise KernelError(f"{name}: {written}")


def _patterned(scratch: Scratch) -> np.ndarray[Any, Any]:
    size = math.prod(scratch.shape)
    words = np.full(-(-size * scratch.dtype.itemsize // 8), _PATTERN)
    return words.view(scratch.dtype)[:size].reshape(scratch.shape)


def _by_value(arg: Any, fences: Fences) -> np.ndarray[Any, Any]:
    if isinstance(arg, Struct):
        return arg.fields
    if isinstance(arg, np.ndarray):
        return np.array(fences.address_of(arg), np.uint64)
    assert isinstance(arg, np.generic), f"{arg!r} is neither an array nor a NumPy scalar"
    return np.array(arg)


@functools.lru_cache(maxsize=256)
def _function(source: str, name: str) -> Any:
    function = getattr(_library(source), f"launch_{name}")
    function.restype = ctypes.c_char_p
    return function


@functools.lru_cache(maxsize=256)
def _library(source: str) -> ctypes.CDLL:
    """Return the compiled library of a source, with one launch function for each kernel."""
    _load_runtime()
    # All sources with the same flags use one precompiled header.
    flags = (_OPTIMISED if _PRODUCT_OF_TILES in source else _QUICKLY, *_THROWS_NOTHING)
    header = _compiled(
        (_FOLDER / "device.hpp").read_text(), ".hpp.gch", *flags, language="c++-header"
    )
    include = ("-include", str(header.with_suffix("")))
    launched = (
        f"LAUNCHED_WITH({', '.join([name, *(f'fibres::Argument{{{i}}}' for i in range(count))])})"
        for name, count in _kernels(source).items()
    )
    text = "\n".join([source, *launched, ""])
    return ctypes.CDLL(str(_compiled(text, ".so", *flags, *_ALONE, *include, link="-lgcc")))


@functools.lru_cache(maxsize=256)
def _kernels(source: str) -> dict[str, int]:
    """Return the number of parameters of each kernel of a source."""
    found = _KERNEL.findall(source)
    return {name: params.count(",") + 1 if params.strip() else 0 for name, params in found}


@functools.cache
def _load_runtime() -> None:
    """Load the fibre runtime, and the C and C++ libraries that it needs, with global symbols."""
    runtime = _compiled((_FOLDER / "fibres.cpp").read_text(), ".so", "-shared", "-O2", link="-lm")
    ctypes.CDLL(str(runtime), ctypes.RTLD_GLOBAL)


def _compiled(source: str, suffix: str, *flags: str, language: str = "c++", link: str = "") -> Path:
    inputs = (
        *(source, *_FLAGS, *flags, language, link, _compiler()),
        *map(Path.read_text, _headers()),
    )
    key = hashlib.sha256("\0".join(inputs).encode()).hexdigest()[:24]
    target = _CACHE / f"{key}{suffix}"
    if target.exists():
        return target
    # The folder is private, since its files contain code that runs as this user.
    _CACHE.mkdir(mode=0o700, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_CACHE) as folder:
        made = Path(folder) / target.name
        text = Path(folder) / "text"
        text.write_text(source, "utf-8")
        command = ["g++", "-x", language, *_FLAGS, f"-I{_FOLDER}", *flags, str(text)]
        command += ["-o", str(made)]
        command += ["-x", "none", link] if link else []
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"g++ refuses the text:\n{done.stderr[:4000]}")
        # Another test process may compile the same source, so make the file appear at once,
        # complete.
        made.rename(target)
    return target


@functools.cache
def _compiler() -> str:
    """Return the version of g++, from a cache file if the file of g++ has not changed.

    Each worker that uses fibres needs the version.
    """
    path = shutil.which("g++")
    if path is None:
        raise RuntimeError("g++ is missing: it compiles the kernels of the CuPy made of fibres")
    program = os.stat(path)
    kept = _CACHE / f"compiler-{program.st_ino}-{program.st_size}-{program.st_mtime_ns}"
    if not kept.exists():
        _CACHE.mkdir(mode=0o700, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=_CACHE) as folder:
            made = Path(folder) / kept.name
            made.write_bytes(subprocess.check_output([path, "--version"]))
            made.rename(kept)
    return kept.read_text()


@functools.cache
def _headers() -> tuple[Path, ...]:
    return tuple(sorted(_FOLDER.glob("*.h*")))
