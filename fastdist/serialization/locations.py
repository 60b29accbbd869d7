"""Selects the devices of loaded tensors: the saved device, or the one that map_location gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.device import CPU, KNOWN_TYPES, Device
from ..core.errors import DeviceError
from ..core.short_repr import short_repr
from ..devices.backend import backend_of
from ..tensor.typed_storage import TypedStorage, UntypedStorage

Restore = Callable[[UntypedStorage, str], UntypedStorage]


def location_tag(storage: Any) -> str:
    """Return the name of a storage's location in files: `cpu`, `cuda:0` and so on."""
    return str(storage.device)


def default_restore_location(storage: UntypedStorage, location: str) -> UntypedStorage:
    """Move a storage to the device that `location` names, and return it there.

    Raises  RuntimeError for a device that this machine, or fastdist, does not have
    """
    kind = location.partition(":")[0]
    if kind not in KNOWN_TYPES:
        raise RuntimeError(
            "don't know how to restore data location of fastdist.storage.UntypedStorage (tagged "
            f"with {location}): fastdist has the devices {', '.join(KNOWN_TYPES)}; give "
            "map_location='cpu'"
        )
    device = Device.parse(location)
    if device is CPU:
        return storage
    require_present(device)
    return storage.to(device=device)


def require_present(device: Device) -> None:
    """Raise an error unless this machine has the device.

    Raises  RuntimeError
    """
    kind = device.type
    try:
        count = backend_of(kind).device_count()
    except DeviceError:
        count = 0
    if not count:
        raise DeviceError(
            f"Attempting to deserialize object on a {kind.upper()} device but "
            f"fastdist.{kind}.is_available() is False. If you are running on a CPU-only machine, "
            "please use fastdist.load with map_location=fastdist.device('cpu') to map your "
            "storages to the CPU."
        )
    if (device.index or 0) >= count:
        raise DeviceError(
            f"Attempting to deserialize object on {kind.upper()} device {device.index} but "
            f"fastdist.{kind}.device_count() is {count}. Please use fastdist.load with "
            "map_location to map your storages to an existing device."
        )


def restorer(map_location: Any) -> Restore:
    """Return a function (storage, saved location) that moves a storage as map_location specifies.

    Raises  TypeError for a value that is not a device, a dict or a function
    """
    if map_location is None:
        return default_restore_location
    if isinstance(map_location, dict):
        wanted = map_location

        def by_table(storage: UntypedStorage, location: str) -> UntypedStorage:
            return default_restore_location(storage, str(wanted.get(location, location)))

        return by_table
    if isinstance(map_location, str | Device):
        place = str(map_location)

        def by_name(storage: UntypedStorage, location: str) -> UntypedStorage:
            return default_restore_location(storage, place)

        return by_name
    if not callable(map_location):
        raise TypeError(
            f"map_location is {short_repr(map_location)}; expected a device, its name, a dict "
            "of names, or a "
            "function of (storage, location)"
        )
    return _by_function(map_location)


def _by_function(function: Callable[..., Any]) -> Restore:
    def by_function(storage: UntypedStorage, location: str) -> UntypedStorage:
        found = function(storage, location)
        if found is None:
            return default_restore_location(storage, location)
        if not isinstance(found, UntypedStorage | TypedStorage):
            raise TypeError(f"map_location returned {short_repr(found)}, which is not a storage")
        return found.untyped()

    return by_function
