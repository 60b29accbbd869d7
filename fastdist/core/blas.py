"""Which kernels NumPy's OpenBLAS runs: chosen before NumPy loads, and read back afterwards.

Nothing here imports NumPy or ctypes before it must: `choose_core` is the first thing that
`import fastdist` does.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, MutableMapping
from typing import Any, NamedTuple

_CORETYPE = "OPENBLAS_CORETYPE"
# Children inherit OPENBLAS_CORETYPE; this says to them that fastdist set it, not their user.
_CHOSEN_BY_FASTDIST = "FASTDIST_OPENBLAS_CORETYPE"
_AVX512 = frozenset({"avx512f", "avx512dq", "avx512bw", "avx512vl", "avx512cd"})
_CPUINFO = "/proc/cpuinfo"


class CoreChoice(NamedTuple):
    """What `choose_core` did: `how` is "chosen", "left", "user's" or "already loaded"."""

    how: str
    core: str | None
    why: str


class Cpu(NamedTuple):
    """What the first processor says of itself; empty where the system does not tell."""

    vendor: str
    family: int
    model: str
    features: frozenset[str]


# Note [The right OpenBLAS core]
# OpenBLAS picks its kernels by the CPU's model number, and takes an AMD CPU newer than itself for a
# Haswell, whose kernels use half the width of a Zen 5's AVX-512. sgemm of 1024 x 1024 x 1024, one
# thread, fresh processes in turn, medians:
#   AMD Zen 5, 2 cores: SkylakeX 231 GFLOP/s, 1.8 times the Haswell kernels that were picked
#   AMD EPYC, family 25 model 17 (Zen 4), 2 cores: SkylakeX 100 +- 4, Haswell 107 +- 2; OpenBLAS
#   0.3.31 picks SkylakeX by itself
# A Zen 4 does AVX-512 in two halves and has nothing to gain, so only Zen 5 and later (family 26 up)
# are touched. On Intel OpenBLAS knows its own newer cores, and on ARM the name means nothing.
_FIRST_FAMILY_WITH_FULL_WIDTH = 26


def choose_core() -> CoreChoice:
    """Set OPENBLAS_CORETYPE on AMD CPUs with full AVX-512, unless the user did or NumPy is loaded.

    Source  see Note [The right OpenBLAS core]
    Note  under 0.2 ms; a second call repeats the first one's answer
    """
    global _choice
    if _choice is None:
        _choice = _choose(os.environ, "numpy" in sys.modules, read_cpu)
    return _choice


_choice: CoreChoice | None = None


def _choose(
    environment: MutableMapping[str, str], numpy_is_loaded: bool, read: Callable[[], Cpu]
) -> CoreChoice:
    given = environment.get(_CORETYPE)
    if given is not None and given != environment.get(_CHOSEN_BY_FASTDIST):
        return CoreChoice("user's", given, f"{_CORETYPE} was set")
    if given is not None:
        return CoreChoice("chosen", given, "by the process that started this one")
    if numpy_is_loaded:
        return CoreChoice("already loaded", None, "NumPy was imported before fastdist")
    cpu = read()
    full_width = cpu.vendor == "AuthenticAMD" and cpu.family >= _FIRST_FAMILY_WITH_FULL_WIDTH
    if not (full_width and cpu.features >= _AVX512):
        return CoreChoice("left", None, "OpenBLAS picks well on this CPU by itself")
    environment[_CORETYPE] = environment[_CHOSEN_BY_FASTDIST] = "SkylakeX"
    return CoreChoice("chosen", "SkylakeX", "an AMD CPU with full AVX-512")


def read_cpu(path: str = _CPUINFO) -> Cpu:
    """Read vendor, model and features of the first processor; all empty where /proc is missing."""
    try:
        with open(path, "rb", buffering=0) as file:
            # A paragraph a processor: the first is enough, and a large machine's file takes long.
            text = file.read(8192).decode("utf-8", "replace")
    except OSError:
        return Cpu("", 0, "", frozenset())
    rows = dict(_split_row(line) for line in text.partition("\n\n")[0].splitlines())
    features = rows.get("flags") or rows.get("Features") or ""
    family = rows.get("cpu family", "0")
    return Cpu(
        vendor=rows.get("vendor_id", ""),
        family=int(family) if family.isdigit() else 0,
        model=rows.get("model name", ""),
        features=frozenset(features.split()),
    )


def _split_row(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name.strip(), value.strip()


def openblas_core() -> str | None:
    """Return the core whose kernels NumPy's OpenBLAS runs, None if NumPy has another BLAS."""
    function = _function("get_corename", "c_char_p")
    return None if function is None else str(function().decode())


def openblas_version() -> str | None:
    """Return OpenBLAS's own line about its version and build, None if NumPy has another BLAS."""
    function = _function("get_config", "c_char_p")
    return None if function is None else " ".join(str(function().decode()).split())


def blas_threads() -> int | None:
    """Return how many threads a matrix product may use, None if NumPy has another BLAS."""
    function = _function("get_num_threads", "c_int")
    return None if function is None else int(function())


def set_blas_threads(count: int) -> bool:
    """Let matrix products use up to count threads; return whether NumPy's BLAS could be told.

    Raises  ValueError if count is not positive
    """
    if count < 1:
        raise ValueError(f"set_blas_threads: count must be at least 1, got {count!r}")
    function = _function("set_num_threads", None)
    if function is None:
        return False
    function(count)
    return True


def _function(name: str, result: str | None) -> Callable[..., Any] | None:
    import ctypes

    library = _library()
    # NumPy's wheels prefix the names and mark 64-bit integers; a system's library has them plain.
    for prefix in ("scipy_openblas_", "openblas_"):
        for suffix in ("64_", ""):
            function = getattr(library, prefix + name + suffix, None)
            if function is not None:
                function.restype = None if result is None else getattr(ctypes, result)
                return function  # type: ignore[no-any-return]
    return None


def _library() -> Any:
    global _loaded
    if _loaded is None:
        import ctypes

        import numpy.linalg  # noqa: F401  its BLAS is the one that is asked

        path = _library_path()
        # None opens the process itself, which has no such names unless a BLAS is linked in.
        _loaded = ctypes.CDLL(path)
    return _loaded


_loaded: Any = None


def _library_path() -> str | None:
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            paths = {line.split(None, 5)[5].strip() for line in maps if "blas" in line}
    except OSError:
        paths = set(_bundled())
    # SciPy may have brought a library of its own: NumPy's comes first.
    ranked = sorted(paths, key=lambda path: ("numpy" not in path, "openblas" not in path, path))
    return ranked[0] if ranked else None


def _bundled() -> list[str]:
    import glob

    import numpy

    folder = os.path.dirname(numpy.__file__)
    return glob.glob(f"{folder}/.dylibs/*openblas*") + glob.glob(f"{folder}.libs/*openblas*")
