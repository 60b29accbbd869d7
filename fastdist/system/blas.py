"""Chooses the kernels of NumPy's OpenBLAS before NumPy loads, and reads which kernels it uses.

`import fastdist` first calls `choose_core`, before NumPy is loaded. So this module imports NumPy
and ctypes only in the functions that need them.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, MutableMapping
from importlib.machinery import PathFinder
from typing import Any, NamedTuple

_CORETYPE = "OPENBLAS_CORETYPE"
# Child processes inherit OPENBLAS_CORETYPE. This second variable has the same value if fastdist set
# OPENBLAS_CORETYPE, and not the user.
_CHOSEN_BY_FASTDIST = "FASTDIST_OPENBLAS_CORETYPE"
_AVX512 = frozenset({"avx512f", "avx512dq", "avx512bw", "avx512vl", "avx512cd"})
_CPUINFO = "/proc/cpuinfo"


class CoreChoice(NamedTuple):
    """The result of `choose_core`; `how` is "chosen", "left", "user's" or "already loaded"."""

    how: str
    core: str | None
    why: str


class Cpu(NamedTuple):
    """The system's description of the first processor; without one, the fields are empty."""

    vendor: str
    family: int
    model: str
    features: frozenset[str]


# Note [The right OpenBLAS core]
# OpenBLAS chooses its kernels by the CPU's model number, and its choice can be slow on AMD. Medians
# with one thread, in fresh processes that use the two sets of kernels in turn:
#   Zen 5 (family 26), sgemm of 1024 x 1024 x 1024: SkylakeX 231 GFLOP/s. This is 1.8 times the
#   speed of Haswell, which OpenBLAS chose. The Haswell kernels use half the width of AVX-512.
#   Zen 4 (family 25, model 17), which does AVX-512 in two halves; OpenBLAS 0.3.31 chooses SkylakeX.
#   Time with Haswell / time with SkylakeX, for x @ w and x @ w.T:
#     float32  64x64x64 1.19, 0.81   64x784x256 0.88, 0.76   256x1024x1024 0.89, 0.86
#     float64  64x64x64 1.24, 0.92   64x784x256 1.02, 0.96   256x1024x1024 1.04, 1.00
#   With Haswell, a product of less than a microsecond takes 0.1 us more; the layers of a model take
#   less time.
# The OpenBLAS in the wheels of NumPy 2.5 crashes with the Haswell kernels on Zen 4, in products of
# recurrent layers (128 features, NumPy 2.5.5); there its own choice stays.
# On Zen 3, which has no AVX-512, OpenBLAS itself chooses Haswell. On Intel, OpenBLAS recognizes
# newer cores. On ARM, OpenBLAS does not have cores with these names.
_HASWELL = "Haswell"
_RIGHT_CORES = {25: _HASWELL, 26: "SkylakeX"}
_NEWEST_FAMILY = max(_RIGHT_CORES)


def choose_core() -> CoreChoice:
    """On AMD CPUs with AVX-512, set OPENBLAS_CORETYPE unless it is set or NumPy is loaded.

    Source  Note [The right OpenBLAS core]
    Note    takes under 0.2 ms; later calls return the first result
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
    core = _core_to_set(read())
    if core is None:
        return CoreChoice("left", None, "OpenBLAS's own choice is good on this CPU")
    environment[_CORETYPE] = environment[_CHOSEN_BY_FASTDIST] = core
    return CoreChoice("chosen", core, "the fastest measured on this AMD CPU")


def right_core(cpu: Cpu) -> str | None:
    """Return the core with the fastest kernels for a CPU; None if OpenBLAS chooses it anyway.

    Source  Note [The right OpenBLAS core]
    """
    if cpu.vendor != "AuthenticAMD" or not cpu.features >= _AVX512:
        return None
    return _RIGHT_CORES.get(min(cpu.family, _NEWEST_FAMILY))


def _core_to_set(cpu: Cpu) -> str | None:
    core = right_core(cpu)
    return None if core == _HASWELL and _numpy_crashes_with_haswell() else core


def _numpy_crashes_with_haswell() -> bool:
    """Return whether NumPy, which is not imported yet, is version 2.5 or newer."""
    spec = PathFinder.find_spec("numpy")
    if spec is None or spec.origin is None:
        return False
    try:
        with open(os.path.join(os.path.dirname(spec.origin), "version.py")) as file:
            found = re.search(r'version = "(\d+)\.(\d+)', file.read(4096))
    except OSError:
        return False
    return found is not None and (int(found[1]), int(found[2])) >= (2, 5)


def runs_right_core() -> bool:
    """Return whether NumPy's BLAS is an OpenBLAS with the fastest kernels for this CPU."""
    core = openblas_core()
    return core is not None and core == (_core_to_set(read_cpu()) or core)


