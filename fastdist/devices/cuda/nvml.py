"""Facts about a GPU from NVIDIA's management library: its load, temperature and users."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from importlib import import_module
from typing import Any, NamedTuple

from ..backend import backend_of
from .library import cupy


class Nvml(NamedTuple):
    """The library, and its handle of a GPU."""

    library: Any
    handle: Any


@contextlib.contextmanager
def nvml_of(index: int) -> Iterator[Nvml]:
    """Give the management library for a block.

    Raises  DeviceError without that GPU, ModuleNotFoundError without nvidia-ml-py
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
        # By its place on the bus: the library's numbers know nothing of CUDA_VISIBLE_DEVICES.
        place = cupy().cuda.runtime.deviceGetPCIBusId(index)
        yield Nvml(library, library.nvmlDeviceGetHandleByPciBusId(place.encode()))
    finally:
        library.nvmlShutdown()
