"""Records are sent and received completely, and waits name the members concerned."""

from __future__ import annotations

import socket
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fastdist.core.errors import CollectiveError, CollectiveLostError
from fastdist.distributed.links import records, ring
from fastdist.distributed.links.alarm import REPORT_S, Alarm
from fastdist.distributed.links.records import RecordHead, Records
from fastdist.distributed.sockets import Doorbell
from tests.distributed.links.members import Member, together
from tests.distributed.links.test_bulk import LARGE, Patience


class Ends:
    """The records of a member that sends to member 1 and receives from 2, with both remote ends."""

    def __init__(self, alarm: Alarm) -> None:
        (to_next, self.after), (self.before, from_previous) = (
            socket.socketpair(),
            socket.socketpair(),
        )
        for one in (to_next, from_previous):
            one.setblocking(False)
        self.to_next, self.bell = to_next, Doorbell()
        self.records = Records(to_next, from_previous, None, None, (1, 2), alarm, self.bell)

    def close(self) -> None:
        self.records.close()
        self.bell.close()
        self.after.close()
        self.before.close()


@pytest.mark.parametrize("reads", [True, False])
def test_who_sleeps_looks_for_the_one_it_waits_for(reads: bool) -> None:
    ends, looked = Ends(Alarm()), []
    with suppress(BlockingIOError):  # the socket buffer is full
        while True:
            ends.to_next.send(bytes(1 << 16))
    ends.records.enqueue(3, 0, np.zeros(32, np.uint8), 0)

    def look(missing: list[int], grace_s: float, *, awaits_left: bool) -> float:
        looked.append((missing, grace_s, awaits_left))
        return 0.001

    ends.records.sleep(SimpleNamespace(look=look), reads=reads)  # type: ignore[arg-type]
    assert looked == [([2 if reads else 1], REPORT_S, True)]
    if reads:
        ends.before.sendall(b"x")
        ends.records.sleep(SimpleNamespace(look=lambda *_, **__: 60.0), reads=True)  # type: ignore[arg-type]
    ends.close()


def test_a_bell_that_rings_is_cleared_and_an_alarm_ends_the_sleep() -> None:
    alarm = Alarm()
    ends = Ends(alarm)
    ends.bell.ring()
    ends.records.sleep(Patience(), reads=True)  # type: ignore[arg-type]
    assert not ends.bell.wait(0.0)
    alarm.set(CollectiveError("it ended"))
    with pytest.raises(CollectiveError, match="it ended"):
        ends.records.sleep(Patience(), reads=True)  # type: ignore[arg-type]
    ends.close()


def test_a_connection_that_breaks_names_the_member_unless_its_reason_is_known() -> None:
    alarm = Alarm()
    ends = Ends(alarm)
    ends.before.close()
    with pytest.raises(CollectiveLostError, match="rank 2 was lost: its connection has ended"):
        ends.records.receive_head(Patience())  # type: ignore[arg-type]
    ends.after.close()
    ends.records.enqueue(3, 0, np.zeros(32, np.uint8), 0)
    with pytest.raises(CollectiveLostError, match="rank 1 was lost: its connection broke"):
        ends.records.send_some(Patience())  # type: ignore[arg-type]
    alarm.set(CollectiveError("its reason"))
    ends.bell.ring()
    with pytest.raises(CollectiveError, match="its reason"):
        ends.records.send_some(Patience())  # type: ignore[arg-type]
    ends.close()


def test_a_record_goes_on_where_the_socket_took_no_more() -> None:
    ends = Ends(Alarm())
    data = np.random.default_rng(3).integers(0, 255, records.PIECE_BYTES, np.uint8)
    for turn in (3, 4):
        ends.records.enqueue(turn, 1, data, 0)
    got = bytearray()
    while ends.records.num_queued:
        ends.records.send_some(Patience())  # type: ignore[arg-type]
        got += ends.after.recv(50_001)
    ends.after.setblocking(False)
    while len(got) < 2 * (data.nbytes + records._HEAD.size):
        got += ends.after.recv(1 << 20)
    assert not ends.records.send_some(Patience())  # type: ignore[arg-type]
    heads = [records._HEAD.pack(turn, 1, data.nbytes, 0) for turn in (3, 4)]
    assert got == b"".join(head + data.tobytes() for head in heads)
    ends.close()


