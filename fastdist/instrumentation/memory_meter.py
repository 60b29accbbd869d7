"""How many bytes each thread has taken and given back, while a profile wants to know."""

from __future__ import annotations

import threading
import weakref
from typing import Any, Final, NamedTuple


class Balance(NamedTuple):
    """A thread's allocations, less its releases.

    Units   bytes
    """

    cpu: int = 0
    device: int = 0


class _Balance(threading.local):
    value = Balance()


class MemoryMeter:
    """Counts what it is shown, arrays of the CPU and blocks of other devices, and their ends.

    Thread  any; an end counts in the thread in which it comes
    Note    without a lock, which a thread might hold when the collector ends an array in it: each
            change of the dictionary is one of Python's own
    """

    def __init__(self) -> None:
        self._balance = _Balance()
        # By id(), which is another's only after the array's end took it out.
        self._living: dict[int, weakref.ref[Any]] = {}

    def balance(self) -> Balance:
        """Return this thread's allocations, less its releases."""
        return self._balance.value

    def count(self, array: Any) -> None:
        """Let an array that owns its memory, and was made by this thread, be counted once."""
        self._count(array, Balance(cpu=int(array.nbytes)))

    def count_block(self, block: Any, size_bytes: int) -> None:
        """Let memory that this thread took of a device other than the CPU be counted, until block
        ends.
        """
        self._count(block, Balance(device=size_bytes))

    def _count(self, owner: Any, taken: Balance) -> None:
        key = id(owner)
        if key in self._living:
            return

        def give_back(_: object) -> None:
            if self._living.pop(key, None) is not None:
                self._add(-taken.cpu, -taken.device)

        self._living[key] = weakref.ref(owner, give_back)
        self._add(*taken)

    def _add(self, cpu: int, device: int) -> None:
        before = self._balance.value
        self._balance.value = Balance(before.cpu + cpu, before.device + device)

    def switch(self, is_wanted: bool) -> None:
        """Forget the recorded memory if there is no observer: its releases are not counted."""
        if not is_wanted:
            self._living = {}


memory_meter: Final = MemoryMeter()
