"""Devices: where a tensor's bytes live."""

from __future__ import annotations

from typing import ClassVar

from .errors import DeviceError

KNOWN_TYPES = ("cpu", "cuda", "sim")


class Device:
    """A device type and its index, such as cpu, cuda:0 or sim:1. Interned: equal devices are the
    same object.

    Raises  DeviceError for a type that is not one of cpu, cuda, sim, or a bad index
    Note    the CPU has index None; `Device("cuda")` is `cuda:0`
    """

    __slots__ = ("index", "type")
    _interned: ClassVar[dict[tuple[str, int | None], Device]] = {}
    type: str
    index: int | None

    def __new__(cls, type: str | Device, index: int | None = None) -> Device:
        if isinstance(type, Device):
            return type
        if not isinstance(type, str):
            raise DeviceError(
                f"Invalid device: {type!r}; expected such as 'cpu', 'cuda:0', 'sim:1'"
            )
        name, _, number = type.partition(":")
        if number:
            if index is not None or not number.isdigit():
                raise DeviceError(
                    f"Invalid device string: {type!r}; expected such as 'cpu', 'cuda:0', 'sim:1'"
                )
            index = int(number)
        if name not in KNOWN_TYPES:
            raise DeviceError(
                f"Invalid device string: {type!r}; known types: {', '.join(KNOWN_TYPES)}"
            )
        if index is not None and index < 0:
            raise DeviceError(f"Invalid device index {index}; it must be 0 or more")
        key = (name, None if name == "cpu" else index or 0)
        device = cls._interned.get(key)
        if device is None:
            device = object.__new__(cls)
            device.type, device.index = key
            # setdefault: two threads may be here at once, and both must leave with the same object.
            device = cls._interned.setdefault(key, device)
        return device

    @classmethod
    def parse(cls, device: str | Device) -> Device:
        """Return the device that a user named."""
        return cls(device)

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        if self.index is None:
            return f"device(type={self.type!r})"
        return f"device(type={self.type!r}, index={self.index})"

    def __reduce__(self) -> tuple[object, tuple[str, int | None]]:
        return Device, (self.type, self.index)


CPU = Device("cpu")