@pytest.mark.parametrize("cut", [1, 33, 700, 5_000])
@pytest.mark.parametrize("sizes", [(0, 7, 0, 900), (3_000, 1), (records.PIECE_BYTES, 64)])
def test_what_was_received_ahead_belongs_to_the_next_record(
    cut: int, sizes: tuple[int, ...]
) -> None:
    ends, draws = Ends(Alarm()), np.random.default_rng(5)
    sent = [draws.integers(0, 255, size, np.uint8) for size in sizes]
    stream = b"".join(
        records._HEAD.pack(turn, 1, data.nbytes, 0) + data.tobytes()
        for turn, data in enumerate(sent)
    )
    got: list[bytes] = []
    at, out = 0, np.zeros(0, np.uint8)
    while len(got) < len(sent):
        # Send small parts first, then as much as the socket accepts.
        size = cut if at < 10 * cut else 100_000
        at += ends.before.send(stream[at : at + size]) if at < len(stream) else 0
        while (head := ends.records.receive_head(Patience())) is not None:  # type: ignore[arg-type]
            assert (head.turn, head.nbytes) == (len(got), sizes[len(got)])
            out = out if out.nbytes == head.nbytes else np.zeros(head.nbytes, np.uint8)
            if not ends.records.receive_data(out, Patience()):  # type: ignore[arg-type]
                break
            got.append(out.tobytes())
    assert got == [data.tobytes() for data in sent]
    ends.close()


def test_records_that_wait_leave_together_and_each_as_a_whole() -> None:
    ends = Ends(Alarm())
    draws = np.random.default_rng(6)
    sent = [draws.integers(0, 255, size, np.uint8) for size in range(1, 20)]
    for turn, data in enumerate(sent):
        ends.records.enqueue(turn, 1, data, 0)
    assert ends.records.send_some(Patience())  # type: ignore[arg-type]
    assert ends.records.num_queued == 0
    heads = [records._HEAD.pack(turn, 1, one.nbytes, 0) for turn, one in enumerate(sent)]
    wanted = b"".join(head + one.tobytes() for head, one in zip(heads, sent, strict=True))
    assert ends.after.recv(1 << 16) == wanted
    ends.close()


@pytest.mark.parametrize(
    ("start", "stop", "offset", "is_one"),
    [
        *((0, 4, 0, True), (4, 8, 32, True), (8, 10, 64, True)),
        *((0, 4, 1, False), (1, 4, 8, False), (0, 3, 0, False), (8, 12, 64, False)),
        *((12, 12, 96, False), (12, 10, 96, False), (4, 8, 33, False)),
    ],
)
def test_only_a_piece_that_a_sender_cuts_is_taken(
    monkeypatch: pytest.MonkeyPatch, start: int, stop: int, offset: int, is_one: bool
) -> None:
    monkeypatch.setattr(ring, "PIECE_BYTES", 32)
    part, head = np.zeros(10), RecordHead(0, 0, 8 * (stop - start), offset)
    assert ring._is_piece(part, start, stop, head) == is_one
    assert not ring._is_piece(part, start, stop, head._replace(nbytes=head.nbytes + 1))
    assert ring.pieces_of(part) == [(0, 4), (4, 8), (8, 10)]
    assert ring.pieces_of(part[:0]) == []
    monkeypatch.setattr(ring, "PIECE_BYTES", 3)
    assert ring.pieces_of(part[:2]) == [(0, 1), (1, 2)]


@pytest.mark.parametrize("machines", ["ab", "abc"])
def test_what_a_member_sent_before_it_left_is_received(
    monkeypatch: pytest.MonkeyPatch, machines: str
) -> None:
    receive_head = Records.receive_head

    def learn_first_that_it_left(self: Records, *arguments: Any) -> Any:
        # The goodbye uses another connection, and may arrive first.
        self._alarm.left.add(self.previous)
        return receive_head(self, *arguments)

    monkeypatch.setattr(Records, "receive_head", learn_first_that_it_left)

    def play(member: Member) -> float:
        array = np.full(LARGE, member.rank + 1.0)
        member.transport.all_reduce(member.call(), array, "sum")
        return float(array[-1])

    total = sum(range(1, len(machines) + 1))
    assert together(machines, play) == [total] * len(machines)
