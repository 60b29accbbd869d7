"""CUDA runtime functions that programs call directly, and warnings of calls that wait for a GPU."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ..core.errors import DeviceError
from ..core.folded_frames import fold_public
from ..core.short_repr import short_repr
from ..devices.backend import backend_of
from ..devices.gpus import device_count, index_of


class cudaStatus:
    """Error codes of the CUDA runtime."""

    SUCCESS: int = 0
    ERROR_NOT_READY: int = 34


class CudaError(RuntimeError):
    """The error that check_error raises for any result but SUCCESS."""

    def __init__(self, code: int) -> None:
        super().__init__(f"{cudart().cudaGetErrorString(code)} ({code})")


class DeferredCudaCallError(Exception):
    """PyTorch's error for deferred CUDA calls; fastdist never raises it."""


def check_error(res: int) -> None:
    """Raise CudaError if a result code of the runtime is not SUCCESS."""
    if res != cudaStatus.SUCCESS:
        raise CudaError(res)


def _cupy_cuda() -> Any:
    backend_of("cuda")
    from ..devices.cuda.library import cupy  # imported late: it loads CuPy

    return cupy().cuda


def cudart() -> Any:
    """Return a namespace of the CUDA runtime functions that PyTorch exposes, under CUDA's names.
    A query returns the queried value; every other function returns 0.

    Raises  DeviceError without a GPU; each function raises the error that CUDA reports
    """
    runtime = _cupy_cuda().runtime

    def done(function: str) -> Any:
        def call(*given: Any) -> int:
            getattr(runtime, function)(*given)
            return cudaStatus.SUCCESS

        return call

    return SimpleNamespace(
        cudaError=SimpleNamespace(success=cudaStatus.SUCCESS),
        cudaGetErrorString=lambda code: str(runtime.CUDARuntimeError(int(code))),
        cudaHostRegister=done("hostRegister"),
        cudaHostUnregister=done("hostUnregister"),
        cudaMemGetInfo=lambda device: backend_of("cuda").memory_info(index_of(device)),  # type: ignore[attr-defined]
        cudaProfilerStart=done("profilerStart"),
        cudaProfilerStop=done("profilerStop"),
        cudaStreamCreate=runtime.streamCreate,
        cudaStreamDestroy=done("streamDestroy"),
    )


def current_blas_handle() -> int:
    """Return this thread's cuBLAS handle for the current GPU. Raises DeviceError without a GPU."""
    return int(_cupy_cuda().device.get_cublas_handle())


def current_solver_handle() -> int:
    """Return this thread's cuSOLVER handle of the current GPU. Raises DeviceError without a GPU."""
    return int(_cupy_cuda().device.get_cusolver_handle())


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """Set what happens at calls that wait for a GPU, such as item(), cpu() and print: "default" or
    0 does nothing, "warn" or 1 warns, "error" or 2 raises an error.

    Raises  RuntimeError for another mode
    """
    from ..devices.cuda.waiting import MODES, sync_debug_mode

    number = MODES.index(debug_mode) if debug_mode in MODES else debug_mode
    if number not in range(len(MODES)):
        raise RuntimeError(
            f"invalid value of debug_mode: {short_repr(debug_mode)}, expected one of `default`, "
            "`warn`, "
            "`error`"
        )
    sync_debug_mode.number = int(number)


def get_sync_debug_mode() -> int:
    """Return the mode that `set_sync_debug_mode` set, as a number."""
    if not device_count():
        return 0
    from ..devices.cuda.waiting import sync_debug_mode

    return int(sync_debug_mode.number)


# The arrays that `caching_allocator_alloc` allocated, by address.
_given: dict[int, Any] = {}


def caching_allocator_alloc(size: int, device: Any = None, stream: Any = None) -> int:
    """Allocate GPU memory from the pool, and return its address. `caching_allocator_delete` frees
    the memory.

    Units   size in bytes
    Raises  OutOfMemoryError; DeviceError without that GPU
    """
    import numpy as np

    backend: Any = backend_of("cuda")
    index = index_of(device)
    with backend.current_stream(index) if stream is None else stream:
        array = backend.empty((int(size),), np.dtype(np.uint8), index)
    address = int(backend.data_ptr(array))
    _given[address] = array
    return address


def caching_allocator_delete(mem_ptr: int) -> None:
    """Free memory that `caching_allocator_alloc` allocated.

    Raises  DeviceError for an address that caching_allocator_alloc did not return
    """
    if _given.pop(mem_ptr, None) is None:
        raise DeviceError(
            f"caching_allocator_delete: {mem_ptr:#x} was not returned by "
            "caching_allocator_alloc, or was freed already"
        )


fold_public(__name__)
