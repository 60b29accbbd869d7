"""Two machines: their leaders meet, and sum, over one connection each way."""

# Note [Sums of two machines]
# Each leader sends all that its machine has, while it receives what the other has, and adds: that
# is as many bytes as around a ring, and no leader waits for what the other has added. Both add in
# the order of the machines.
# Two leaders on one machine (in containers, say) send in turns: each piece leaves once all pieces
# before it have come from the other. So neither sends to a connection while the other reads from
# it, where both would wait for the connection's lock and take its memory from each other's caches:
# sums of 64 MB took 25 to 38 ms, and take 24 to 25 (2 cores of an AMD EPYC, Zen 5). Between two
# machines each sends as fast as the network takes it: waiting would cost a round trip for a piece.
# A leader that has no members to wait for sends its call and its array at once: the call comes
# first, so that the other compares it before it uses a number. Where calls differ, the sender
# stops, and sends a record that says so; the receiver drops what came until then. Such a call is
# joined with the first piece behind it (records.py): a tag less. It is compared before that piece
# is opened, and nothing follows from it, no sum and no error, before that.

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

# Numbers of records: a call, with the bytes of its text as offset; the same, with an array behind
# it; a piece; the end of the pieces of a call that differs.
_CALL: Final = 1
_CALL_AND_ARRAY: Final = 2
_PIECE: Final = 3
_STOP: Final = 4

# A receiver keeps no more for a call that nothing has authenticated.
_MOST_CALL_BYTES: Final = 64 << 20
# Short arrays are cut as well: one piece is opened while the next arrives.
_LEAST_PIECE_BYTES: Final = 128 << 10
_PIECES: Final = 2
# The caches hold arrays of so many bytes, and what else a sum touches.
_MOST_CACHED_BYTES: Final = 4 << 20
NOTHING: Final = np.empty(0, np.uint8)

Array = NDArray[Any]
# Whether a call's text is that of the same call as this machine's.
Agrees = Callable[[bytes], bool]


class _Outgoing:
    """The array of a sum, as it leaves piece by piece."""

    def __init__(self, records: Records, turn: int, source: Array) -> None:
        self._records = records
        self._turn = turn
        self._source = source
        most = max(_LEAST_PIECE_BYTES, min(PIECE_BYTES, source.nbytes // _PIECES))
        self._step = max(1, most // source.itemsize)
        # Where the next piece begins; where the pieces that have not left begin.
        self._at = 0
        self._waiting_at: deque[int] = deque()

    @property
    def is_leaving(self) -> bool:
        """Whether pieces have not left as a whole."""
        return self._at < self._source.size or self._records.num_queued > 0

    @property
    def num_left(self) -> int:
        """How many numbers have left, from the first on."""
        return self._waiting_at[0] if self._count_waiting() else self._at

    def _may_send(self, received: int) -> bool:
        return not self._records.is_local or self._at <= received

    def _count_waiting(self) -> int:
        """Return how many pieces have not left as a whole."""
        while len(self._waiting_at) > self._records.num_queued:
            self._waiting_at.popleft()
        return len(self._waiting_at)

    def send_some(self, waiting: Waiting, received: int = 0) -> bool:
        """Send the next piece, or what the socket takes of it; return whether anything left.

        `received` says how many of the other's numbers have come: see Note [Sums of two machines].
        """
        if self._at < self._source.size and not self._count_waiting() and self._may_send(received):
            part = self._source[self._at : self._at + self._step]
            data = part.view(np.uint8)
            self._records.enqueue(self._turn, _PIECE, data, self._at * part.itemsize)
            self._waiting_at.append(self._at)
            self._at += part.size
        return self._records.send_some(waiting)


class Pair:
    """The records between the leaders of two machines.

    Thread  the one that carries out the group's collective
    """

    def __init__(self, records: Records, mine: int) -> None:
        self._records = records
        self._mine = mine
        self._piece = np.empty(PIECE_BYTES, np.uint8)
        # Memory for the call that is being received.
        self._call = NOTHING
        # Whether the other has sent its array with its call, in this turn.
        self._has_array = False

    def close(self) -> None:
        """Hang up."""
        self._records.close()

    def meet(
        self, turn: int, text: bytes, data: Bytes, agrees: Agrees, waiting: Waiting
    ) -> tuple[bytes, Bytes]:
        """Exchange texts and data of calls; return the other's."""
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
        """Exchange calls; return the other's, and fill `theirs` with its array if they agree."""
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
        """Write the reduction into result, which may be the source; the calls have agreed."""
        is_in_place = source is result
        theirs = np.empty_like(source) if is_in_place else result
        added = 0

        def add(stop: int) -> int:
            parts = source[added:stop], theirs[added:stop]
            combine(op, parts if self._mine == 0 else parts[::-1], result[added:stop])
            return stop

        outgoing = _Outgoing(self._records, turn, source)
        for received in self._receive_pieces(turn, outgoing, theirs, waiting):
            # A number that has not left yet is not replaced.
            added = add(min(received, outgoing.num_left) if is_in_place else received)
        add(source.size)

    def _receive_pieces(
        self, turn: int, outgoing: _Outgoing, theirs: Array, waiting: Waiting
    ) -> Iterator[int]:
        """Fill `theirs`, and send what goes out; yield how many numbers have come."""
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
        """Receive the piece that begins at a number; return its end, or `at` if it is not here."""
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
        """Return text and data of the other's call; send meanwhile."""
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
        """Receive the array of a call that differs, as far as it comes, and forget it."""
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
        """Send what waits to be sent."""
        while self._records.num_queued:
            if not self._records.send_some(waiting):
                self._records.sleep(waiting, reads=False)


def _require(head: RecordHead, turn: int, numbers: tuple[int, ...], most: int) -> None:
    """Raise MessageError for a record that the other leader does not send at this point."""
    if head.turn != turn or head.number not in numbers or head.nbytes > most:
        raise MessageError(
            f"a record of kind {head.number} in turn {head.turn} with {head.nbytes} bytes at "
            f"{head.offset}; this is turn {turn}"
        )
