"""The GPUs of this machine, their properties, and the current GPU of this thread."""

from __future__ import annotations

import uuid
from types import SimpleNamespace
from typing import Any, Final

from ..core.device import current_gpu, use_gpu
from ..core.errors import DeviceError
from ..core.folded_frames import fold_public
from ..devices.backend import backend_of
from ..devices.gpus import device_count, index_of

# Maps CUDA's names of properties to PyTorch's names.
_WORDS: Final = {
    "totalGlobalMem": "total_memory",
    "multiProcessorCount": "multi_processor_count",
    "warpSize": "warp_size",
    "maxThreadsPerMultiProcessor": "max_threads_per_multi_processor",
    "regsPerMultiprocessor": "regs_per_multiprocessor",
    "sharedMemPerBlock": "shared_memory_per_block",
    "sharedMemPerBlockOptin": "shared_memory_per_block_optin",
    "sharedMemPerMultiprocessor": "shared_memory_per_multiprocessor",
    "l2CacheSize": "L2_cache_size",
    "integrated": "is_integrated",
    "isMultiGpuBoard": "is_multi_gpu_board",
    "major": "major",
    "minor": "minor",
    "pciBusID": "pci_bus_id",
    "pciDeviceID": "pci_device_id",
    "pciDomainID": "pci_domain_id",
    "clockRate": "clock_rate",
    "memoryClockRate": "memory_clock_rate",
    "memoryBusWidth": "memory_bus_width",
}


def current_device() -> int:
    """Return the index of the GPU that "cuda" means in this thread; 0 by default.

    Raises  DeviceError without a GPU

    Example:
        >>> torch.cuda.current_device() if torch.cuda.is_available() else 0
        0
    """
    backend_of("cuda")
    return current_gpu()


def set_device(device: Any) -> None:
    """Make "cuda" mean this GPU in this thread from now on; do nothing for a negative index.

    Raises  DeviceError if there is no such GPU
    """
    backend: Any = backend_of("cuda")
    index = index_of(device)
    if index >= 0:
        backend.use(index)
        use_gpu(index)


class device:
    """`with cuda.device(1):` makes GPU 1 current in the `with` block, as `set_device` does. None
    and negative indices change nothing.

    Raises  the errors of set_device, on entry
    """

    def __init__(self, device: Any) -> None:
        self.idx = -1 if device is None else index_of(device)
        self.prev_idx = -1

    def __enter__(self) -> None:
        if self.idx >= 0:
            self.prev_idx = current_gpu()
            set_device(self.idx)

    def __exit__(self, *error: object) -> None:
        if self.idx >= 0:
            set_device(self.prev_idx)


class device_of(device):
    """`with cuda.device_of(x):` makes x's GPU current; it does nothing for a CPU tensor."""

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.get_device() if obj.is_cuda else None)


def get_device_properties(device: Any = None) -> Any:
    """Return the properties of a GPU under PyTorch's names: `name`, `major`, `minor`,
    `total_memory` in bytes, `multi_processor_count` and others.

    Raises  DeviceError without that GPU
    """
    backend: Any = backend_of("cuda")
    told = backend.properties(index_of(device))
    found = {word: told[name] for name, word in _WORDS.items() if name in told}
    if "uuid" in told:
        found["uuid"] = uuid.UUID(bytes=bytes(told["uuid"])[:16])
    return _Properties(name=told["name"].decode(), **found)


class _Properties(SimpleNamespace):
    """The properties of a GPU, under PyTorch's names."""

    def __repr__(self) -> str:
        sizes = {"total_memory": "MB", "L2_cache_size": "MB"}
        shown = ("name", "major", "minor", "total_memory", "multi_processor_count", "uuid")
        told = [
            f"{name}={getattr(self, name) >> 20}{sizes[name]}"
            if name in sizes
            else f"{name}={getattr(self, name)!s}"
            if name != "name"
            else f"name={self.name!r}"
            for name in (*shown, "pci_bus_id", "pci_device_id", "pci_domain_id", "L2_cache_size")
            if hasattr(self, name)
        ]
        return f"_CudaDeviceProperties({', '.join(told)})"


def get_device_name(device: Any = None) -> str:
    """Return the name of a GPU. Raises DeviceError if there is no such GPU."""
    return str(get_device_properties(device).name)


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """Return a GPU's compute capability, such as (9, 0). Raises DeviceError without that GPU."""
    found = get_device_properties(device)
    return int(found.major), int(found.minor)


def get_arch_list() -> list[str]:
    """Return the architectures of this machine's GPUs; kernels are compiled for these."""
    numbers = {get_device_capability(index) for index in range(device_count())}
    return [f"sm_{major}{minor}" for major, minor in sorted(numbers)]


def get_gencode_flags() -> str:
    """Return nvcc's flags for the GPUs of this machine; an empty string without a GPU."""
    numbers = [arch.removeprefix("sm_") for arch in get_arch_list()]
    return " ".join([f"-gencode compute=compute_{one},code=sm_{one}" for one in numbers])


def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    """Return whether one GPU's kernels can read another GPU's memory.

    Raises  DeviceError without those GPUs, or if both are the same
    """
    backend: Any = backend_of("cuda")
    index, peer = index_of(device), index_of(peer_device)
    if index == peer:
        raise DeviceError(
            f"can_device_access_peer: cuda:{index} is not its own peer; name two GPUs"
        )
    return bool(backend.reads_memory_of(index, peer))


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Return whether there is a GPU: all GPUs support bfloat16, which kernels compute in float32.

    With including_emulation=False, return whether the current GPU has bfloat16 matrix products in
    hardware: compute capability 8.0 and above
    """
    if not device_count():
        return False
    return including_emulation or get_device_capability()[0] >= 8


def is_tf32_supported() -> bool:
    """Return whether the current GPU has TF32 matrix products: compute capability 8.0 and above."""
    return is_bf16_supported(including_emulation=False)


fold_public(__name__)
