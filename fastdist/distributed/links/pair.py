"""Sums of two machines, whose leaders use two connections, one in each direction."""

# Note [Sums of two machines]
# Each leader sends the complete data of its machine while it receives the data of the other
# machine, and then adds both. In a ring the leaders would send as many bytes, but each would wait
# for the additions of the other leader. Both leaders add in the order of the machines.
# Two leaders on one machine (for example in containers) send in turns: a leader sends a piece when
# all earlier pieces of the other leader have arrived. So no leader sends on a connection while the
# other leader reads from that connection. Otherwise both would wait for the connection's lock, and
# evict its memory from each other's caches. Sums of 64 MB took 25 to 38 ms without turns, and take
# 24 to 25 ms with turns (2 cores of an AMD EPYC, Zen 5). Between two machines each leader sends as
# fast as the network allows, because turns would cost a round trip per piece.
# A leader that is the only member on its machine sends its call and its array without waiting for
# the other leader's call. The call comes first, so the other leader compares it before using any
# data. If the calls differ, the sender stops, and sends a stop record; the receiver drops all data
# before that record.
# A call that is sent without waiting is joined with the first piece after it (records.py), which
# saves the tag of one record. The receiver compares the calls before that piece is authenticated,
# but adds no data and raises no error before then.

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fastdist.core.errors import MessageError

from .alarm import Waiting
from .records import PIECE_BYTES, Bytes, RecordHead, Records
from .reductions import combine

# The kinds of records: a call (its offset is the length of its text), a call before an array, a
# piece of an array, and the end of the pieces after a call that differs.
_CALL: Final = 1
_CALL_AND_ARRAY: Final = 2
_PIECE: Final = 3
_STOP: Final = 4

# The largest size in bytes that a receiver allocates for a call that is not authenticated yet.
_MOST_CALL_BYTES: Final = 64 << 20
# The smallest size of a piece in bytes, and the number of pieces of a short array. Short arrays are
# divided too, so that one piece can be opened while the next one arrives.
_LEAST_PIECE_BYTES: Final = 128 << 10
_PIECES: Final = 2
# The largest array, in bytes, that the caches can hold together with the other data of a sum.
_MOST_CACHED_BYTES: Final = 4 << 20
NOTHING: Final = np.empty(0, np.uint8)

Array = NDArray[Any]
# A function that returns whether a call's text describes the same call as this machine's text.
Agrees = Callable[[bytes], bool]


