"""Several machines: their leaders sum large arrays around a ring of connections."""

from __future__ import annotations

import itertools
from collections import deque
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastdist.core.errors import MessageError

from .alarm import Waiting
from .records import PIECE_BYTES, RecordHead, Records
from .reductions import combine

# A leader queues pieces of its machine's data only while fewer pieces than this are queued. Pieces
# that it passes on are always queued.
_MOST_QUEUED: Final = 4

Array = NDArray[Any]


class _Sum(NamedTuple):
    """One sum around the ring: its source, its result, and its steps."""

    turn: int
    op: str
    # The parts of this machine's data and of the result; the same arrays if the sum is in place.
    sources: list[Array]
    results: list[Array]
    mine: int
    last: int

    def part_of(self, number: int) -> int:
        """Return the index of the part that arrives in a step."""
        return (self.mine - number - 1) % len(self.sources)

    def adds(self, number: int) -> bool:
        """Return whether a step adds the arriving part; in later steps, complete sums arrive."""
        return number < len(self.sources) - 1


class Ring:
    """The connections from the previous leader and to the next one.

    The `number` in a record's head is the step of the sum.

    Thread  the thread that runs the group's collective
    """

    def __init__(self, records: Records) -> None:
        self._records = records
        self._piece = np.empty(PIECE_BYTES, np.uint8)

    def close(self) -> None:
        """Close the connections."""
        self._records.close()

    def reduce(
        self,
        turn: int,
        source: Array,
        result: Array,
        op: str,
        mine: int,
        count: int,
        waiting: Waiting,
    ) -> None:
        """Write the reduction over all machines into `result`, which may be `source` itself.

        `mine` is this machine's index among `count` machines. The reduction is a reduce-scatter,
        then an all-gather. Each piece is passed on as soon as it has been added.
        """
        bounds = [source.size * part // count for part in range(count + 1)]
        pairs = list(itertools.pairwise(bounds))
        sources = [source[low:high] for low, high in pairs]
        results = [result[low:high] for low, high in pairs]
        its = _Sum(turn, op, sources, results, mine, 2 * (count - 1) - 1)
        incoming = (sources[its.part_of(number)] for number in range(its.last + 1))
        expected = sum(len(pieces_of(part)) for part in incoming)
        own, records = deque(pieces_of(sources[mine])), self._records
        while expected or own or records.num_queued:
            while own and records.num_queued < _MOST_QUEUED:
                self._enqueue(turn, 0, sources[mine], *own.popleft())
            has_sent = records.send_some(waiting)
            if expected and self._receive(its, waiting):
                expected -= 1
            elif not has_sent and (expected or records.num_queued):
                records.sleep(waiting, reads=expected > 0)

    def _enqueue(self, turn: int, number: int, part: Array, start: int, stop: int) -> None:
        data = part[start:stop].view(np.uint8)
        self._records.enqueue(turn, number, data, start * part.itemsize)

    def _receive(self, its: _Sum, waiting: Waiting) -> bool:
        """Receive the next piece, add or copy it, and pass it on; return False if it has not
        arrived.
        """
        head = self._records.receive_head(waiting)
        if head is None:
            return False
        turn, number, nbytes, offset = head
        index = its.part_of(number)
        source, result = its.sources[index], its.results[index]
        start, stop = offset // source.itemsize, (offset + nbytes) // source.itemsize
        if turn != its.turn or number > its.last or not _is_piece(source, start, stop, head):
            raise MessageError(f"{nbytes} bytes at {offset} of step {number} of sum {turn}")
        out = self._piece[:nbytes] if its.adds(number) else result[start:stop].view(np.uint8)
        if not self._records.receive_data(out, waiting, is_cached=its.adds(number)):
            return False
        if its.adds(number):
            arrays = (out.view(source.dtype), source[start:stop])
            combine(its.op, arrays, result[start:stop])
        if number < its.last:
            self._enqueue(turn, number + 1, result, start, stop)
        return True


def pieces_of(part: Array) -> list[tuple[int, int]]:
    """Return the start and the end of each piece of a part."""
    step = max(1, PIECE_BYTES // part.itemsize)
    return [(start, min(start + step, part.size)) for start in range(0, part.size, step)]


def _is_piece(part: Array, start: int, stop: int, head: RecordHead) -> bool:
    step = max(1, PIECE_BYTES // part.itemsize)
    is_aligned = start % step == 0 and head.offset == start * part.itemsize
    is_whole = head.nbytes == (stop - start) * part.itemsize
    return is_aligned and is_whole and start < part.size and stop == min(start + step, part.size)
