"""Counts the bytes that each thread allocates and frees, while a profile records them."""

from __future__ import annotations

import threading
import weakref
from typing import Any, Final, NamedTuple


class Balance(NamedTuple):
    """A thread's allocated bytes minus its freed bytes.

    Units   bytes
    """

    cpu: int = 0
    device: int = 0


class _Balance(threading.local):
    value = Balance()


class MemoryMeter:
    """Counts allocations of CPU arrays and of other devices' blocks, and their releases.

    Thread  any; a release counts for the thread in which it happens
    Note    uses no lock, because a thread could hold it when garbage collection frees an array:
            each change of the dictionary is atomic in Python
    """

    def __init__(self) -> None:
        self._balance = _Balance()
        # By id(), which is unique because the array's finalizer removes it.
        self._living: dict[int, weakref.ref[Any]] = {}

    def balance(self) -> Balance:
        """Return this thread's allocated bytes minus its freed bytes."""
        return self._balance.value

    def count(self, array: Any) -> None:
        """Count an array that owns its memory and was created by this thread; an array
        counts once.
        """
        self._count(array, Balance(cpu=int(array.nbytes)))

    def count_block(self, block: Any, size_bytes: int) -> None:
        """Count memory that this thread allocated on a device other than the CPU, until block is
        freed.
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
        """Start or stop counting; when it stops, forget the recorded memory, so that its releases
        are not counted.
        """
        if not is_wanted:
            self._living = {}


memory_meter: Final = MemoryMeter()
