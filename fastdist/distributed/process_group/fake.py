"""The backend "fake": a group of any size in one process, whose collectives send nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .alone import Alone
from .options import Place
from .transport import Call


class Fake(Alone):
    """Implements Transport without other processes: members are assumed to send this member's
    arrays, and a sum is this member's array.

    For programs that inspect one process of a large job: its shapes, memory and calls.
    """

    def __init__(self, rank: int, size: int) -> None:
        super().__init__()
        self.rank, self.size = rank, size

    def all_gather(self, call: Call, out: NDArray[Any], array: NDArray[Any]) -> None:
        """Copy array into each row of out."""
        self._copy(out, np.broadcast_to(array, out.shape))

    def reduce_scatter(self, call: Call, out: NDArray[Any], array: NDArray[Any], op: str) -> None:
        """Copy this member's row into out."""
        self._copy(out, array[self.rank])

    def all_to_all(
        self, call: Call, outs: Sequence[NDArray[Any]], arrays: Sequence[NDArray[Any]]
    ) -> None:
        """Copy each array into the output at the same index, if their sizes are equal."""
        self._require_open()
        for out, array in zip(outs, arrays):
            if out.size == array.size:
                self._copy(out, array)

    def gather(
        self, call: Call, outs: Sequence[NDArray[Any]] | None, array: NDArray[Any], root: int
    ) -> None:
        """Copy array into each of outs."""
        self._require_open()
        for out in outs or ():
            self._copy(out, array)

    def scatter(
        self, call: Call, out: NDArray[Any], arrays: Sequence[NDArray[Any]] | None, root: int
    ) -> None:
        """If this member is root, copy its entry into `out`; otherwise do not change `out`."""
        self._require_open()
        if arrays is not None:
            self._copy(out, arrays[self.rank])

    def send(self, call: Call, array: NDArray[Any], to: int, tag: int) -> None:
        """Return immediately; nothing is sent."""
        self._require_open()

    def recv(self, call: Call, array: NDArray[Any], sender: int | None, tag: int) -> int:
        """Leave array unchanged; return `sender`, or the next member's rank if `sender` is None."""
        self._require_open()
        return (self.rank + 1) % self.size if sender is None else sender


def connect(place: Place) -> Fake:
    """Return the transport of a group without other processes."""
    return Fake(place.rank, place.size)
