"""NVIDIA GPUs as PyTorch's scripts ask for them: how many there are, and waiting for their work.

`gpus.py` has which GPUs there are and which one is used, `memory.py` how much of their memory,
`event.py` points in their work, `graphs.py` work that is captured once and launched again.

Nothing here imports CuPy before it is known to be installed, so a script that only asks
`cuda.is_available()` costs nothing on a machine without it.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ..core.device import Device
from ..core.errors import KernelError as AcceleratorError
from ..core.errors import OutOfMemoryError
from ..core.generator import default_generator_of
from ..core.missing import missing
from ..devices.backend import backend_of
from ..devices.gpus import device_count
from . import amp, nvtx
from .event import CudaEvent as Event
from .gpus import (
    can_device_access_peer,
    current_device,
    device,
    device_of,
    get_arch_list,
    get_device_capability,
    get_device_name,
    get_device_properties,
    index_of,
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
    max_memory_allocated,
    max_memory_cached,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_cached,
    memory_reserved,
    memory_stats,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_max_memory_cached,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
)


def is_available() -> bool:
    """Return whether CuPy is installed and its driver has a GPU."""
    return device_count() > 0


def synchronize(device: Any = None) -> None:
    """Wait for all work of a GPU, the first one unless named.

    Raises  DeviceError without a GPU, or for what failed there
    """
    backend_of("cuda").synchronize(index_of(device))


def current_stream(device: Any = None) -> Any:
    """Return the stream that this thread's work goes to.

    Raises  DeviceError without a GPU
    """
    return backend_of("cuda").current_stream(index_of(device))


def default_stream(device: Any = None) -> Any:
    """Return the stream that work goes to where no other is chosen.

    Raises  DeviceError without a GPU
    """
    backend: Any = backend_of("cuda")
    return backend.default_stream(index_of(device))


def Stream(device: Any = None, priority: int = 0) -> Any:
    """Return a side stream of a GPU, one of 32 that are handed out in turn; `with stream:` makes it
    this thread's current one. A negative priority makes one whose work goes first.

    Raises  DeviceError without a GPU
    """
    backend: Any = backend_of("cuda")
    return backend.stream(index_of(device), priority)


def ExternalStream(stream_ptr: int, device: Any = None) -> Any:
    """Return another library's stream, of CUDA's handle, which has to outlive it.

    Raises  DeviceError without a GPU
    """
    backend: Any = backend_of("cuda")
    return backend.external_stream(index_of(device), stream_ptr)


class stream:
    """`with stream(s):` makes s this thread's current stream; None leaves things as they are."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            self.stream.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.stream is not None:
            self.stream.__exit__(kind, error, trace)


StreamContext = stream


def set_stream(stream: Any) -> None:
    """Make a stream this thread's current one; None leaves things as they are."""
    if stream is not None:
        stream.use()


def manual_seed(seed: int) -> None:
    """Begin the stream of random numbers of this thread's GPU anew, whether it is there or not."""
    default_generator_of(Device("cuda")).manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """Begin the streams of random numbers of all GPUs anew."""
    for index in range(max(device_count(), 1)):
        default_generator_of(Device("cuda", index)).manual_seed(seed)


def seed() -> None:
    """Begin the stream of this thread's GPU of a seed that nobody can foresee."""
    default_generator_of(Device("cuda")).seed()


def seed_all() -> None:
    """Begin the streams of all GPUs with seeds that nobody can foresee."""
    for index in range(max(device_count(), 1)):
        default_generator_of(Device("cuda", index)).seed()


def initial_seed() -> int:
    """Return the seed of the stream of random numbers of this thread's GPU."""
    return default_generator_of(Device("cuda")).initial_seed()


def get_rng_state_all() -> list[Any]:
    """Return where the streams of all GPUs stand; nothing where there is none."""
    return [default_generator_of(Device("cuda", i)).get_state() for i in range(device_count())]


def set_rng_state_all(new_states: Iterable[Any]) -> None:
    """Let the streams of the GPUs go on from where they stood at get_rng_state_all."""
    for index, state in enumerate(new_states):
        default_generator_of(Device("cuda", index)).set_state(state)


def get_rng_state(device: Any = "cuda") -> Any:
    """Return where a GPU's stream of random numbers stands.

    Raises  DeviceError without a GPU
    """
    backend_of("cuda")
    return default_generator_of(Device("cuda", index_of(device))).get_state()


def set_rng_state(new_state: Any, device: Any = "cuda") -> None:
    """Let a GPU's stream go on from where it stood at get_rng_state.

    Raises  DeviceError without a GPU
    """
    backend_of("cuda")
    default_generator_of(Device("cuda", index_of(device))).set_state(new_state)


def init() -> None:
    """Load what GPUs need, which their first use does as well.

    Raises  DeviceError without a GPU
    """
    backend_of("cuda")


def is_initialized() -> bool:
    """Return whether there is a GPU: its first use does the rest."""
    return is_available()


def ipc_collect() -> None:
    """Do nothing: processes do not share memory of a GPU.

    Raises  DeviceError without a GPU
    """
    backend_of("cuda")


__all__ = [
    "AcceleratorError",
    "CUDAGraph",
    "Event",
    "ExternalStream",
    "OutOfMemoryError",
    "Stream",
    "StreamContext",
    "amp",
    "can_device_access_peer",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "empty_cache",
    "get_arch_list",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_rng_state",
    "get_rng_state_all",
    "graph",
    "graph_pool_handle",
    "init",
    "initial_seed",
    "ipc_collect",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "is_tf32_supported",
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
    "memory_summary",
    "nvtx",
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
    "stream",
    "synchronize",
]


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Answer what reversible layers ask by PyTorch's private name before they keep states."""
        if name == "_initialized":
            return is_initialized()
        raise missing(__name__, name)
