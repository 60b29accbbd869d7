"""Messages that reach a group: accepted and rejected ones, and their effects."""

from __future__ import annotations

import logging
import threading
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fastdist.core.errors import (
    CollectiveError,
    CollectiveLostError,
    CollectiveMismatchError,
    CollectiveTimeoutError,
    MessageError,
)
from fastdist.distributed.links import alarm, between, mail, wire
from fastdist.distributed.links.wire import Head
from tests.distributed.links.members import Member, staying, together


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let sends of short messages wait longer, because the machine may be busy."""
    monkeypatch.setattr(between, "_NOTICE_S", 1.0)


REFUSED: list[tuple[Head, list[bytes], int | None, str]] = [
    (Head(wire.BYE, 0, 2, 0), [b""], None, "a message of member 2 of a group of 2"),
    (Head(wire.BYE, 0, 0, 0), [b""], None, "a message of member 0 of a group of 2"),
    (Head(wire.BYE, 0, 1, 0), [b""], 0, "rank 0 sent a message as 1"),
    (Head(wire.BYE, 0, 1, 0), [], 1, f"a message of kind {wire.BYE} has no body"),
    (Head(wire.MEET, 0, 1, 0), [b""], 1, f"a message of kind {wire.MEET} has 1 parts"),
    (Head(wire.MEET, 0, 1, 0), [b""] * 3, 1, f"a message of kind {wire.MEET} has 3 parts"),
    (Head(wire.BULK, 0, 1, 0), [b""], 1, f"a message of kind {wire.BULK} has 1 parts"),
    (Head(wire.DATA, 0, 1, 0), [b""] * 2, 1, f"a message of kind {wire.DATA} has 2 parts"),
    (Head(wire.SEND, 0, 1, 0, total=3), [b"", b"12"], 1, "a message of 3 bytes has 2 parts"),
    (Head(wire.SEND, 0, 1, 0, total=3), [b""], 1, "a message of 3 bytes has 1 parts"),
    (Head(wire.SEND, 0, 1, 0, total=0), [b"", b"", b""], 1, "a message of 0 bytes has 3 parts"),
    (Head(wire.ANNOUNCE, 0, 1, 0, total=3), [b"", b""], 1, "a message of 3 bytes has 2 parts"),
]


def test_what_no_member_sends_is_refused_by_name() -> None:
    def play(member: Member) -> None:
        if member.rank == 0:
            for head, body, rank, words in REFUSED:
                with pytest.raises(MessageError) as raised:
                    member.transport.receive(head, body, rank)  # type: ignore[arg-type]
                assert str(raised.value) == words
            assert not member.transport._inbox._messages and not member.transport._mail._letters
            member.transport._heard.clear()
        member.transport.barrier(member.call())

    together("aa", play)


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        (alarm.LOST, CollectiveLostError),
        (alarm.TIMED_OUT, CollectiveTimeoutError),
        (alarm.MISMATCH, CollectiveMismatchError),
        (alarm.FAILED, CollectiveError),
    ],
)
def test_the_failure_of_another_is_raised_as_it_was_there(
    kind: int, error: type[CollectiveError]
) -> None:
    def play(member: Member) -> None:
        transport, told = member.transport, list[Any]()
        if member.rank == 0:
            transport._post.notify = lambda *given, **_: told.append(given)  # type: ignore[assignment, method-assign]
            transport.receive(Head(wire.FAILED, 0, 1, 0, kind), [b"why \x00\xff"], 1)
            with pytest.raises(error) as raised:
                transport.barrier(member.call())
            assert type(raised.value) is error and str(raised.value).startswith("why ")
            # The failure was reported by another machine, so this member does not report it to
            # other machines.
            assert told == []
            transport._heard.clear()
        else:
            with pytest.raises(CollectiveError, match="why"):
                transport.barrier(member.call())

    together("aa", staying(2, play))


@pytest.mark.parametrize("machines", ["aab", "abc"])
def test_a_failure_reaches_the_leaders_of_other_machines(machines: str) -> None:
    all_have_met = threading.Barrier(3)

    def play(member: Member) -> list[int]:
        transport, told = member.transport, list[int]()
        transport.barrier(member.call())
        all_have_met.wait(20.0)
        if member.rank == 0:
            notify = transport._post.notify

            def noted(to: int, kind: int, text: bytes = b"", step: int = 0, **how: Any) -> bool:
                if kind == wire.FAILED:
                    told.append(to)
                    assert (text, step) == ("it ended ä".encode(), alarm.FAILED)
                return notify(to, kind, text, step, **how)

            transport._post.notify = noted  # type: ignore[method-assign]
            transport.abort(ValueError("it ended ä"))
            transport.abort(ValueError("later"))
        else:
            with pytest.raises(CollectiveError, match="it ended ä"):
                transport.barrier(member.call())
        return told

    told = together(machines, staying(3, play))[0]
    assert told == ([2] if machines == "aab" else [1, 2])


def test_a_process_that_is_lost_ends_the_group_unless_it_had_left() -> None:
    all_have_met = threading.Barrier(3)

    def play(member: Member) -> None:
        transport = member.transport
        transport.barrier(member.call())
        all_have_met.wait(20.0)
        if member.rank == 0:
            records = transport._members.records
            transport._alarm.left.add(1)
            transport.peer_lost(records[1], "it left before")
            assert transport._alarm.error is None
            transport.peer_lost(records[2], "it ended")
            with pytest.raises(CollectiveLostError) as raised:
                transport.barrier(member.call())
            assert str(raised.value) == f"{transport._members.name(2)} was lost: it ended"
            assert 2 in transport._have_read
        else:
            with pytest.raises(CollectiveError, match="was lost: it ended"):
                transport.barrier(member.call())

    together("aaa", staying(3, play))


def test_stacks_are_asked_of_a_few_and_shown_in_the_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def play(member: Member) -> None:
        transport = member.transport
        if member.rank == 0:
            asked: list[tuple[Any, ...]] = []
            knocked: list[Any] = []
            notify, members = transport._post.notify, transport._members
            transport._members = SimpleNamespace(records=range(10, 20))  # type: ignore[assignment]
            monkeypatch.setattr(transport._hub, "knock", knocked.append)
            transport._post.notify = lambda *given: asked.append(given)  # type: ignore[assignment, method-assign]
            transport._query_stacks([9, 8, 7, 6, 5, 4])
            assert asked == [(one, wire.WHERE) for one in (9, 8, 7, 6)]
            # A knock detects that a process has left which has no connection to this process.
            assert knocked == [19, 18, 17, 16]
            transport._members = members
            asked.clear()
            transport.receive(Head(wire.WHERE, 0, 1, 0), [b""], 1)
            ((to, kind, stack),) = asked
            assert (to, kind) == (1, wire.STACK)
            assert b"test_stacks_are_asked_of_a_few" in stack and len(stack) <= 8192
            transport._post.notify = notify  # type: ignore[method-assign]
            transport.receive(Head(wire.STACK, 0, 1, 0), [b"line 1\nline 2"], 1)
            transport._heard.clear()
        transport.barrier(member.call())

    with caplog.at_level(logging.WARNING):
        together("aa", play)
    (text,) = [one for one in caplog.messages if one.startswith("the main thread of rank 1 (pid ")]
    assert text.endswith(", which others wait for, is here:\n    line 1\n    line 2")


def test_members_that_leave_wait_until_others_have_read_what_they_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fastdist.distributed.links.group._READ_S", 15.0)
    is_read, all_have_met = threading.Barrier(2), threading.Barrier(2)

    def play(member: Member) -> float:
        transport = member.transport
        transport.barrier(member.call())
        all_have_met.wait(20.0)
        if member.rank == 0:
            transport._heard.add(1)
            real = transport._note_read
            transport._note_read = lambda member: None  # type: ignore[method-assign]
            timer = threading.Timer(0.05, real, [1])
            timer.start()
            began = time.monotonic()
            transport._say_goodbye()
            timer.join()
            taken = time.monotonic() - began
            # The transport does not wait again for a message that was read.
            transport._have_read.add(1)
            transport._say_goodbye()
            is_read.wait(20.0)
            return taken
        is_read.wait(20.0)
        return 0.0

    assert 0.04 < together("ab", play)[0] < 14.0


def test_a_group_is_closed_once_and_by_its_process_alone() -> None:
    all_have_met = threading.Barrier(2)

    def play(member: Member) -> None:
        transport, said = member.transport, list[str]()
        transport.barrier(member.call())
        all_have_met.wait(20.0)
        goodbye = transport._say_goodbye
        transport._say_goodbye = lambda: said.append("goodbye")  # type: ignore[method-assign]
        transport._pid -= 1
        transport.close()
        with pytest.raises(CollectiveError, match="this group belongs to process"):
            transport.send(member.message(), np.ones(1), 1, 0)
        with pytest.raises(CollectiveError, match="this group belongs to process"):
            transport.recv(member.message(), np.ones(1), 1, 0)
        transport._pid += 1
        assert said == []
        transport._say_goodbye = lambda: (said.append("goodbye"), goodbye())  # type: ignore[method-assign]
        transport.close()
        transport.close()
        assert said == ["goodbye"]
        with pytest.raises(CollectiveError):
            transport.barrier(member.call())

    together("aa", play)


# ---- send and recv ------------------------------------------------------------------------------


@pytest.mark.one_in(4)
@pytest.mark.parametrize("machines", ["aa", "ab"])
@pytest.mark.parametrize(
    ("nbytes", "sequence", "kinds"),
    [
        (mail.EAGER_BYTES, 0, ["SEND"]),
        (mail.EAGER_BYTES + 1, 0, ["ANNOUNCE", "PART"]),
        (0, 0, ["SEND"]),
        (1, mail.MOST_EAGER - 2, ["SEND"]),
        (1, mail.MOST_EAGER - 1, ["ANNOUNCE", "PART"]),
        (0, mail.MOST_EAGER - 1, ["ANNOUNCE"]),
        (1, mail.MOST_EAGER, ["SEND"]),
        (wire.PIECE_BYTES, 0, ["ANNOUNCE", "PART"]),
        (2 * wire.PIECE_BYTES + 1, 0, ["ANNOUNCE", "PART", "PART", "PART"]),
    ],
)
def test_large_messages_are_announced_and_go_in_pieces(
    machines: str, nbytes: int, sequence: int, kinds: list[str]
) -> None:
    names = {wire.SEND: "SEND", wire.ANNOUNCE: "ANNOUNCE", wire.PART: "PART"}

    def play(member: Member) -> list[tuple[str, int, int, int]]:
        transport, sent = member.transport, list[tuple[str, int, int, int]]()
        send = transport._mail._send

        def noted(to: int, head: Head, body: Any, call: Any) -> None:
            if head.kind in names:
                sent.append((names[head.kind], head.offset, head.total, head.tag))
            send(to, head, body, call)

        transport._mail._send = noted
        array = np.full(nbytes, 7 - member.rank, np.uint8)
        if member.rank == 0:
            transport.send(member.message(sequence), array, 1, -3)
            assert transport._mail._answers == {}
        else:
            assert transport.recv(member.message(sequence), array, None, -3) == 0
            assert (array == 7).all() and transport._mail._arrivals == {}
        return sent

    pieces = [one * wire.PIECE_BYTES for one in range(kinds.count("PART"))]
    heads = [(kinds[0], 0), *(("PART", at) for at in pieces)]
    assert together(machines, play) == [[(kind, at, nbytes, -3) for kind, at in heads], []]


def test_a_message_that_is_withdrawn_while_it_is_fetched_is_not_waited_for() -> None:
    def play(member: Member) -> None:
        transport = member.transport
        if member.rank == 1:
            post: Any = transport._mail
            head = Head(wire.ANNOUNCE, 0, 0, 77, total=1 << 17, tag=5)
            post.arrived(head, [mail._text_of(member.message())])

            def withdraw(to: int, head: Head, body: Any, call: Any) -> None:
                assert head.kind == wire.CLEAR
                post.arrived(Head(wire.WITHDRAW, 0, 0, 77), [b""])
                post._send = send

            send, post._send = post._send, withdraw
            array = np.zeros(1 << 17, np.uint8)
            with pytest.raises(CollectiveTimeoutError):
                transport.recv(member.message(timeout_s=0.03), array, 0, 5)
            assert post._arrivals == {} and not array.any()
            # A late piece of the message is dropped, and so is a reply without a receiver.
            post.arrived(Head(wire.PART, 0, 0, 77, total=1 << 17), [b"late"])
            post.arrived(Head(wire.CLEAR, 0, 0, 99), [b""])
            assert post._answers == {}
        transport.barrier(member.call())

    together("aa", play)


def test_a_piece_of_another_message_is_refused() -> None:
    def play(member: Member) -> None:
        post: Any = member.transport._mail
        post._arrivals[1 - member.rank, 3] = arrival = mail._Arrival(6)
        for total, body in ((5, [b"12"]), (6, [b"12", b""])):
            with pytest.raises(MessageError, match=f"a piece of a message of {total} bytes: not"):
                post.arrived(Head(wire.PART, 0, 1 - member.rank, 3, total=total), body)
        post.arrived(Head(wire.PART, 0, 1 - member.rank, 3, offset=2, total=6), [b"\x01\x02"])
        assert arrival.left == 4 and arrival.memory[2:4].tolist() == [1, 2]
        del post._arrivals[1 - member.rank, 3]
        member.transport.barrier(member.call())

    together("aa", play)
