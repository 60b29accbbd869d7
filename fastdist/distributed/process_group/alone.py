"""The transport of a group with one member: it copies arrays, without a connection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastdist.core.errors import CollectiveError

from .transport import Call


class Alone:
    """Implements Transport for rank 0 in a group of size 1."""

    rank = 0
    size = 1

    def __init__(self) -> None:
        self._error: Exception | None = None

    def all_reduce(self, call: Call, array: NDArray[Any], op: str) -> None:
        """Leave `array` unchanged."""
        self._require_open()

    def reduce(self, call: Call, array: NDArray[Any], op: str, root: int) -> None:
        """Leave `array` unchanged."""
        self._require_open()

    def broadcast(self, call: Call, array: NDArray[Any], root: int) -> None:
        """Leave `array` unchanged."""
        self._require_open()

    def all_gather(self, call: Call, out: NDArray[Any], array: NDArray[Any]) -> None:
        """Copy `array` into `out`."""
        self._copy(out[0], array)

    def reduce_scatter(self, call: Call, out: NDArray[Any], array: NDArray[Any], op: str) -> None:
        """Copy `array` into `out`."""
        self._copy(out, array[0])

    def all_to_all(
        self, call: Call, outs: Sequence[NDArray[Any]], arrays: Sequence[NDArray[Any]]
    ) -> None:
        """Copy `arrays[0]` into `outs[0]`."""
        self._copy(outs[0], arrays[0])

    def gather(
        self, call: Call, outs: Sequence[NDArray[Any]] | None, array: NDArray[Any], root: int
    ) -> None:
        """Copy `array` into `outs[0]`."""
        assert outs is not None
        self._copy(outs[0], array)

    def scatter(
        self, call: Call, out: NDArray[Any], arrays: Sequence[NDArray[Any]] | None, root: int
    ) -> None:
        """Copy `arrays[0]` into `out`."""
        assert arrays is not None
        self._copy(out, arrays[0])

    def barrier(self, call: Call) -> None:
        """Return immediately."""
        self._require_open()

    def send(self, call: Call, array: NDArray[Any], to: int, tag: int) -> None:
        """Raise: there is no other member."""
        raise CollectiveError("a group of one member has nobody to send to")

    def recv(self, call: Call, array: NDArray[Any], sender: int | None, tag: int) -> int:
        """Raise: there is no other member."""
        raise CollectiveError("a group of one member has nobody to receive from")

    def abort(self, error: Exception) -> None:
        """Make every later call raise the error."""
        self._error = error

    def close(self) -> None:
        """Do nothing: there is no connection to close."""

    def _require_open(self) -> None:
        if self._error is not None:
            raise self._error

    def _copy(self, out: NDArray[Any], array: NDArray[Any]) -> None:
        self._require_open()
        np.copyto(out, array)
