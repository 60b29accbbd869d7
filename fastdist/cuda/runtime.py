"""CUDA's own runtime, as far as programs call it past the tensors; and what is said of waiting."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ..core.errors import DeviceError
from ..core.short_repr import short_repr
from ..devices.backend import backend_of
from ..devices.gpus import device_count, index_of


class cudaStatus:
    """Answers of the runtime."""

    SUCCESS: int = 0
    ERROR_NOT_READY: int = 34


class CudaError(RuntimeError):
    """The error that check_error raises for any result but SUCCESS."""

    def __init__(self, code: int) -> None:
        super().__init__(f"{cudart().cudaGetErrorString(code)} ({code})")


class DeferredCudaCallError(Exception):
    """PyTorch's error for calls that waited for a GPU; it is never raised here."""


def check_error(res: int) -> None:
    """Raise CudaError unless an answer of the runtime is SUCCESS."""
    if res != cudaStatus.SUCCESS:
        raise CudaError(res)


def _cupy_cuda() -> Any:
    backend_of("cuda")
    from ..devices.cuda.library import cupy  # the first use of a GPU loads its room

    return cupy().cuda


def cudart() -> Any:
    """Return the functions of CUDA's runtime that PyTorch's has, by CUDA's names; they return 0, or
    the value of the query.

    Raises  DeviceError without a GPU; each call what CUDA reports
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
    """Return cuBLAS's handle of this thread and GPU. Raises DeviceError without a GPU."""
    return int(_cupy_cuda().device.get_cublas_handle())


def current_solver_handle() -> int:
    """Return cuSOLVER's handle of this thread and GPU. Raises DeviceError without a GPU."""
    return int(_cupy_cuda().device.get_cusolver_handle())


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """Say what happens where the program waits for a GPU, as item(), cpu() and print do: "default"
    or 0 for nothing, "warn" or 1, "error" or 2.

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
    """Return the reaction to calls that wait for a GPU, as set_sync_debug_mode's number."""
    if not device_count():
        return 0
    from ..devices.cuda.waiting import sync_debug_mode

    return int(sync_debug_mode.number)


# The blocks that caching_allocator_alloc gave to the program, by address.
_given: dict[int, Any] = {}


def caching_allocator_alloc(size: int, device: Any = None, stream: Any = None) -> int:
    """Return the address of memory of a GPU, of the pool's, until caching_allocator_delete.

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
    """Give memory back.

    Raises  DeviceError for an address that caching_allocator_alloc did not return
    """
    if _given.pop(mem_ptr, None) is None:
        raise DeviceError(
            f"caching_allocator_delete: {mem_ptr:#x} was not returned by "
            "caching_allocator_alloc, or was freed already"
        )
