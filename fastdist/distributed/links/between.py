"""The exchanges between leaders of machines: they compare calls and compute sums."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fastdist.core.errors import CollectiveLostError, CollectiveTimeoutError, MessageError
from fastdist.distributed.pipe.frames import Buffer
from fastdist.distributed.process_group.transport import Call
from fastdist.distributed.sockets import Doorbell
from fastdist.system.foreign_text import one_line

from . import bulk
from .alarm import LOOK_S, REPORT_S, Alarm, Waiting
from .algorithms import new_cipher
from .cipher import KEY_BYTES
from .hub import Hub
from .inbox import Inbox
from .members import Members
from .pair import Agrees, Pair
from .records import Records
from .reductions import combine
from .ring import Ring
from .tree import MOST_DIRECT, Known, Merge, rounds_of
from .wire import BULK, DATA, MEET, PIECE_BYTES, Head

# The time in which a short notice must be sent.
_NOTICE_S: Final = 0.2
# The step of pieces that one member sends directly to another; pieces in rings have other steps.
_DIRECT: Final = 0
_PORT_BYTES: Final = 4


class Post:
    """Sends messages of one group from this member."""

    def __init__(self, hub: Hub, group: int, rank: int, members: Members, alarm: Alarm) -> None:
        self._hub = hub
        self._alarm = alarm
        self.group = group
        self.rank = rank
        # How bulk connections seal records; empty if the group does not use bulk connections.
        self.seal = members.records[rank].bulk
        is_encrypted = self.seal == bulk.ENCRYPTED
        self.algorithm = members.cipher() if is_encrypted else members.tags()
        self._members = members

    def send(self, to: int, head: Head, body: Sequence[Buffer], call: Call) -> None:
        """Send a message to a member; return when the memory of `body` may be changed.

        Raises  CollectiveLostError or CollectiveTimeoutError, with the member's name; the failure
                of the group
        """
        frames = (head.encode(), *body)
        while not self._has_sent(to, frames, min(call.deadline, time.monotonic() + LOOK_S)):
            self._alarm.look()
            if time.monotonic() >= call.deadline:
                name = self._members.name(to)
                text = f"{call.name} at {one_line(call.line)}: {name} could not be reached in time"
                raise CollectiveTimeoutError(text)

    def _has_sent(self, to: int, frames: Sequence[Buffer], until: float) -> bool:
        try:
            self._hub.send(self._members.records[to], frames, until)
        except CollectiveLostError as error:
            self._alarm.read_on(to)
            raise CollectiveLostError(f"{self._members.name(to)} was lost: {error}") from error
        except TimeoutError:
            self._hub.knock(self._members.records[to])
            return False
        return True

    def notify(
        self, to: int, kind: int, text: bytes = b"", step: int = 0, until: float = 0.0
    ) -> bool:
        """Send a short notice without waiting for its delivery; return False if the member is lost.

        `until` is a time of time.monotonic(). It may allow the notice more time than usual.
        """
        frames = Head(kind, self.group, self.rank, 0, step).encode(), text
        try:
            until = max(until, time.monotonic() + _NOTICE_S)
            self._hub.send(self._members.records[to], frames, until)
        except (CollectiveLostError, TimeoutError):
            return False
        return True

    def send_array(
        self, to: int, turn: int, step: int, data: NDArray[np.uint8], call: Call
    ) -> None:
        """Send the bytes of an array to a member, in pieces."""
        head = Head(DATA, self.group, self.rank, turn, step, total=data.nbytes)
        for start in range(0, data.nbytes, PIECE_BYTES):
            piece = data[start : start + PIECE_BYTES].data
            self.send(to, head._replace(offset=start), (piece,), call)


class Between:
    """One leader's exchanges with the leaders of the group's other machines.

    Thread  the thread that runs the group's collective
    """

    def __init__(
        self,
        machines: Sequence[Sequence[int]],
        mine: int,
        post: Post,
        inbox: Inbox,
        alarm: Alarm,
        host: str,
    ) -> None:
        self.machines = machines
        self.mine = mine
        self._leaders = [machine[0] for machine in machines]
        self._post = post
        self._inbox = inbox
        self._alarm = alarm
        self._host = host
        self._bell: Doorbell | None = None
        # Created at the first large sum: `pair` for two machines, `_ring` for more machines.
        self._ring: Ring | None = None
        self.pair: Pair | None = None

    def close(self) -> None:
        """Close the bulk connections."""
        for one in (self._ring, self.pair):
            if one is not None:
                one.close()
        if self._bell is not None:
            self._bell.close()

    @property
    def report_s(self) -> float:
        """The time after a deadline for which a leader may wait for reports about late members."""
        count = len(self._leaders)
        return REPORT_S * (1 if count <= MOST_DIRECT else 2 + count.bit_length())

    def meet(
        self,
        turn: int,
        text: bytes,
        data: NDArray[np.uint8],
        agrees: Agrees,
        waiting: Waiting,
        call: Call,
        merge: Merge | None,
    ) -> tuple[list[bytes], list[Buffer]]:
        """Send this machine's text and data to all leaders; return the texts and data of all
        machines.

        `agrees` returns whether another machine's text describes the same call. `merge` combines
        the data of two machines into one. So if `merge` is given, the second list may have fewer
        items than there are machines. All machines must then send equally many bytes of data,
        unless their texts differ.
        """
        count = len(self._leaders)
        if self.pair is not None:
            theirs, found_data = self.pair.meet(turn, text, data, agrees, waiting)
            step = 1 if self.mine == 0 else -1
            datas: list[Buffer] = [data.data, found_data.data]
            return [text, theirs][::step], datas[::step]
        if count > MOST_DIRECT:
            return self._meet_in_rounds(turn, Known(self.mine, text, data, merge), waiting, call)
        head = Head(MEET, self._post.group, self._post.rank, turn, total=data.nbytes)
        for number, leader in enumerate(self._leaders):
            if number != self.mine:
                self._post.send(leader, head, (text, data.data), call)
        texts: list[bytes] = []
        bodies: list[Buffer] = []
        for number, leader in enumerate(self._leaders):
            body: Sequence[Buffer] = text, data.data
            if number != self.mine:
                _, body = self._inbox.take(leader, turn, MEET, 0, waiting, REPORT_S)
            texts.append(bytes(body[0]))
            bodies.append(body[1])
        return texts, bodies

    def _meet_in_rounds(
        self, turn: int, known: Known, waiting: Waiting, call: Call
    ) -> tuple[list[bytes], list[Buffer]]:
        """See Note [Meetings of many machines]."""
        count = len(self._leaders)
        for action, other, step in rounds_of(self.mine, count):
            leader = self._leaders[other]
            if action != "receive":
                head = Head(MEET, self._post.group, self._post.rank, turn, step)
                self._post.send(leader, head, known.encode(), call)
            if action != "send":
                grace_s = REPORT_S * (1 + step)
                _, body = self._inbox.take(leader, turn, MEET, step, waiting, grace_s)
                if action == "receive" and step:
                    known.replace(body, count)
                else:
                    known.add(body, count)
        bodies: list[Buffer] = [known.data[number].data for number in sorted(known.data)]
        return known.in_order(count), bodies

    def reduce(
        self,
        turn: int,
        step: int,
        source: NDArray[Any],
        result: NDArray[Any],
        op: str,
        waiting: Waiting,
        call: Call,
    ) -> int:
        """Write the reduction over all machines into result; return the next free step.

        `result` may be the same array as `source`. Without bulk connections the reduction is a
        reduce-scatter, then an all-gather, around a ring. Each piece is sent to the next leader as
        soon as it has been added.
        """
        count, mine = len(self._leaders), self.mine
        if self._post.seal:
            if self._ring is None and self.pair is None:
                records = self._connect(turn, waiting, call)
                if count == 2:
                    self.pair = Pair(records, mine)
                else:
                    self._ring = Ring(records)
            if self.pair is not None:
                self.pair.reduce(turn, source, result, op, waiting)
            elif self._ring is not None:
                self._ring.reduce(turn, source, result, op, mine, count, waiting)
            return step
        array = result
        if source is not result:
            array[...] = source
        after, before = self._leaders[(mine + 1) % count], self._leaders[mine - 1]
        bounds = [array.size * part // count for part in range(count + 1)]
        parts = [array[start:stop] for start, stop in itertools.pairwise(bounds)]
        self._send_part(after, turn, step, parts[mine], call)
        last = 2 * (count - 1) - 1
        for number in range(last + 1):
            part = parts[(mine - number - 1) % count]
            for start, stop in _pieces(part):
                mine_of_it = part[start:stop]
                theirs = self._next_piece(before, turn, step + number, mine_of_it, waiting)
                if number < count - 1:
                    combine(op, (theirs, mine_of_it), mine_of_it)
                else:
                    mine_of_it[...] = theirs
                if number < last:
                    self._send_piece(after, turn, step + number + 1, part, start, stop, call)
        return step + last + 1

    def _connect(self, turn: int, waiting: Waiting, call: Call) -> Records:
        """Connect to the next and the previous leader; see Note [Bulk connections]."""
        count, seal = len(self._leaders), self._post.seal
        after, before = self._leaders[(self.mine + 1) % count], self._leaders[self.mine - 1]
        self._bell = bell = Doorbell()
        self._alarm.wakers.append(bell.ring)
        token, key = bulk.new_token(), os.urandom(KEY_BYTES) if seal != bulk.PLAIN else b""
        with bulk.listen(self._host) as listener:
            port = listener.getsockname()[1]
            head = Head(BULK, self._post.group, self._post.rank, turn)
            told = token + port.to_bytes(_PORT_BYTES, "little") + key
            self._post.send(before, head, (told, self._host.encode()), call)
            _, body = self._inbox.take(after, turn, BULK, 0, waiting, REPORT_S)
            theirs, host = bytes(body[0]), bytes(body[1]).decode(errors="replace")
            if len(theirs) != len(told):
                raise MessageError(f"the offer of a connection has {len(theirs)} bytes")
            port_at = slice(bulk.TOKEN_BYTES, bulk.TOKEN_BYTES + _PORT_BYTES)
            their_port = int.from_bytes(theirs[port_at], "little")
            to_next = bulk.call(host, their_port, theirs[: bulk.TOKEN_BYTES], waiting, after)
            try:
                from_previous = bulk.accept(listener, token, waiting, before, self._alarm, bell)
            except BaseException:
                to_next.close()
                raise
        sealing = opening = None
        if key:
            encrypts = seal == bulk.ENCRYPTED
            algorithm, their_key = self._post.algorithm, theirs[port_at.stop :]
            sealing = new_cipher(algorithm, their_key, encrypts=encrypts, seals=True)
            opening = new_cipher(algorithm, key, encrypts=encrypts, seals=False)
        return Records(to_next, from_previous, sealing, opening, (after, before), self._alarm, bell)

    def receive_array(
        self, sender: int, turn: int, into: NDArray[np.uint8], waiting: Waiting
    ) -> None:
        """Fill an array with the data that another member sends here in this turn."""
        left = into.nbytes
        while left:
            head, body = self._inbox.take(sender, turn, DATA, _DIRECT, waiting, REPORT_S)
            piece = np.frombuffer(body[0], np.uint8)
            if head.total != into.nbytes or len(piece) > left or not len(piece):
                raise MessageError(f"a piece of {head.total} bytes; expected {into.nbytes}")
            into[head.offset : head.offset + len(piece)] = piece
            left -= len(piece)

    def _send_part(self, to: int, turn: int, step: int, part: NDArray[Any], call: Call) -> None:
        for start, stop in _pieces(part):
            self._send_piece(to, turn, step, part, start, stop, call)

    def _send_piece(
        self, to: int, turn: int, step: int, part: NDArray[Any], start: int, stop: int, call: Call
    ) -> None:
        head = Head(DATA, self._post.group, self._post.rank, turn, step + 1)
        size = part.itemsize
        head = head._replace(offset=start * size, total=part.nbytes)
        data = part[start:stop].view(np.uint8).data
        self._post.send(to, head, (data,), call)

    def _next_piece(
        self, sender: int, turn: int, step: int, like: NDArray[Any], waiting: Waiting
    ) -> NDArray[Any]:
        _, body = self._inbox.take(sender, turn, DATA, step + 1, waiting, REPORT_S)
        piece = np.frombuffer(body[0], np.uint8)
        if piece.nbytes != like.nbytes:
            raise MessageError(f"a piece of {piece.nbytes} bytes; expected {like.nbytes}")
        return piece.view(like.dtype)


def _pieces(part: NDArray[Any]) -> list[tuple[int, int]]:
    step = max(1, PIECE_BYTES // part.itemsize)
    return [(start, min(start + step, part.size)) for start in range(0, part.size, step)]
