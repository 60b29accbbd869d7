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
    """Implements Transport as if all members had this member's arrays, and sums had one summand.

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
        """Copy each array whose size fits its output."""
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
        """Copy this member's entry into out, if this member is root; otherwise leave out
        unchanged.
        """
        self._require_open()
        if arrays is not None:
            self._copy(out, arrays[self.rank])

    def send(self, call: Call, array: NDArray[Any], to: int, tag: int) -> None:
        """Return immediately; nothing is sent."""
        self._require_open()

    def recv(self, call: Call, array: NDArray[Any], sender: int | None, tag: int) -> int:
        """Leave array unchanged, and return the sender, or the next member if it is None."""
        self._require_open()
        return (self.rank + 1) % self.size if sender is None else sender


def connect(place: Place) -> Fake:
    """Return the transport of a group without other processes."""
    return Fake(place.rank, place.size)