def read_cpu(path: str = _CPUINFO) -> Cpu:
    """Return vendor, model and features of the first processor; all empty without /proc."""
    try:
        with open(path, "rb", buffering=0) as file:
            # The file has one paragraph per processor. The first one is enough, and reading the
            # whole file is slow on a machine with many processors.
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
    """Return the core whose kernels NumPy's OpenBLAS uses; None if NumPy has another BLAS."""
    function = _function("get_corename", "c_char_p")
    return None if function is None else str(function().decode())


def openblas_version() -> str | None:
    """Return OpenBLAS's description of its version and build; None if NumPy has another BLAS."""
    function = _function("get_config", "c_char_p")
    return None if function is None else " ".join(str(function().decode()).split())


def blas_threads() -> int | None:
    """Return how many threads a matrix product may use; None if NumPy has another BLAS."""
    function = _function("get_num_threads", "c_int")
    return None if function is None else int(function())


def set_blas_threads(count: int) -> bool:
    """Set how many threads matrix products may use in NumPy's BLAS, and in SciPy's BLAS if that is
    loaded. Return whether the limit of NumPy's BLAS was set.

    Raises  ValueError if count is not positive
    """
    if count < 1:
        from ..core.short_repr import short_repr  # imports NumPy

        raise ValueError(f"set_blas_threads: count must be at least 1, got {short_repr(count)}")
    for library in _scipys_own():
        function = _function("set_num_threads", None, library)
        if function is not None:
            function(count)
    function = _function("set_num_threads", None)
    if function is None:
        return False
    function(count)
    return True


def share_blas_threads() -> None:
    """Set the thread limit of SciPy's BLAS, which has just been loaded, to that of NumPy's BLAS."""
    count = blas_threads()
    if count is not None:
        set_blas_threads(count)


def end_blas_threads() -> None:
    """End the idle threads of NumPy's and SciPy's OpenBLAS, as OpenBLAS does at a fork. The next
    large product starts new threads.
    """
    is_hidden = False
    for library in (_library(), *_scipys_own()):
        shutdown = getattr(library, "blas_thread_shutdown_", None)
        if shutdown is not None:
            shutdown()
        elif _function("get_num_threads", "c_int", library) is not None:
            is_hidden = True
    if is_hidden and sys.platform == "linux" and len(os.listdir("/proc/self/task")) > 1:
        _fork_a_process_that_ends()


def _fork_a_process_that_ends() -> None:
    """Fork a child that ends immediately: OpenBLAS's fork handler then ends OpenBLAS's threads in
    this process.

    The OpenBLAS in NumPy 2.5's wheels does not export the function that ends its threads.
    """
    import ctypes
    from contextlib import suppress

    # Not os.fork(): it would run hooks that are for children that continue, and warn about the
    # threads of OpenBLAS. PyDLL keeps the interpreter lock, which the child needs.
    pid = ctypes.PyDLL(None).fork()
    if pid == 0:
        os._exit(0)
    if pid > 0:
        with suppress(ChildProcessError):  # a signal handler of the program reaped the child
            os.waitpid(pid, 0)


def _scipys_own() -> list[Any]:
    """Return SciPy's own BLAS library, if it is loaded and separate from NumPy's."""
    if "scipy.linalg" not in sys.modules:
        return []
    import ctypes

    paths = _library_paths()[1:]
    return [ctypes.CDLL(path) for path in paths if "openblas" in path and "scipy" in path]


def _function(name: str, result: str | None, library: Any = None) -> Callable[..., Any] | None:
    import ctypes

    library = library or _library()
    # The BLAS of NumPy's wheels has a prefix, and a suffix if it uses 64-bit integers; the BLAS of
    # a system has neither.
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

        # CDLL(None) opens the process itself. It has these functions only if a BLAS is linked in.
        _loaded = ctypes.CDLL(next(iter(_library_paths()), None))
    return _loaded


_loaded: Any = None


def _library_paths() -> list[str]:
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            paths = {line.split(None, 5)[5].strip() for line in maps if "blas" in line}
    except OSError:
        paths = set(_bundled())
    # SciPy may have loaded another BLAS library. The one of NumPy must come first.
    return sorted(paths, key=lambda path: ("numpy" not in path, "openblas" not in path, path))


def _bundled() -> list[str]:
    import glob

    import numpy

    folder = os.path.dirname(numpy.__file__)
    return glob.glob(f"{folder}/.dylibs/*openblas*") + glob.glob(f"{folder}.libs/*openblas*")
