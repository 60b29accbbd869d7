"""The head of a message: its fields, and heads that are rejected."""

from __future__ import annotations

import logging
import random
import time

import numpy as np
import pytest

from fastdist.core.errors import CollectiveMismatchError, MessageError
from fastdist.distributed.links import wire
from fastdist.distributed.links.wire import Head, decode
from fastdist.distributed.pipe.frames import is_alone
from tests.distributed.links.members import Member, together

HEAD = Head(wire.DATA, (1 << 56) - 1, 3, 77, 5, 1024, 4096, -9)


def test_a_head_arrives_as_it_was_sent() -> None:
    assert decode(HEAD.encode(), 3072) == HEAD
    for kind in wire.KINDS:
        assert decode(HEAD._replace(kind=kind).encode(), 1).kind == kind


def test_what_a_head_says_if_nobody_says_otherwise() -> None:
    assert Head(wire.BYE, 1, 2, 3) == Head(wire.BYE, 1, 2, 3, 0, 0, 0, 0)
    assert [*wire.KINDS] == [*range(1, 15)]
    kinds = (
        *(wire.MEET, wire.DATA, wire.FAILED, wire.BYE, wire.BYE_SEEN, wire.SEND, wire.ANNOUNCE),
        *(wire.CLEAR, wire.REFUSE, wire.WITHDRAW, wire.PART, wire.BULK, wire.WHERE, wire.STACK),
    )
    assert len(set(kinds)) == len(kinds) and set(kinds) == set(wire.KINDS)


def test_the_pipe_sees_that_frames_follow() -> None:
    for turn in (0, 1, 1 << 60):
        assert not is_alone(Head(wire.SEND, 0, 0, turn).encode())


@pytest.mark.parametrize(
    ("head", "body_bytes"),
    [
        (HEAD._replace(kind=0), 0),
        (HEAD._replace(kind=wire.KINDS.stop), 0),
        (HEAD, 3073),
        (HEAD._replace(offset=4097), 0),
        (HEAD._replace(total=1 << 47), 0),
        (HEAD._replace(kind=wire.PART, offset=4096), 1),
    ],
)
def test_forged_numbers_are_refused(head: Head, body_bytes: int) -> None:
    with pytest.raises(MessageError):
        decode(head.encode(), body_bytes)


def test_rubbish_is_refused() -> None:
    draw = random.Random(3)
    good = HEAD.encode()
    for size in (0, 1, len(good) - 1, len(good) + 1):
        with pytest.raises(MessageError):
            decode(draw.randbytes(size), 0)
    with pytest.raises(MessageError):
        decode(b"fdL0" + good[4:], 0)


def test_a_group_goes_on_when_a_member_sends_what_no_member_sends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Messages with unknown ids, wrong ranks or missing parts are dropped."""

    def play(member: Member) -> None:
        transport = member.transport
        if member.rank == 1:
            hub, record = transport._hub, transport._members.records[0]
            group = transport._group
            for frames in (
                (b"", b""),
                (b"rubbish" * 20, b"1"),
                (Head(wire.MEET, group, 7, 2).encode(), b""),
                (Head(wire.MEET, group, 1, 2).encode(), b"one part too few"),
                (Head(wire.SEND, group, 1, 2, total=5).encode(), b"", b"1234"),
                (Head(wire.BYE, group + 1, 1, 2).encode(), b""),
                (Head(wire.REFUSE, group, 1, 2).encode(),),
                (Head(wire.CLEAR, group, 1, 99).encode(), b""),
                (Head(wire.PART, group, 1, 99, total=1).encode(), b"1"),
                (Head(wire.DATA, group, 1, 1 << 40, total=1).encode(), b"1"),
            ):
                hub.send(record, frames, time.monotonic() + 5)
        array = np.full(3, member.rank)
        transport.all_reduce(member.call(), array, "sum")
        assert (array == 1).all()

    with caplog.at_level(logging.WARNING):
        together("ab", play)
    dropped = [one for one in caplog.messages if "no member sends" in one]
    assert len(dropped) == 6


def test_sizes_that_a_pair_does_not_give_alike_are_a_mismatch_on_all() -> None:
    def play(member: Member) -> str:
        arrays = [np.zeros(3 + (member.rank == 1 and to == 2), np.uint8) for to in range(4)]
        outs = [np.zeros(3, np.uint8) for _ in range(4)]
        with pytest.raises(CollectiveMismatchError) as raised:
            member.transport.all_to_all(member.call("all_to_all"), outs, arrays)
        member.transport.barrier(member.call())
        return str(raised.value)

    for machines in ("aaaa", "abab", "abcd"):
        for text in together(machines, play):
            assert "rank 1 (pid " in text
            assert "sends 4 bytes to rank 2 (pid " in text
            assert text.endswith("which expects 3")
