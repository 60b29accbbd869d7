"""The accelerators of this machine, which are its NVIDIA GPUs."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

from . import cuda
from .core.device import CPU, Device
from .core.errors import DeviceError
from .core.folded_frames import fold_public, folds
from .core.missing import explain_missing
from .cuda.event import Event as Event
from .devices.backend import backend_of

__all__ = [
    "current_accelerator",
    "current_device_idx",
    "current_device_index",
    "current_stream",
    "device_count",
    "device_index",
    "empty_cache",
    "is_available",
    "memory_allocated",
    "memory_reserved",
    "set_device_idx",
    "set_device_index",
    "synchronize",
]


def is_available() -> bool:
    """Return whether there is an accelerator."""
    return cuda.is_available()


def device_count() -> int:
    """Return the number of accelerators."""
    return cuda.device_count()


def current_accelerator(check_available: bool = False) -> Device | None:
    """Return the device of the accelerator, such as cuda:0; None if there is no accelerator."""
    return Device("cuda") if is_available() else None


def current_device_index() -> int:
    """Return the index of the accelerator that this thread uses.

    Raises  RuntimeError if there is no accelerator
    """
    _require_one()
    return cuda.current_device()


def set_device_index(device: Any) -> None:
    """Select the accelerator that this thread uses.

    Raises  RuntimeError if there is no accelerator
    """
    _require_one()
    cuda.set_device(device)


def current_stream(device: Any = None) -> Any:
    """Return the stream to which this thread queues work.

    Raises  RuntimeError if there is no accelerator
    """
    _require_one()
    return cuda.current_stream(device)


def synchronize(device: Any = None) -> None:
    """Wait until the accelerator has finished all queued work.

    Raises  RuntimeError if there is no accelerator
    """
    _require_one()
    cuda.synchronize(device)


def empty_cache() -> None:
    """Return cached memory to the accelerators, so that other processes can use it.

    Raises  RuntimeError if there is no accelerator
    """
    _require_one()
    cuda.empty_cache()


def memory_allocated(device_index: Any = None) -> int:
    """Return the number of bytes that are in use on an accelerator.

    Raises  RuntimeError if there is no accelerator
    """
    _require_one()
    return cuda.memory_allocated(device_index)


def memory_reserved(device_index: Any = None) -> int:
    """Return the number of bytes that fastdist holds on an accelerator, in use or cached.

    Raises  RuntimeError if there is no accelerator
    """
    _require_one()
    return cuda.memory_reserved(device_index)


class _OfAnyDevice(type):
    """The metaclass of `Stream`: `isinstance(x, Stream)` is True for the streams of all devices."""

    def __instancecheck__(cls, given: object) -> bool:
        return all(hasattr(type(given), name) for name in ("record_event", "wait_event", "query"))


class Stream(metaclass=_OfAnyDevice):
    """A queue of work for a device. `Stream()` creates one on the accelerator, or on the CPU if
    there is no accelerator. Streams of all devices are instances of this class.
    """

    @folds
    def __new__(cls, device: Any = None, *, priority: int = 0) -> Any:
        """Return a stream of the device's own class."""
        where = Device.parse(device or current_accelerator() or CPU)
        backend: Any = backend_of(where.type)
        return backend.stream(where.index, priority) if priority else backend.stream(where.index)


def get_device_module(device: Any = None) -> ModuleType:
    """Return the module for a device type: fastdist.cpu, cuda, mps or xpu. The default is the type
    of the accelerator, or the CPU if there is none.

    Raises  RuntimeError for a type without a module
    """
    given = device or current_accelerator() or CPU
    name = given.type if isinstance(given, Device) else str(given).partition(":")[0]
    if name not in ("cpu", "cuda", "mps", "xpu"):
        raise DeviceError(
            f"Expected one of cpu, cuda, mps, xpu device type at start of device string: {name}"
        )
    return importlib.import_module(f"{__package__}.{name}")


class device_index:
    """A context in which this thread uses another accelerator; an index of None changes nothing.

    Raises  RuntimeError on entry if there is no accelerator

    Args:
        device: The index of the accelerator.

    Example:
        >>> with torch.accelerator.device_index(None):
        ...     pass
    """

    @folds
    def __init__(self, device: int | None) -> None:
        self._within = None if device is None else cuda.device(device)

    def __enter__(self) -> None:
        if self._within is not None:
            _require_one()
            self._within.__enter__()

    def __exit__(self, *error: object) -> None:
        if self._within is not None:
            self._within.__exit__(*error)


def _require_one() -> None:
    if not is_available():
        raise RuntimeError(
            "Cannot access accelerator device when none is available. `fastdist info` says what is "
            "missing for a GPU; ask is_available() first"
        )


current_device_idx, set_device_idx = current_device_index, set_device_index

fold_public(__name__)
explain_missing(__name__)
