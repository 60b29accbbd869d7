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
    Note    uses no lock: garbage collection could free an array, and so run `give_back`, in a
            thread that holds the lock. Each change of the dictionary is atomic in Python
    """

    def __init__(self) -> None:
        self._balance = _Balance()
        # By the id() of the array or block. The id is unique here, because the finalizer of the
        # weak reference removes it from the dictionary.
        self._living: dict[int, weakref.ref[Any]] = {}

    def balance(self) -> Balance:
        """Return this thread's allocated bytes minus its freed bytes."""
        return self._balance.value

    def count(self, array: Any) -> None:
        """Count an array that owns its memory and was created by this thread. Further calls for the
        same array change nothing.
        """
        self._count(array, Balance(cpu=int(array.nbytes)))

    def count_block(self, block: Any, size_bytes: int) -> None:
        """Count memory that this thread allocated on a device other than the CPU, and count its
        release when `block` is freed.
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
        """Start or stop counting. After a stop, releases of memory that was counted before are not
        counted.
        """
        if not is_wanted:
            self._living = {}


memory_meter: Final = MemoryMeter()
