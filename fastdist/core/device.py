"""Devices: the hardware that holds a tensor's memory."""

from __future__ import annotations

import os
import threading
from typing import ClassVar

from .errors import DeviceError
from .folded_frames import folds
from .moved_modules import earlier_names
from .short_repr import short_repr

KNOWN_TYPES = ("cpu", "cuda", "meta", "sim")
# PyTorch's other device types: programs compare with them, but no tensor is on such a device.
NAMED_TYPES = frozenset(
    {
        "fpga", "hip", "hpu", "ideep", "ipu", "lazy", "maia", "mkldnn", "mps", "mtia", "opencl",
        "opengl", "privateuseone", "ve", "vulkan", "xla", "xpu",
    }
)  # fmt: skip
# There is one device of each of these types, and tensors on it have no index.
_WITHOUT_INDEX = ("cpu", "meta")


class Device:
    """A device type and its index, such as cpu, cuda:0 or sim:1. Interned: equal devices are the
    same object.

    Raises  DeviceError for an unknown type or a bad index
    Note    PyTorch's other types (`mps`, `xpu` ...) can be named and compared; `parse` refuses them
    Note    `Device("cpu:0")` is not equal to `Device("cpu")`, as in PyTorch. Tensors made with
            `cpu:0` are on `cpu` (see `parse`), and tensors made with `meta:0` are on `meta`.
            `Device("cuda")` is the GPU that this thread uses, at first `cuda:0`

    Args:
        type: "cpu", "cuda" or "sim", optionally with an index, as in "cuda:0"; or a Device.
        index: The index of the device among the devices of its type; the current device if None.

    Example:
        >>> torch.device("cpu")
        device(type='cpu')
        >>> torch.device("cuda", 1).index
        1
    """

    __slots__ = ("index", "type")
    _interned: ClassVar[dict[tuple[str, int | None], Device]] = {}
    type: str
    index: int | None

    @folds
    def __new__(cls, type: str | Device, index: int | None = None) -> Device:
        if isinstance(type, Device):
            return type
        if not isinstance(type, str):
            raise DeviceError(
                f"Invalid device: {short_repr(type)}; expected such as 'cpu', 'cuda:0', 'sim:1'"
            )
        name, colon, number = type.partition(":")
        if colon:
            # Each index has one spelling: "cpu:" and "cpu:00" raise an error.
            if index is not None or not number.isdigit() or str(int(number)) != number:
                raise DeviceError(
                    f"Invalid device string: {short_repr(type)}; expected such as 'cpu', "
                    "'cuda:0', 'sim:1'"
                )
            index = int(number)
        if name not in KNOWN_TYPES and name not in NAMED_TYPES:
            raise DeviceError(
                f"Invalid device string: {short_repr(type)}; known types: {', '.join(KNOWN_TYPES)}"
            )
        if index is not None and index < 0:
            raise DeviceError(f"Device index must not be negative, got {index}")
        if index is None and name not in _WITHOUT_INDEX and name not in NAMED_TYPES:
            index = _gpu.index if name == "cuda" else 0
        key = (name, index)
        device = cls._interned.get(key)
        if device is None:
            device = object.__new__(cls)
            device.type, device.index = key
            # setdefault, because two threads may create the device at the same time, and both must
            # return the same object.
            device = cls._interned.setdefault(key, device)
        return device

    @classmethod
    def parse(cls, device: str | Device) -> Device:
        """Return the device on which tensors are placed for a device that a user named. An index of
        the CPU or of the meta device is dropped.

        Raises  DeviceError for a type that can be named but holds no tensors
        """
        named = cls(device)
        if named.type in NAMED_TYPES:
            raise DeviceError(no_such_device(named.type))
        if named.index is None or named.type not in _WITHOUT_INDEX:
            return named
        return cls(named.type)

    def __enter__(self) -> Device:
        """Make this device the default for new tensors, in this block and thread."""
        choose(Device.parse(self))
        return self

    def __exit__(self, *error: object) -> None:
        choose(None)

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        if self.index is None:
            return f"device(type={self.type!r})"
        return f"device(type={self.type!r}, index={self.index})"

    def __reduce__(self) -> tuple[object, tuple[str, int | None]]:
        return Device, (self.type, self.index)


class _Gpu(threading.local):
    # The index of the GPU that "cuda" without an index means in this thread.
    index = 0


_gpu = _Gpu()
CPU = Device("cpu")


def current_gpu() -> int:
    """Return the index of the GPU that "cuda" without an index means in this thread."""
    return _gpu.index


def use_gpu(index: int) -> None:
    """Let "cuda" without an index mean this GPU in this thread."""
    _gpu.index = index


def no_such_device(type: str) -> str:
    """Return the error text for a device type of PyTorch that fastdist does not have."""
    known = ", ".join(one for one in KNOWN_TYPES if one != "sim")
    return f"{type}: no such device here; available are {known}: use .to(device)"


class _Choices(threading.local):
    # The default devices of this thread: first the permanent one, then the devices of open
    # blocks, innermost last.
    stack: tuple[Device | None, ...] = (None,)


class _Chosen:
    """The number of default devices set in all threads. While it is 0, calls need no look-up."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


chosen = _Chosen()
_choices = _Choices()
_chosen_lock = threading.Lock()


def _renew_lock() -> None:
    """Give a forked child a new lock, because a thread of its parent may have held the old one."""
    global _chosen_lock
    _chosen_lock = threading.Lock()


# Like system/forked_locks.py, which core cannot import, because core is a lower layer.
os.register_at_fork(after_in_child=_renew_lock)


def choose(device: Device | None) -> None:
    """Push a default device for this thread; with None, pop the last one."""
    _choices.stack = _choices.stack[:-1] if device is None else (*_choices.stack, device)
    _count(-1 if device is None else 1)


@folds
def set_default_device(device: str | Device | None) -> None:
    """Set the device of tensors that this thread creates without `device=`; None means the CPU."""
    before = _choices.stack[0]
    wanted = None if device is None else Device.parse(device)
    _choices.stack = (wanted, *_choices.stack[1:])
    _count((wanted is not None) - (before is not None))


def get_default_device() -> Device:
    """Return the device of tensors that this thread creates without `device=`.

    Example:
        >>> torch.get_default_device()
        device(type='cpu')
    """
    return next((one for one in reversed(_choices.stack) if one is not None), CPU)


def _count(change: int) -> None:
    with _chosen_lock:
        chosen.count += change


# Pickles written under as-torch contain PyTorch's class names, which are looked up here.
__getattr__ = earlier_names(__name__)
