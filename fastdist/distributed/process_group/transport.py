"""The carrier of one group's collectives: the interface between groups and their backends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray


class Call(NamedTuple):
    """One collective, as a member calls it.

    Every message of the collective carries the first four; members whose calls differ in them
    raise CollectiveMismatchError.
    """

    # Counted from 0 in the group, alike on all members.
    sequence: int
    # Such as "all_reduce".
    name: str
    # Arguments that must be equal on all members, such as "float32, 1000 numbers, sum" or "root 0".
    agreed: str
    # The file and line of the program that called it, such as "train.py:12"; only told.
    line: str
    # On the clock of time.monotonic(). A transport that waits longer raises CollectiveTimeoutError.
    deadline: float


class Transport(Protocol):
    """Moves and reduces arrays between the members of one group.

    Each method blocks until this member's part is done. Arrays are C-contiguous and of NumPy's
    or ml_dtypes' types; `array` and `out` never overlap, but where one is a whole part of the
    other: `out[rank]` may be `array`. Empty arrays are allowed. Members are counted by their rank
    in the group.

    The order of the sums depends on the ranks, the size of the group and which members share a
    machine, so each member gets the same bits, in every run.

    Raises  CollectiveMismatchError, on every member and within 0.1 s: calls differ.
            CollectiveLostError, on every member: it names a member that ended or is unreachable.
            CollectiveTimeoutError: it names the members that had not come by the deadline.
            After an error what the caller may read holds what it held before.
    Thread  one at a time, but for send and recv, which any may call next to each other, and abort
    """

    rank: int
    size: int

    def all_reduce(self, call: Call, array: NDArray[np.generic], op: str) -> None:
        """Replace array by the reduction over all members; op: see REDUCTIONS."""

    def reduce(self, call: Call, array: NDArray[np.generic], op: str, root: int) -> None:
        """Replace array on root by the reduction; on the others it keeps what it holds."""

    def broadcast(self, call: Call, array: NDArray[np.generic], root: int) -> None:
        """Replace array on all members by that of root."""

    def all_gather(self, call: Call, out: NDArray[np.generic], array: NDArray[np.generic]) -> None:
        """Place the array of each member in `out[member]`; out.shape is (size, array.size)."""

    def reduce_scatter(
        self, call: Call, out: NDArray[np.generic], array: NDArray[np.generic], op: str
    ) -> None:
        """Place the reduction of all members' `array[rank]` in out; see all_gather for shapes."""

    def all_to_all(
        self, call: Call, outs: Sequence[NDArray[np.generic]], arrays: Sequence[NDArray[np.generic]]
    ) -> None:
        """Send `arrays[member]` to each member, and place what it sends here in `outs[member]`.

        Sizes may differ; a size that sender and receiver do not give alike is a mismatch.
        """

    def gather(
        self, call: Call, outs: Sequence[NDArray[np.generic]] | None, array: NDArray[np.generic],
        root: int,
    ) -> None:  # fmt: skip
        """Place the array of each member in root's `outs[member]`; others pass None."""

    def scatter(
        self, call: Call, out: NDArray[np.generic], arrays: Sequence[NDArray[np.generic]] | None,
        root: int,
    ) -> None:  # fmt: skip
        """Place root's `arrays[member]` in out; others than root pass None."""

    def barrier(self, call: Call) -> None:
        """Return when all members have called."""

    def send(self, call: Call, array: NDArray[np.generic], to: int, tag: int) -> None:
        """Send array to a member; return when array may be changed.

        Messages of one sender with one tag arrive in order. `call.sequence` counts those of this
        pair and tag.
        """

    def recv(self, call: Call, array: NDArray[np.generic], sender: int | None, tag: int) -> int:
        """Fill array with the next message of the sender, or of any if None; return the sender."""

    def abort(self, error: Exception) -> None:
        """End every wait with error, and raise it in every later call. Thread: any."""

    def close(self) -> None:
        """Give back what the group holds; a second time does nothing."""


class ClosesQuietly:
    """Base class of transports whose close() ends this member's waits, and fails no other member.

    All others are aborted first where a receive still waits.
    """


REDUCTIONS = ("sum", "product", "min", "max", "band", "bor", "bxor")
