"""Access to NVIDIA's management library (NVML): load, temperature and processes of a GPU."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from importlib import import_module
from typing import Any, NamedTuple

from ..backend import backend_of
from .library import cupy


class Nvml(NamedTuple):
    """The module pynvml, and the NVML handle of a GPU."""

    library: Any
    handle: Any


@contextlib.contextmanager
def nvml_of(index: int) -> Iterator[Nvml]:
    """Initialize NVML, and yield it with the handle of a GPU.

    Raises  DeviceError if the GPU does not exist, ModuleNotFoundError without nvidia-ml-py
    """
    backend: Any = backend_of("cuda")
    backend.properties(index)
    try:
        library = import_module("pynvml")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "pynvml does not seem to be installed or it can't be imported. "
            "`pip install nvidia-ml-py` brings it",
            name="pynvml",
        ) from error
    library.nvmlInit()
    try:
        # The GPU is found by PCI bus id, because NVML's indices ignore CUDA_VISIBLE_DEVICES.
        place = cupy().cuda.runtime.deviceGetPCIBusId(index)
        yield Nvml(library, library.nvmlDeviceGetHandleByPciBusId(place.encode()))
    finally:
        library.nvmlShutdown()
