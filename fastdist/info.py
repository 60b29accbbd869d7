"""The report of `fastdist info` on installed and missing parts, as text and as a list of rows."""

from __future__ import annotations

import ctypes
import importlib.metadata
import os
import platform
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import fastdist
from fastdist.core.errors import DeviceError
from fastdist.devices.backend import backend_of
from fastdist.installation import constraint
from fastdist.installation.environment import this_environment
from fastdist.installation.state import note
from fastdist.system import blas
from fastdist.system.cache_directory import (
    SHIPPED,
    cache_directory,
    shipped_directory,
    why_no_cache,
    why_nothing_shipped,
)


class Row(NamedTuple):
    """One line of the report. `is_missing` marks a part that is absent but could be installed."""

    section: str
    name: str
    value: str
    is_missing: bool = False


Probe = Callable[[], list[Row]]

# CPU features that matter to users, by the names that Linux reports (x86, then ARM).
_FEATURES = (
    "avx2",
    "fma",
    "avx512f",
    "avx512bw",
    "avx512vl",
    "avx512_bf16",
    "asimd",
    "sve",
    "bf16",
)
_PACKAGES = ("numpy", "scipy", "numba", "llvmlite", "pyzmq")


def collect(probes: tuple[Probe, ...] | None = None) -> list[Row]:
    """Return the rows of all probes. A probe that fails gives a row with its error."""
    rows = []
    for probe in _PROBES if probes is None else probes:
        try:
            rows += probe()
        except Exception as error:  # the user runs this report to see such errors
            name = probe.__name__.strip("_")
            rows.append(Row("not known", name, f"{type(error).__name__}: {error}", is_missing=True))
    return rows


def as_text(rows: list[Row] | None = None) -> str:
    """Return the report as text: sections, names, values; `-` marks missing parts."""
    rows = collect() if rows is None else rows
    width = max(len(row.name) for row in rows)
    lines = []
    section = ""
    for row in rows:
        if row.section != section:
            section = row.section
            lines.append(f"{section}:")
        mark = "-" if row.is_missing else " "
        lines.append(f" {mark} {row.name:<{width}}  {row.value}")
    return "\n".join(lines)


def _versions() -> list[Row]:
    rows = [
        Row("versions", "fastdist", f"{fastdist.__version__} at {Path(fastdist.__file__).parent}"),
        Row("versions", "python", f"{platform.python_version()} at {sys.executable}"),
    ]
    for name in _PACKAGES:
        version = _version(name)
        missing = f"not installed; pip install {name}"
        rows.append(Row("versions", name, version or missing, is_missing=version is None))
    return [*rows, *_installed_torch()]


def _installed_torch() -> list[Row]:
    """Return a row about the `torch` that `as-torch --install` created, if this Python has one."""
    environment = this_environment()
    if not os.path.exists(constraint.file_of(environment)):
        return []
    changed = note(environment)
    kept = f"fastdist, for all programs of {environment.prefix}"
    return [Row("versions", "torch", changed or kept, is_missing=changed is not None)]


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _cpu() -> list[Row]:
    cpu = blas.read_cpu()
    features = " ".join(name for name in _FEATURES if name in cpu.features)
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return [
        Row("cpu", "model", cpu.model or platform.processor() or platform.machine()),
        Row("cpu", "cores", f"{usable} usable of {os.cpu_count()}"),
        Row("cpu", "features", features or "not reported by this system"),
    ]


def _blas() -> list[Row]:
    core = blas.openblas_core()
    if core is None:
        return [Row("blas", "library", "not OpenBLAS; fastdist leaves it as it is")]
    choice = blas.choose_core()
    return [
        Row("blas", "library", str(blas.openblas_version())),
        Row("blas", "core", f"{core} ({choice.how}: {choice.why})"),
        Row("blas", "threads", str(blas.blas_threads())),
    ]


def _numba() -> list[Row]:
    # This starts the thread pool, because the threading layer is known only afterwards.
    from fastdist.kernels.cpu.jit.launch import get_num_threads, threading_layer

    layer = threading_layer()
    if layer == "workqueue":
        layer = "workqueue, one launch at a time; for omp install libgomp1"
    rows = [Row("numba", "threading layer", layer, is_missing=layer.startswith("workqueue"))]
    return [*rows, Row("numba", "threads", str(get_num_threads()))]


