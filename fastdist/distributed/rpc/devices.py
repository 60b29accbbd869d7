"""Checks that the devices in options and device maps exist, on this worker and its callees."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fastdist.core.device import Device
from fastdist.core.errors import DeviceError, RpcError
from fastdist.devices.backend import backend_of
from fastdist.distributed.store import Store

from .options import TensorPipeRpcBackendOptions
from .workers.record import Record


def require_own_devices(name: str, options: TensorPipeRpcBackendOptions) -> None:
    """Check that this worker has all devices in its device maps and in its list of devices.

    Raises  ValueError naming the device that is missing
    """
    mapped = [mine for device_map in options.device_maps.values() for mine in device_map]
    missing = _first_missing([*mapped, *options.devices])
    if missing:
        raise ValueError(f"Invalid device in TensorPipe options on {name}: {missing}")


def require_devices_of_maps(
    store: Store, me: Record, records: Sequence[Record], timeout_s: float
) -> None:
    """Check, together with all members of a static group, that the targets of device maps exist.

    Raises  RpcError, at every member, naming the map and the missing device
    """
    if not any(record.device_maps for record in records):
        return
    problem = _problem_of_maps(me, records)
    for told in store.join("rpc_devices", me.rank, problem, me.world_size, timeout_s):
        if told:
            raise RpcError(told.decode())


def _problem_of_maps(me: Record, records: Sequence[Record]) -> str:
    names = {record.name for record in records}
    for record in records:
        unknown = sorted(record.device_maps.keys() - names)
        if unknown:
            known = ", ".join(sorted(names))
            return (
                f"Node {record.name} has invalid target node names in its device maps: "
                f"{', '.join(unknown)}; the group has: {known}"
            )
        missing = _first_missing(record.device_map_to(me.name).values())
        if missing:
            return (
                f"Node {record.name} has unexpected target devices in its device map for "
                f"{me.name}: {missing}"
            )
    return ""


def _first_missing(devices: Iterable[Device]) -> str:
    """Return a text on the first missing device and the existing ones; "" if all devices exist."""
    for device in devices:
        try:
            count = backend_of(device.type).device_count()
        except DeviceError as error:
            return f"{device} is not there: {error}"
        if device.type != "cpu" and (device.index or 0) >= count:
            there = f"{device.type}:0 to {device.type}:{count - 1}" if count else "none"
            return f"{device} is not there; of its kind there are: {there}"
    return ""
