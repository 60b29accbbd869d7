"""Meetings of many machines: how many messages each leader sends, and the result on each leader."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

from fastdist.core.errors import CollectiveError, CollectiveMismatchError, MessageError
from fastdist.distributed.links import tree, wire
from fastdist.distributed.links.between import Post
from tests.distributed.links.members import Member, together

FOUR, EIGHT = np.zeros(4, "u1"), np.zeros(8, "u1")
SIZES = (4, 5, 6, 7, 8, 12, 16, 17, 33)


def merged(lower: Any, upper: Any) -> Any:
    return (lower.view("f4") + upper.view("f4")).view("u1")


def met(known: list[tree.Known]) -> list[int]:
    """Run the steps of a meeting of leaders; return how many messages each leader sends."""
    count = len(known)
    plans = [tree.rounds_of(number, count) for number in range(count)]
    sent = [0] * count
    for step in range(count.bit_length() + 1):
        messages = {}
        for number, plan in enumerate(plans):
            for action, other, at in plan:
                if at == step and action != "receive":
                    messages[number, other] = known[number].encode()
                    sent[number] += 1
        for (number, other), body in messages.items():
            actions = [
                action for action, sender, at in plans[other] if (sender, at) == (number, step)
            ]
            assert actions in (["receive"], ["exchange"])
            if actions == ["receive"] and step:
                known[other].replace(body, count)
            else:
                known[other].add(body, count)
    return sent


@pytest.mark.parametrize("count", SIZES)
def test_all_know_all_after_a_logarithm_of_rounds(count: int) -> None:
    numbers = np.random.default_rng(0).standard_normal((count, 9)).astype("f4")
    gathered = [
        tree.Known(one, b"same\nline", row.view("u1"), None) for one, row in enumerate(numbers)
    ]
    sent = met(gathered)
    assert max(sent) <= count.bit_length()
    for known in gathered:
        assert known.in_order(count) == [b"same\nline"] * count
        rows = [known.data[one].view("f4") for one in range(count)]
        np.testing.assert_array_equal(rows, numbers)
    summed = [
        tree.Known(one, b"same\nline", row.view("u1"), merged) for one, row in enumerate(numbers)
    ]
    met(summed)
    bits = {b"".join(data.tobytes() for data in known.data.values()) for known in summed}
    assert len(bits) == 1
    np.testing.assert_allclose(np.frombuffer(bits.pop(), "f4"), numbers.sum(0), rtol=1e-5)


def test_different_calls_reach_all_and_lose_their_data() -> None:
    known = [
        tree.Known(one, *((b"other\nb", EIGHT) if one == 3 else (b"same\na", FOUR)), merged)
        for one in range(6)
    ]
    met(known)
    for one in known:
        assert one.in_order(6) == [b"same\na"] * 3 + [b"other\nb"] + [b"same\na"] * 2
        assert not one.data


def test_what_no_leader_sends_is_refused() -> None:
    known = tree.Known(0, b"same\na", FOUR, merged)
    calls, data = tree.Known(1, b"same\na", FOUR, merged).encode()
    for body in (
        (b"", data),
        (calls[:9], data),
        (calls, data[:-1]),
        (calls, data + b"1"),
        (calls, b""),
        (calls[:-4] + struct.pack("<I", 2), data),
    ):
        with pytest.raises(MessageError):
            known.add(body, 2)
    with pytest.raises(MessageError, match="1 of 2 machines"):
        known.in_order(2)
    longer = tree.Known(1, b"same\na", EIGHT, merged)
    with pytest.raises(MessageError, match="other than 4 bytes"):
        known.add(longer.encode(), 2)


MESSAGES = {"abcdefgh": 3, "abc": 2, "aabbccdd": 2}


@pytest.mark.parametrize("machines", MESSAGES)
def test_a_small_sum_sends_a_logarithm_of_messages(
    monkeypatch: pytest.MonkeyPatch, machines: str
) -> None:
    sent: dict[int, int] = {}
    send = Post.send

    def counting(self: Any, to: int, head: Any, body: Any, call: Any) -> None:
        if head.kind == wire.MEET:
            sent[self.rank] = sent.get(self.rank, 0) + 1
        send(self, to, head, body, call)

    monkeypatch.setattr(Post, "send", counting)

    def play(member: Member) -> bytes:
        array = np.random.default_rng(member.rank).standard_normal(3000).astype("f4")
        member.transport.all_reduce(member.call(), array, "sum")
        return array.tobytes()

    runs = [together(machines, play) for _ in range(2)]
    assert len({one for run in runs for one in run}) == 1
    assert sent == {machines.index(one): 2 * MESSAGES[machines] for one in set(machines)}


def test_a_difference_is_an_error_on_all_of_many_machines_and_ends_nothing() -> None:
    def play(member: Member) -> str:
        def call() -> None:
            if member.rank == 4:
                member.transport.barrier(member.call("barrier"))
            else:
                member.transport.all_reduce(member.call("all_reduce"), np.ones(3), "sum")

        with pytest.raises(CollectiveMismatchError) as raised:
            call()
        member.transport.barrier(member.call("barrier"))
        return str(raised.value)

    texts = together("abcdef", play)
    assert len(set(texts)) == 1
    assert "rank 4" in texts[0]
    assert "program4.py:1" in texts[0]


def test_the_member_that_has_left_is_named_on_all_of_many_machines() -> None:
    def play(member: Member) -> str:
        if member.rank == 5:
            return "rank 5 "
        with pytest.raises(CollectiveError) as raised:
            member.transport.barrier(member.call("barrier"))
        return str(raised.value)

    texts = together("abcdefg", play)
    assert all("rank 5 " in text for text in texts), texts


def test_large_data_that_all_of_a_machine_need_goes_there_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    arrays: list[tuple[int, int]] = []
    send_array = Post.send_array

    def noting(self: Any, to: int, turn: int, step: int, data: Any, call: Any) -> None:
        arrays.append((self.rank, to))
        send_array(self, to, turn, step, data, call)

    monkeypatch.setattr(Post, "send_array", noting)

    def play(member: Member) -> None:
        array = np.full(200_000, float(member.rank))
        member.transport.broadcast(member.call("broadcast"), array, 1)
        assert (array == 1.0).all()
        out = np.empty((member.size, 200_000))
        member.transport.all_gather(
            member.call("all_gather"), out, np.full(200_000, float(member.rank))
        )
        assert (out == np.arange(member.size)[:, None]).all()

    together("aaabbb", play)
    broadcast, gather = [to for sender, to in arrays if sender == 1], sorted(arrays)
    assert broadcast == [4, 4]
    assert len(gather) == 1 + 6