def _driver() -> list[Row]:
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return [Row("gpu", "driver", "no NVIDIA driver (libcuda.so.1)", is_missing=True)]
    version = ctypes.c_int()
    status = driver.cuInit(0)
    if status != 0:
        return [Row("gpu", "driver", f"there, but cuInit says error {status}", is_missing=True)]
    driver.cuDriverGetVersion(ctypes.byref(version))
    cuda = f"{version.value // 1000}.{version.value % 1000 // 10}"
    return [Row("gpu", "driver", f"for CUDA up to {cuda}"), *_gpus(driver)]


def _gpus(driver: Any) -> list[Row]:
    count = ctypes.c_int()
    driver.cuDeviceGetCount(ctypes.byref(count))
    rows = []
    for index in range(count.value):
        name = ctypes.create_string_buffer(128)
        memory = ctypes.c_size_t()
        driver.cuDeviceGetName(name, len(name), index)
        driver.cuDeviceTotalMem_v2(ctypes.byref(memory), index)
        what = f"{name.value.decode()}, {memory.value / 2**30:.0f} GiB"
        rows.append(Row("gpu", f"cuda:{index}", what))
    return rows


def _cupy() -> list[Row]:
    for name in ("cupy-cuda12x", "cupy-cuda13x", "cupy"):
        version = _version(name)
        if version is not None:
            return [Row("gpu", "cupy", f"{version} ({name})"), _usable()]
    extras = "not installed; with a GPU, in the clone: pip install -e '.[cuda12]' or '.[cuda13]'"
    return [Row("gpu", "cupy", extras, is_missing=True)]


def _usable() -> Row:
    try:
        count = backend_of("cuda").device_count()
    except DeviceError as error:
        return Row("gpu", "usable", str(error), is_missing=True)
    return Row("gpu", "usable", f"{count} GPU{'s' * (count != 1)}")


def _cache() -> list[Row]:
    folder = cache_directory()
    if folder is None:
        lost = (
            why_no_cache()
            or "no folder to write to: kernels compile again in each process; set "
            "FASTDIST_CACHE_DIR"
        )
        return [Row("kernel cache", "folder", lost, is_missing=True), *_shipped()]
    sizes = list(_sizes(folder))
    return [
        Row("kernel cache", "folder", folder),
        Row("kernel cache", "size", f"{sum(sizes) / 1e6:.1f} MB in {len(sizes)} files"),
        *_shipped(),
    ]


def _shipped() -> list[Row]:
    """Return the row about kernels shipped in an image, if the environment names their folder."""
    if not os.environ.get(SHIPPED):
        return []
    why = why_nothing_shipped()
    return [Row("kernel cache", "shipped", why or str(shipped_directory()), is_missing=bool(why))]


def _sizes(folder: str) -> Iterator[int]:
    # Other processes write to this folder, so a listed file may be renamed or removed before stat.
    for path, _, names in os.walk(folder):
        for name in names:
            try:
                size = os.stat(os.path.join(path, name)).st_size
            except FileNotFoundError:
                continue
            yield size


def _transports() -> list[Row]:
    import fastdist.distributed.pipe.context  # noqa: F401  registers them all
    from fastdist.distributed.pipe.registry import NotViable, transports
    from fastdist.distributed.rpc.options import channels

    rows, absent = [], []
    for section, entries in (("transports", transports), ("channels", channels)):
        for entry in entries.by_priority():
            if isinstance(entry.member, NotViable):
                absent.append(entry.name)  # fastdist has it on no machine, so it is not missing
                continue
            reason = entry.member.why_not_viable()
            rows.append(Row(section, entry.name, reason or "yes", is_missing=reason is not None))
    why = "PyTorch's names for ways that this version does without; there is nothing to install"
    return [*rows, Row("channels", "not offered", f"{', '.join(absent)}: {why}")]


def _memory() -> list[Row]:
    from fastdist.distributed.arena.layout import arena_size, why_not_viable

    reason = why_not_viable()
    if reason is not None:
        return [Row("memory", "shared", reason, is_missing=True)]
    return [Row("memory", "shared", f"at most {arena_size() / 2**30:.1f} GiB a worker")]


_PROBES: tuple[Probe, ...] = (
    _versions,
    _cpu,
    _blas,
    _numba,
    _driver,
    _cupy,
    _cache,
    _transports,
    _memory,
)
