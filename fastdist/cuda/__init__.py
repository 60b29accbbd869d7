"""NVIDIA GPUs, under PyTorch's names: device count, properties, memory, streams and random numbers.

`gpus.py` lists GPUs and selects the current one. `memory.py` reports memory in use.
`streams.py` has queues of work, `event.py` points in a queue, and `graphs.py` work that is captured
once and launched again. `random.py` has the random generators of GPUs.

This package imports CuPy only after checking that CuPy is installed. So a script that only calls
`cuda.is_available()` stays fast on a machine without CuPy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..core.errors import KernelError as AcceleratorError
from ..core.errors import OutOfMemoryError
from ..core.folded_frames import fold_public
from ..core.missing import find_late, instead, show_public
from ..devices.backend import backend_of
from ..devices.gpus import device_count, index_of
from . import amp, nvtx, profiler, random, streams
from .gpus import (
    can_device_access_peer,
    current_device,
    device,
    device_of,
    get_arch_list,
    get_device_capability,
    get_device_name,
    get_device_properties,
    get_gencode_flags,
    is_bf16_supported,
    is_tf32_supported,
    set_device,
)
from .graphs import (
    CUDAGraph,
    graph,
    graph_pool_handle,
    is_current_stream_capturing,
    make_graphed_callables,
)
from .memory import (
    empty_cache,
    get_allocator_backend,
    get_per_process_memory_fraction,
    max_memory_allocated,
    max_memory_cached,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_cached,
    memory_reserved,
    memory_stats,
    memory_stats_as_nested_dict,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_max_memory_cached,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
)
from .pools import MemPool, use_mem_pool
from .random import (
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from .runtime import (
    CudaError,
    DeferredCudaCallError,
    caching_allocator_alloc,
    caching_allocator_delete,
    check_error,
    cudart,
    cudaStatus,
    current_blas_handle,
    current_solver_handle,
    get_sync_debug_mode,
    set_sync_debug_mode,
)
from .streams import (
    Event,
    ExternalStream,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    get_stream_from_external,
    set_stream,
    stream,
)
from .tensor_types import (
    BFloat16Storage,
    BFloat16Tensor,
    BoolStorage,
    BoolTensor,
    ByteStorage,
    ByteTensor,
    CharStorage,
    CharTensor,
    ComplexDoubleStorage,
    ComplexFloatStorage,
    DoubleStorage,
    DoubleTensor,
    FloatStorage,
    FloatTensor,
    HalfStorage,
    HalfTensor,
    IntStorage,
    IntTensor,
    LongStorage,
    LongTensor,
    ShortStorage,
    ShortTensor,
)
from .usage import (
    clock_rate,
    device_memory_used,
    list_gpu_processes,
    memory_usage,
    power_draw,
    temperature,
    utilization,
)

has_half, has_magma = True, False


def is_available() -> bool:
    """Return whether CuPy is installed and its driver has a GPU.

    Example:
        >>> isinstance(torch.cuda.is_available(), bool)
        True
    """
    return device_count() > 0


def synchronize(device: Any = None) -> None:
    """Wait for all work of a GPU; the default is the current one.

    Raises  DeviceError without a GPU, or if queued work has failed
    """
    backend_of("cuda").synchronize(index_of(device))


def init() -> None:
    """Load the CUDA libraries; the first use of a GPU does this too.

    Raises  DeviceError without a GPU
    """
    backend_of("cuda")


def is_initialized() -> bool:
    """Return whether there is a GPU, because the first use of a GPU initializes it."""
    return is_available()


def ipc_collect() -> None:
    """Do nothing; for PyTorch's signature.

    Raises  DeviceError without a GPU
    """
    backend_of("cuda")


__all__ = [
    "AcceleratorError",
    "BFloat16Storage",
    "BFloat16Tensor",
    "BoolStorage",
    "BoolTensor",
    "ByteStorage",
    "ByteTensor",
    "CUDAGraph",
    "CharStorage",
    "CharTensor",
    "ComplexDoubleStorage",
    "ComplexFloatStorage",
    "CudaError",
    "DeferredCudaCallError",
    "DoubleStorage",
    "DoubleTensor",
    "Event",
    "ExternalStream",
    "FloatStorage",
    "FloatTensor",
    "HalfStorage",
    "HalfTensor",
    "IntStorage",
    "IntTensor",
    "LongStorage",
    "LongTensor",
    "MemPool",
    "OutOfMemoryError",
    "ShortStorage",
    "ShortTensor",
    "Stream",
    "StreamContext",
    "amp",
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "can_device_access_peer",
    "check_error",
    "clock_rate",
    "cudaStatus",
    "cudart",
    "current_blas_handle",
    "current_device",
    "current_solver_handle",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "device_memory_used",
    "device_of",
    "empty_cache",
    "get_allocator_backend",
    "get_arch_list",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_gencode_flags",
    "get_per_process_memory_fraction",
    "get_rng_state",
    "get_rng_state_all",
    "get_stream_from_external",
    "get_sync_debug_mode",
    "graph",
    "graph_pool_handle",
    "has_half",
    "has_magma",
    "init",
    "initial_seed",
    "ipc_collect",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "is_tf32_supported",
    "list_gpu_processes",
    "make_graphed_callables",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "memory_usage",
    "nvtx",
    "power_draw",
    "profiler",
    "random",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "set_sync_debug_mode",
    "stream",
    "streams",
    "synchronize",
    "temperature",
    "use_mem_pool",
    "utilization",
]


_NO_POOLS = "memory is allocated from CuPy's pool, or from a MemPool, which is CuPy's as well"
_NO_COUNTS = "pinned memory is allocated from CuPy's pool, which has no statistics"
instead(
    {
        f"fastdist.cuda.{name}": why
        for names, why in (
            ("CUDAPluggableAllocator change_current_allocator", _NO_POOLS),
            ("caching_allocator_disabled caching_allocator_enable", _NO_POOLS),
            ("memory_snapshot", "CuPy's pool keeps no list of its blocks; memory_stats() counts"),
            ("host_memory_stats host_memory_stats_as_nested_dict", _NO_COUNTS),
            ("reset_peak_host_memory_stats reset_accumulated_host_memory_stats", _NO_COUNTS),
            ("GreenContext", "kernels run on all of a GPU"),
        )
        for name in names.split()
    }
)


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Evaluate at each access the attributes whose values change. `default_generators` is a
        private name of PyTorch that reversible layers use.
        """
        if name == "_initialized":
            return is_initialized()
        if name == "default_generators":
            return random.default_generators()
        return find_late(__name__, name)


fold_public(__name__)
show_public(__name__)
