"""Fixtures that install and remove the cuda backend on fibres (tests/fibre_shim/cupy.py)."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from fastdist.devices import backend
from fastdist.devices.cuda import CudaBackend, library, load
from fastdist.engine.engine import engine
from fastdist.kernels.cuda import launch
from fastdist.kernels.cuda.linalg import library_product
from fastdist.kernels.cuda.nn import attention, convolution
from fastdist.kernels.cuda.pointwise import pointwise
from tests.fibre_shim import cublas, cublas_lt, cupy, lapack, nccl, streams

_LIBRARIES: Any = ModuleType("cupy_backends.cuda.libs")
# Two files of this folder contain the functions of cuBLAS.
_LIBRARIES.cublas = SimpleNamespace(**vars(cublas), **lapack.cublas)
_LIBRARIES.cusolver = lapack.cusolver
_AVAILABLE: Any = ModuleType("cupyx.cusolver")
_AVAILABLE.check_availability = lambda name: name == "geev"
STANDS_FOR: dict[str, ModuleType] = {one.__name__: one for one in (_LIBRARIES, _AVAILABLE)} | {
    "cupy": cupy,
    "cupy.cuda.nccl": nccl,  # as in CuPy, `import cupy` does not load it
}


def cuda_on_fibres(monkeypatch: pytest.MonkeyPatch) -> Iterator[CudaBackend]:
    """Yield the backend, which `backend_of("cuda")` returns during the test."""
    for name, module in STANDS_FOR.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setenv("CUPY_CACHE_IN_MEMORY", "1")  # so no cache folder is needed
    monkeypatch.setattr(cupy, "allocator", list(cupy.allocator))
    monkeypatch.setattr(library_product, "load", cublas_lt.load)
    forget_cupy()
    cuda = load()
    monkeypatch.setitem(backend._loaded, "cuda", cuda)
    yield cuda
    # A device's thread keeps its last results until its next task. Without a shutdown here, it
    # would free them after the shim was removed.
    engine().device_threads.shutdown()
    cuda.close()
    # Run copies that nothing has waited for, so that their errors fail this test, not the next one.
    streams.arrive()
    forget_cupy()


def be_on_fibres() -> None:
    """Use the shim as CuPy for the rest of this process. Call this before CuPy is imported."""
    os.environ["CUPY_CACHE_IN_MEMORY"] = "1"
    sys.modules.update(STANDS_FOR)
    library_product.load = cublas_lt.load


def waits(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list to which each wait of the host for the device appends a name."""
    return _calls(monkeypatch, *_WAITS)


def uploads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list to which each copy of CPU values to the device appends a name."""
    return _calls(monkeypatch, *_UPLOADS)


def host_traffic(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list to which each wait of the host and each copy from or to it appends a name.

    All functions of this shim that wait or copy are covered; CuPy's other functions raise
    AttributeError.
    """
    downloads = (cupy.MemoryPointer, "copy_to_host_async")
    return _calls(monkeypatch, *_WAITS, *_UPLOADS, downloads)


_WAITS = (
    (cupy, "asnumpy"),
    *[(kind, "synchronize") for kind in (cupy.Device, cupy.Event, cupy.Stream)],
)
_UPLOADS = ((cupy, "array"), (cupy.MemoryPointer, "copy_from_host_async"))


def _calls(monkeypatch: pytest.MonkeyPatch, *places: tuple[object, str]) -> list[str]:
    told: list[str] = []

    def counted(owner: object, name: str) -> None:
        real = getattr(owner, name)

        def call(*given: object, **named: object) -> object:
            told.append(real.__qualname__)
            return real(*given, **named)

        monkeypatch.setattr(owner, name, call)

    for owner, name in places:
        counted(owner, name)
    return told


def forget_cupy() -> None:
    """Clear the caches, so that the next use imports CuPy and compiles kernels again."""
    library.cupy.cache_clear()
    launch.kernel_of.cache_clear()
    pointwise.table_of.cache_clear()
    attention.attending.cache_clear()
    attention.going_back.cache_clear()
    convolution.forget()
    library_product.forget()
