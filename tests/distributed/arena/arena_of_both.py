"""An arena whose owner and borrower are the same process, for tests."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from fastdist.distributed.arena.borrower import borrow, open_borrowed
from fastdist.distributed.arena.layout import TABLE_BYTES
from fastdist.distributed.arena.owner import Arena

SIZE = TABLE_BYTES + (64 << 20)
PEER = object()


class Both:
    """An arena, together with a borrower's mapping of it in the same process."""

    def __init__(self) -> None:
        self.later: list[tuple[float, Callable[[], None]]] = []
        self.arena = Arena(SIZE, lambda seconds, what: self.later.append((seconds, what)))
        self.borrowed = open_borrowed(os.getpid(), self.arena.fd, SIZE, self.arena.id)

    def lend(self, data: Any, message_id: int = 1, peer: object = PEER) -> bytes:
        block = self.arena.lend(data, peer, message_id)
        assert block is not None
        return block

    def send(self, array: np.ndarray[Any, Any], message_id: int = 1) -> np.ndarray[Any, Any]:
        """Lend an array to the borrower, and return the borrower's view of it."""
        return borrowed(self.lend(array.data.cast("B"), message_id), array)

    def lent(self) -> int:
        return self.arena.usage()[0]

    def bytes_there(self) -> int:
        return os.fstat(self.arena.fd).st_blocks * 512

    def run_later(self) -> None:
        later, self.later[:] = list(self.later), []
        for _, what in later:
            what()


def borrowed(block: bytes, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the borrower's view of an array that was copied into a block."""
    return np.ndarray(array.shape, array.dtype, borrow(block, array.nbytes))


def numbers(count: int = 1 << 15) -> np.ndarray[Any, Any]:
    return np.random.default_rng(count).random(count)
