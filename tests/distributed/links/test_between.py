"""The leaders of machines: the number of messages for a sum, and rejected messages."""

from __future__ import annotations

import numpy as np
import pytest

from fastdist.core.errors import CollectiveError, MessageError
from fastdist.distributed.links import between, wire
from fastdist.distributed.links.wire import Head, decode
from tests.distributed.links.members import Member, staying, together


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let sends of short messages wait longer, because the machine may be busy."""
    monkeypatch.setattr(between, "_NOTICE_S", 1.0)


@pytest.mark.parametrize("count", [2, 3, 4])
def test_a_sum_around_a_ring_sends_each_part_twice_but_for_the_two_at_its_ends(
    monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr("fastdist.distributed.links.joining.choose_seal", lambda *_, **__: "")

    def play(member: Member) -> tuple[list[tuple[int, int]], int]:
        post, sent = member.transport._post, list[tuple[int, int]]()
        send = post.send

        def counted(to: int, head: Head, body: tuple[bytes, ...], call: object) -> None:
            if head.kind == wire.DATA:
                assert to == (member.rank + 1) % count
                sent.append((head.step, len(body[0])))
            send(to, head, body, call)  # type: ignore[arg-type]

        post.send = counted  # type: ignore[assignment, method-assign]
        array = np.full(30_000 * count, member.rank, np.float32)
        member.transport.all_reduce(member.call(), array, "sum")
        return sent, member.transport._sums._step

    for sent, step in together("abcd"[:count], play):
        assert sent == [(number + 1, 120_000) for number in range(2 * (count - 1))]
        assert step == 2 * (count - 1)


def test_larger_parts_go_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(between, "PIECE_BYTES", 1000)
    assert between._pieces(np.zeros(0)) == []
    assert between._pieces(np.zeros(125)) == [(0, 125)]
    assert between._pieces(np.zeros(126)) == [(0, 125), (125, 126)]
    monkeypatch.setattr(between, "PIECE_BYTES", 7)
    assert between._pieces(np.zeros(2)) == [(0, 1), (1, 2)]


def _with_forged_data(part: str) -> None:
    """Make one member send pieces with wrong heads or sizes."""

    def play(member: Member) -> None:
        post = member.transport._post
        send = post.send

        def forged(to: int, head: Head, body: tuple[bytes, ...], call: object) -> None:
            if head.kind == wire.DATA and member.rank == 1:
                if part == "total":
                    head = head._replace(total=head.total + 8)
                else:
                    body = (bytes(0 if part == "empty" else len(body[0]) - 8),)
            send(to, head, body, call)  # type: ignore[arg-type]

        post.send = forged  # type: ignore[assignment, method-assign]
        out = np.zeros(50_000)
        pieces = [out] * 2 if member.rank == 1 else None
        if member.rank == 0:
            nbytes = 400_008 if part == "total" else 400_000
            with pytest.raises(MessageError, match=f"a piece of {nbytes} bytes; expected 400000"):
                member.transport.scatter(member.call(), out, pieces, 1)
        else:
            member.transport.scatter(member.call(), out, pieces, 1)
            with pytest.raises(CollectiveError, match="was interrupted in call"):
                member.transport.barrier(member.call())

    together("ab", staying(2, play))


def test_a_piece_of_an_array_of_another_size_ends_the_group() -> None:
    _with_forged_data("total")


def test_a_piece_without_bytes_ends_the_group() -> None:
    _with_forged_data("empty")


def test_a_piece_of_a_sum_that_is_too_short_ends_the_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fastdist.distributed.links.joining.choose_seal", lambda *_, **__: "")

    def play(member: Member) -> str:
        post = member.transport._post
        send = post.send

        def shortened(to: int, head: Head, body: tuple[bytes, ...], call: object) -> None:
            if head.kind == wire.DATA and member.rank == 1:
                body = (bytes(body[0])[:-8],)
            send(to, head, body, call)  # type: ignore[arg-type]

        post.send = shortened  # type: ignore[assignment, method-assign]
        array = np.ones(50_000)
        with pytest.raises((CollectiveError, MessageError)) as raised:
            member.transport.all_reduce(member.call(), array, "sum")
        assert (array == 1).all()
        return str(raised.value)

    assert "a piece of 199992 bytes; expected 200000" in together("ab", staying(2, play))[0]


def test_an_offer_of_a_connection_of_another_length_ends_the_group() -> None:
    def play(member: Member) -> str:
        post = member.transport._post
        send = post.send

        def shortened(to: int, head: Head, body: tuple[bytes, ...], call: object) -> None:
            if head.kind == wire.BULK and member.rank == 1:
                body = (body[0][:-1], body[1])
            send(to, head, body, call)  # type: ignore[arg-type]

        post.send = shortened  # type: ignore[assignment, method-assign]
        with pytest.raises((CollectiveError, MessageError)) as raised:
            member.transport.all_reduce(member.call(), np.ones(50_000), "sum")
        return str(raised.value)

    assert "the offer of a connection has 51 bytes" in together("ab", staying(2, play))[0]


def test_heads_of_pieces_say_where_they_belong() -> None:
    def play(member: Member) -> list[tuple[int, int, int, int]]:
        sent: list[tuple[int, int, int, int]] = []
        hub = member.transport._hub
        send = hub.send

        def noted(record: object, frames: tuple[bytes, ...], deadline: float) -> None:
            head = decode(frames[0], 0)
            if head.kind == wire.DATA:
                sent.append((head.step, head.offset, head.total, len(frames[1])))
            send(record, frames, deadline)  # type: ignore[arg-type]

        hub.send = noted  # type: ignore[assignment, method-assign]
        out = np.zeros(wire.PIECE_BYTES // 2 * 5, np.uint8)
        pieces = [out] * 2 if member.rank == 1 else None
        member.transport.scatter(member.call(), out, pieces, 1)
        return sent

    piece = wire.PIECE_BYTES
    none, sent = together("ab", play)
    assert none == []
    whole = piece // 2 * 5
    assert sent == [
        (0, 0, whole, piece),
        (0, piece, whole, piece),
        (0, 2 * piece, whole, piece // 2),
    ]
