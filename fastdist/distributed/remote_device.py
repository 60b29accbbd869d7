"""A device of another worker in PyTorch's notation: "worker1/cuda:0", "rank:1/cpu"."""

from __future__ import annotations

from ..core.device import Device
from ..core.errors import DeviceError
from ..core.missing import show_public

__all__ = ["_remote_device"]

_RANK = "rank"


class _remote_device:
    """A device of a worker that is given by name or rank: "NAME/DEVICE" or "rank:RANK/DEVICE".

    The default device is the CPU. A device without a worker belongs to this worker.

    Raises  ValueError for another format; DeviceError for an unknown device; TypeError if the
            argument is neither a string nor a device
    """

    def __init__(self, remote_device: str | Device) -> None:
        self._worker_name: str | None = None
        self._rank: int | None = None
        if isinstance(remote_device, Device):
            self._device = remote_device
            return
        if not isinstance(remote_device, str):
            raise TypeError(f"Invalid type for remote_device: {type(remote_device)}")
        worker, slash, device = remote_device.partition("/")
        if not slash and _is_device(worker):
            self._device = Device(worker)
            return
        name, colon, number = worker.partition(":")
        is_rank = name == _RANK and number.isdigit()
        if "/" in device or not name or (colon and not is_rank):
            raise ValueError(
                f"Could not parse remote_device: {remote_device}. The valid format is "
                "'<workername>/<device>' or 'rank:<rank>/<device>' or '<device>'"
            )
        self._device = Device(device) if slash else Device("cpu")
        if colon:
            self._rank = int(number)
        else:
            self._worker_name = name

    def worker_name(self) -> str | None:
        """Return the worker's name; None if it is given by rank, or is this worker."""
        return self._worker_name

    def rank(self) -> int | None:
        """Return the worker's rank; None if it is given by name, or is this worker."""
        return self._rank

    def device(self) -> Device:
        """Return the device on that worker."""
        return self._device

    def __repr__(self) -> str:
        if self._worker_name is not None:
            return f"{self._worker_name}/{self._device}"
        return str(self._device) if self._rank is None else f"{_RANK}:{self._rank}/{self._device}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _remote_device) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))


def _is_device(text: str) -> bool:
    try:
        Device(text)
    except DeviceError:
        return False
    return True


show_public(__name__)