class _Outgoing:
    """The array that a leader sends for a sum, in pieces."""

    def __init__(self, records: Records, turn: int, source: Array) -> None:
        self._records = records
        self._turn = turn
        self._source = source
        most = max(_LEAST_PIECE_BYTES, min(PIECE_BYTES, source.nbytes // _PIECES))
        self._step = max(1, most // source.itemsize)
        # The index at which the next piece starts, and the indices at which the pieces start that
        # have not been sent completely.
        self._at = 0
        self._waiting_at: deque[int] = deque()

    @property
    def is_leaving(self) -> bool:
        """Whether some pieces have not been sent completely."""
        return self._at < self._source.size or self._records.num_queued > 0

    @property
    def num_left(self) -> int:
        """The number of elements at the beginning of the array that have been sent."""
        return self._waiting_at[0] if self._count_waiting() else self._at

    def _may_send(self, received: int) -> bool:
        return not self._records.is_local or self._at <= received

    def _count_waiting(self) -> int:
        """Return the number of pieces that have been queued but not sent completely."""
        while len(self._waiting_at) > self._records.num_queued:
            self._waiting_at.popleft()
        return len(self._waiting_at)

    def send_some(self, waiting: Waiting, received: int = 0) -> bool:
        """Send the next piece, or a part of it; return whether any data was sent.

        `received` is the number of elements of the other leader's array that have arrived: see
        Note [Sums of two machines].
        """
        if self._at < self._source.size and not self._count_waiting() and self._may_send(received):
            part = self._source[self._at : self._at + self._step]
            data = part.view(np.uint8)
            self._records.enqueue(self._turn, _PIECE, data, self._at * part.itemsize)
            self._waiting_at.append(self._at)
            self._at += part.size
        return self._records.send_some(waiting)


class Pair:
    """The exchanges of records between the leaders of two machines.

    Thread  the thread that runs the group's collective
    """

    def __init__(self, records: Records, mine: int) -> None:
        self._records = records
        self._mine = mine
        self._piece = np.empty(PIECE_BYTES, np.uint8)
        # The memory into which a call is being received.
        self._call = NOTHING
        # Whether the other leader's call in this turn is followed by its array.
        self._has_array = False

    def close(self) -> None:
        """Close the connections."""
        self._records.close()

    def meet(
        self, turn: int, text: bytes, data: Bytes, agrees: Agrees, waiting: Waiting
    ) -> tuple[bytes, Bytes]:
        """Send the text and data of this leader's call; return those of the other leader's call."""
        records = self._records
        self._enqueue_call(turn, _CALL, text, data)
        theirs = self._await_call(turn, waiting, lambda: records.send_some(waiting))
        if self._has_array and not agrees(theirs[0]):
            self._drop_pieces(turn, waiting)
        self._flush(waiting)
        return theirs

    def meet_and_exchange(
        self, turn: int, text: bytes, mine: Array, theirs: Array, agrees: Agrees, waiting: Waiting
    ) -> bytes:
        """Exchange calls with the other leader, and return its call. If the calls agree, send the
        array `mine`, and fill `theirs` with the other leader's array.
        """
        self._enqueue_call(turn, _CALL_AND_ARRAY, text, NOTHING)
        outgoing = _Outgoing(self._records, turn, mine)
        found, _ = self._await_call(turn, waiting, lambda: outgoing.send_some(waiting))
        if agrees(found):
            for _ in self._receive_pieces(turn, outgoing, theirs, waiting):
                pass
            return found
        self._records.enqueue(turn, _STOP, NOTHING, 0)
        if self._has_array:
            self._drop_pieces(turn, waiting)
        self._flush(waiting)
        return found

    def reduce(self, turn: int, source: Array, result: Array, op: str, waiting: Waiting) -> None:
        """Write the reduction to `result`, which may be `source`. The calls must have agreed."""
        is_in_place = source is result
        theirs = np.empty_like(source) if is_in_place else result
        added = 0

        def add(stop: int) -> int:
            parts = source[added:stop], theirs[added:stop]
            combine(op, parts if self._mine == 0 else parts[::-1], result[added:stop])
            return stop

        outgoing = _Outgoing(self._records, turn, source)
        for received in self._receive_pieces(turn, outgoing, theirs, waiting):
            # In place, an element may be replaced only after it has been sent.
            added = add(min(received, outgoing.num_left) if is_in_place else received)
        add(source.size)

    def _receive_pieces(
        self, turn: int, outgoing: _Outgoing, theirs: Array, waiting: Waiting
    ) -> Iterator[int]:
        """Send the outgoing array, and fill `theirs`; yield the number of received elements."""
        records, at = self._records, 0
        while at < theirs.size or outgoing.is_leaving:
            has_sent = outgoing.send_some(waiting, at)
            stop = self._receive_piece(turn, theirs, at, waiting) if at < theirs.size else at
            if stop > at:
                at = stop
                yield at
            elif not has_sent and (at < theirs.size or records.num_queued):
                records.sleep(waiting, reads=at < theirs.size)

    def _receive_piece(self, turn: int, out: Array, at: int, waiting: Waiting) -> int:
        """Receive the piece that starts at the element `at`; return the end of the piece, or `at`
        if the piece has not arrived.
        """
        head = self._records.receive_head(waiting)
        if head is None:
            return at
        itemsize = out.itemsize
        _require(head, turn, (_PIECE,), min((out.size - at) * itemsize, PIECE_BYTES))
        if head.offset != at * itemsize or not head.nbytes or head.nbytes % itemsize:
            raise MessageError(f"a piece of {head.nbytes} bytes at {head.offset}")
        stop = at + head.nbytes // itemsize
        is_cached = out.nbytes <= _MOST_CACHED_BYTES
        data = out[at:stop].view(np.uint8)
        return stop if self._records.receive_data(data, waiting, is_cached=is_cached) else at

    def _enqueue_call(self, turn: int, number: int, text: bytes, data: Bytes) -> None:
        body = np.frombuffer(text, np.uint8)
        if data.nbytes:
            body = np.concatenate([body, data])
        is_joined = number == _CALL_AND_ARRAY and self._records.can_join
        self._records.enqueue(turn, number, body, len(text), is_joined=is_joined)

    def _await_call(
        self, turn: int, waiting: Waiting, send_some: Callable[[], bool]
    ) -> tuple[bytes, Bytes]:
        """Return the text and data of the other leader's call; send data in the meantime."""
        records = self._records
        while True:
            has_sent = send_some()
            head = records.receive_head(waiting)
            if head is not None:
                _require(head, turn, (_CALL, _CALL_AND_ARRAY), _MOST_CALL_BYTES)
                if head.offset > head.nbytes:
                    raise MessageError(f"a text of {head.offset} bytes of {head.nbytes}")
                if self._call.nbytes != head.nbytes:
                    self._call = np.empty(head.nbytes, np.uint8)
                body = self._call
                is_joined = head.number == _CALL_AND_ARRAY and records.can_join
                if records.receive_data(body, waiting, is_joined=is_joined):
                    self._call = NOTHING
                    self._has_array = head.number == _CALL_AND_ARRAY
                    return body[: head.offset].tobytes(), body[head.offset :]
            if not has_sent:
                records.sleep(waiting, reads=True)

    def _drop_pieces(self, turn: int, waiting: Waiting) -> None:
        """Receive and drop the array of a call that differs, up to its end."""
        records = self._records
        while True:
            has_sent = records.send_some(waiting)
            head = records.receive_head(waiting)
            if head is not None:
                _require(head, turn, (_PIECE, _STOP), PIECE_BYTES)
                if records.receive_data(self._piece[: head.nbytes], waiting):
                    if head.number == _STOP:
                        return
                    continue
            if not has_sent:
                records.sleep(waiting, reads=True)

    def _flush(self, waiting: Waiting) -> None:
        """Send all queued data."""
        while self._records.num_queued:
            if not self._records.send_some(waiting):
                self._records.sleep(waiting, reads=False)


def _require(head: RecordHead, turn: int, numbers: tuple[int, ...], most: int) -> None:
    """Raise MessageError for a record that is invalid at this point."""
    if head.turn != turn or head.number not in numbers or head.nbytes > most:
        raise MessageError(
            f"a record of kind {head.number} in turn {head.turn} with {head.nbytes} bytes at "
            f"{head.offset}; this is turn {turn}"
        )
