"""Transport: the interface between a group and the backend that carries its collectives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray


class Call(NamedTuple):
    """The arguments of one collective on one member.

    The first four fields are part of every message of the collective. Members raise
    CollectiveMismatchError if sequence, name or agreed differ between them.
    """

    # The number of the collective in the group, from 0; it is the same on all members.
    sequence: int
    # A name such as "all_reduce".
    name: str
    # Arguments that must be equal on all members, such as "float32, 1000 numbers, sum" or "root 0".
    agreed: str
    # The file and line of the call in the program, such as "train.py:12", for error messages.
    line: str
    # The deadline in time.monotonic(). A transport raises CollectiveTimeoutError after it.
    deadline: float


class Transport(Protocol):
    """Moves and reduces arrays between the members of one group.

    Each method blocks until this member's part is done. Arrays are C-contiguous, with dtypes of
    NumPy or ml_dtypes. `array` and `out` must not overlap, except that one may be exactly one row
    of the other: for example, `out[rank]` may be `array`. Empty arrays are allowed. Members are
    identified by their group ranks.

    The order of sums depends only on the ranks, the size of the group, and which members share a
    machine. So all members get bitwise equal results in every run.

    Raises  CollectiveMismatchError, on every member within 0.1 s: the calls differ.
            CollectiveLostError, on every member: a member ended or is unreachable; the error names
            it.
            CollectiveTimeoutError: members did not call by the deadline; the error names them.
            After an error, arrays that the caller may read have their earlier contents.
    Thread  one at a time, except that any thread may call send, recv and abort in parallel
    """

    rank: int
    size: int

    def all_reduce(self, call: Call, array: NDArray[np.generic], op: str) -> None:
        """Replace array by the reduction over all members; op is one of REDUCTIONS."""

    def reduce(self, call: Call, array: NDArray[np.generic], op: str, root: int) -> None:
        """Replace root's array by the reduction; other members keep their arrays."""

    def broadcast(self, call: Call, array: NDArray[np.generic], root: int) -> None:
        """Replace array on all members by root's array."""

    def all_gather(self, call: Call, out: NDArray[np.generic], array: NDArray[np.generic]) -> None:
        """Copy the array of each member into `out[member]`; out.shape is (size, array.size)."""

    def reduce_scatter(
        self, call: Call, out: NDArray[np.generic], array: NDArray[np.generic], op: str
    ) -> None:
        """Reduce all members' `array[rank]` into out; array.shape is (size, out.size)."""

    def all_to_all(
        self, call: Call, outs: Sequence[NDArray[np.generic]], arrays: Sequence[NDArray[np.generic]]
    ) -> None:
        """Send `arrays[i]` to member i, and receive member i's array into `outs[i]`.

        The arrays may have different sizes. If the size of a sent array is not the size of the
        receiver's entry in `outs`, CollectiveMismatchError is raised.
        """

    def gather(
        self, call: Call, outs: Sequence[NDArray[np.generic]] | None, array: NDArray[np.generic],
        root: int,
    ) -> None:  # fmt: skip
        """Copy each member's array into root's `outs[member]`; on other members, outs is None."""

    def scatter(
        self, call: Call, out: NDArray[np.generic], arrays: Sequence[NDArray[np.generic]] | None,
        root: int,
    ) -> None:  # fmt: skip
        """Copy root's `arrays[member]` into each member's `out`; on members other than root,
        `arrays` is None.
        """

    def barrier(self, call: Call) -> None:
        """Return when all members have called barrier()."""

    def send(self, call: Call, array: NDArray[np.generic], to: int, tag: int) -> None:
        """Send array to a member; return when array may be changed.

        Messages of one sender with one tag arrive in order. `call.sequence` counts the messages of
        this pair and tag.
        """

    def recv(self, call: Call, array: NDArray[np.generic], sender: int | None, tag: int) -> int:
        """Fill array with the next message of `sender`, or of any member if `sender` is None;
        return the sender's rank.
        """

    def abort(self, error: Exception) -> None:
        """End every wait with the error, and raise it in every later call. Thread: any."""

    def close(self) -> None:
        """Release the group's resources; a second call has no effect."""


class ClosesQuietly:
    """Base class of transports whose close() ends this member's waits without errors on others.

    If a receive still waits, transports of other classes are aborted before close().
    """


REDUCTIONS = ("sum", "product", "min", "max", "band", "bor", "bxor")
