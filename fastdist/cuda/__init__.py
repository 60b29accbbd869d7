"""NVIDIA GPUs as PyTorch's scripts ask for them: how many there are, and waiting for their work.

Nothing here imports CuPy before it is known to be installed, so a script that only asks
`cuda.is_available()` costs nothing on a machine without it.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ..core.device import Device
from ..core.errors import DeviceError, OutOfMemoryError
from ..core.errors import KernelError as AcceleratorError
from ..core.generator import default_generator_of
from ..core.missing import missing
from ..devices.backend import backend_of
from ..devices.gpus import device_count
from . import amp, nvtx
from .event import CudaEvent as Event


def is_available() -> bool:
    """Return whether CuPy is installed and its driver has a GPU."""
    return device_count() > 0


def _index_of(device: Any) -> int:
    if device is None:
        return 0
    if isinstance(device, int):
        return device
    named = Device(device)
    if named.type != "cuda" or named.index is None:
        raise ValueError(f"Expected a cuda device, but got: {named}")
    return named.index


def synchronize(device: Any = None) -> None:
    """Wait for all work of a GPU, the first one unless named.

    Raises  DeviceError without a GPU, or for what failed there
    """
    backend_of("cuda").synchronize(_index_of(device))


def current_device() -> int:
    """Return the index of the GPU that "cuda" alone means: always 0.

    Raises  DeviceError without a GPU
    """
    backend_of("cuda")
    return 0


def current_stream(device: Any = None) -> Any:
    """Return the stream that this thread's work goes to.

    Raises  DeviceError without a GPU
    """
    return backend_of("cuda").current_stream(_index_of(device))


def Stream(device: Any = None) -> Any:
    """Return a side stream of a GPU. `with stream:` makes it this thread's current one.

    Raises  DeviceError without a GPU
    """
    return backend_of("cuda").stream(_index_of(device))


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
        stream.__enter__()


class device:
    """`with cuda.device(0):` uses a GPU for a block, as set_device does; None and negative numbers
    leave things as they are.

    Raises  as set_device, at its beginning
    """

    def __init__(self, device: Any) -> None:
        self.idx = -1 if device is None else _index_of(device)

    def __enter__(self) -> None:
        if self.idx >= 0:
            set_device(self.idx)

    def __exit__(self, *error: object) -> None:
        pass


class device_of(device):
    """`with cuda.device_of(x):` uses the GPU of a tensor; for one elsewhere things stay."""

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.get_device() if obj.is_cuda else None)


def manual_seed(seed: int) -> None:
    """Begin the first GPU's stream of random numbers anew, whether it is there or not."""
    default_generator_of(Device("cuda", 0)).manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """Begin the streams of random numbers of all GPUs anew."""
    for index in range(max(device_count(), 1)):
        default_generator_of(Device("cuda", index)).manual_seed(seed)


def seed() -> None:
    """Begin the first GPU's stream of a seed that nobody can foresee."""
    default_generator_of(Device("cuda", 0)).seed()


def seed_all() -> None:
    """Begin the streams of all GPUs with seeds that nobody can foresee."""
    for index in range(max(device_count(), 1)):
        default_generator_of(Device("cuda", index)).seed()


def initial_seed() -> int:
    """Return the seed of the first GPU's stream."""
    return default_generator_of(Device("cuda", 0)).initial_seed()


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
    return default_generator_of(Device("cuda", _index_of(device))).get_state()


def set_rng_state(new_state: Any, device: Any = "cuda") -> None:
    """Let a GPU's stream go on from where it stood at get_rng_state.

    Raises  DeviceError without a GPU
    """
    backend_of("cuda")
    default_generator_of(Device("cuda", _index_of(device))).set_state(new_state)


def init() -> None:
    """Load what GPUs need, which their first use does as well.

    Raises  DeviceError without a GPU
    """
    backend_of("cuda")


def is_initialized() -> bool:
    """Return whether there is a GPU: its first use does the rest."""
    return is_available()


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Return whether there is a GPU: kernels compute what is of bfloat16 in float32."""
    return is_available()


def set_device(device: Any) -> None:
    """Do nothing for the first GPU, which "cuda" alone always means.

    Raises  DeviceError without a GPU, or for another one: name it, "cuda:1", where tensors are made
    """
    backend_of("cuda")
    if (index := _index_of(device)) > 0:
        raise DeviceError(
            f'cuda.set_device({index}): "cuda" alone always means cuda:0 here; name '
            f'"cuda:{index}" where tensors are made, or start with CUDA_VISIBLE_DEVICES={index}'
        )


def empty_cache() -> None:
    """Do nothing: memory that nobody uses is given to whoever asks next."""


def memory_allocated(device: Any = None) -> int:
    """Return how many bytes of a GPU are in use; 0 without one.

    Raises  NotImplementedError with a GPU, where nobody counts them yet
    """
    if not is_available():
        return 0
    raise NotImplementedError("cuda.memory_allocated: bytes of a GPU are not counted yet")


memory_reserved = max_memory_allocated = max_memory_reserved = memory_allocated
memory_cached = max_memory_cached = memory_allocated


def memory_stats(device: Any = None) -> dict[str, int]:
    """Return no counts: bytes of a GPU are not counted yet."""
    return {}


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """Return that bytes of a GPU are not counted yet."""
    return "fastdist does not count the bytes of GPUs yet; nvidia-smi does"


def reset_peak_memory_stats(device: Any = None) -> None:
    """Do nothing: bytes of a GPU are not counted yet."""


reset_accumulated_memory_stats = reset_max_memory_allocated = reset_peak_memory_stats
reset_max_memory_cached = reset_peak_memory_stats


def ipc_collect() -> None:
    """Do nothing: processes do not share memory of a GPU.

    Raises  DeviceError without a GPU
    """
    backend_of("cuda")


def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    """Return False: GPUs do not read each other's memory here.

    Raises  DeviceError without a GPU
    """
    backend_of("cuda")
    return False


def get_arch_list() -> list[str]:
    """Return nothing: kernels are compiled for the GPU that is there."""
    return []


def is_tf32_supported() -> bool:
    """Return False: products are computed in their dtype."""
    return False


def is_current_stream_capturing() -> bool:
    """Return False: work is not captured as graphs."""
    return False


__all__ = [
    "AcceleratorError",
    "Event",
    "OutOfMemoryError",
    "Stream",
    "StreamContext",
    "amp",
    "can_device_access_peer",
    "current_device",
    "current_stream",
    "device",
    "device_count",
    "device_of",
    "empty_cache",
    "get_arch_list",
    "get_rng_state",
    "get_rng_state_all",
    "init",
    "initial_seed",
    "ipc_collect",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "is_tf32_supported",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
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
