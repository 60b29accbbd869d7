"""A lender puts large buffers into the arena, and lends nothing to a peer that refused it."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from fastdist.core.errors import MessageError
from fastdist.distributed.arena.lender import Lender
from fastdist.distributed.rpc.message.layout import NO_INDEX, PICKLE, TensorEntry
from fastdist.distributed.rpc.message.limits import Limits
from fastdist.distributed.rpc.message.message import Message, decode
from tests.distributed.arena.arena_of_both import Both, numbers


def test_a_message_carries_large_buffers_in_the_arena_and_small_ones_itself(both: Both) -> None:
    lender = Lender(lambda lender: lender.open(both.arena), least_bytes=1 << 16)
    lender.lend(b"", 0)
    large, small = numbers().data.cast("B"), bytes(1 << 15)
    sent = Message(
        0x102,
        6,
        body=b"body",
        encoding=PICKLE,
        entries=[TensorEntry(i, 0, 0, 0, 0, 0, (1,), (1,)) for i in range(3)],
        buffers=[large, small, b""],
    )
    frames = sent.encode(lender)
    assert len(frames) == 2 and sent.lent_bytes == len(large)
    came = decode([bytearray(frame) for frame in frames])
    assert [bytes(buffer) for buffer in came.buffers] == [bytes(large), small, b""]
    assert came.size_bytes() == sent.size_bytes()
    alone = Message(0x102, 7, entries=sent.entries[:1], buffers=[large])
    assert bytes(decode(alone.encode(lender)).buffers[0]) == bytes(large)
    for cut in (1, 12):
        with pytest.raises(MessageError):
            decode([alone.encode(lender)[0][:-cut]])


def test_a_message_that_cannot_be_sent_lends_nothing(both: Both) -> None:
    lender = Lender(lambda lender: lender.open(both.arena))
    lender.lend(b"", 0)
    tensors = [TensorEntry(0, 0, 7, 0, NO_INDEX, 0, (1,), (1,))] * 200
    message = Message(0x102, 6, entries=tensors, buffers=[bytes(1 << 20)])
    with pytest.raises(MessageError, match="tables of"):
        message.encode(lender, limits=Limits(frame_bytes=4096))
    assert both.lent() == 0


def test_a_lender_offers_once_and_says_why_it_does_not_lend() -> None:
    offers: list[Lender] = []
    lender = Lender(offers.append)
    assert lender.lend(b"x", 1) is None and lender.lend(b"x", 1) is None
    assert offers == [lender] and "not answered yet" in lender.describe()
    lender.offer_again()
    assert lender.lend(b"x", 1) is None and len(offers) == 2
    lender.refuse("it does not share process ids with the sender")
    assert lender.lend(b"x", 1) is None and len(offers) == 2
    assert "does not share process ids" in lender.describe()
    assert lender.close() is None


def test_a_lender_that_is_closed_when_it_has_just_opened_lends_nothing(both: Both) -> None:
    lender = Lender(lambda lender: None)
    lender.lend(b"x", 1)
    came: list[object] = []
    lender._lock = ThenCalled(lambda: came.append(lender.close()))  # type: ignore[assignment]
    lender.open(both.arena)
    assert came == [both.arena] and lender.lend(b"x", 1) is None


class ThenCalled:
    """A lock that calls a function after its first release."""

    def __init__(self, what: Callable[[], object]) -> None:
        self._what: list[Callable[[], object]] = [what]
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
        if self._what:
            self._what.pop()()
