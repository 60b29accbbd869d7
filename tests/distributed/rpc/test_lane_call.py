"""A request whose sender waits for the answer in short steps."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fastdist.distributed.pipe.lane import LaneTimeout
from fastdist.distributed.pipe.message import decode
from fastdist.distributed.pipe.pipe import OwnLane
from fastdist.distributed.rpc import lane_call
from fastdist.distributed.rpc.inquiry import ask_about, calls_asked_about
from fastdist.distributed.rpc.lane_call import ASK_EVERY_S, LaneCall
from fastdist.distributed.rpc.message_types import MessageType
from fastdist.distributed.rpc.metrics import CallCounts


class SilentLane:
    """A lane whose connection has taken the answer with it."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

    def send(self, frames: Any, deadline: float | None) -> None:
        self.sent.append(frames)

    def try_send(self, frames: Any) -> bool:
        self.sent.append(frames)
        return True

    def receive(self, deadline: float | None) -> Any:
        raise LaneTimeout


class Clock:
    now = 100.0

    def monotonic(self) -> float:
        return self.now


def test_who_waits_in_short_steps_asks_now_and_then_what_became_of_the_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, lane = Clock(), SilentLane()
    monkeypatch.setattr(lane_call, "time", clock)
    own = OwnLane(lane, 1, lambda: [b"hello"])  # type: ignore[arg-type]
    peer = SimpleNamespace(info=SimpleNamespace(name="w1"))
    call: Any = SimpleNamespace(
        peer=peer, message_id=7, frames=[b"call"], size_bytes=lambda: 4, take_back=lambda: None
    )
    waiting = LaneCall(call, own, CallCounts(), lambda own, call: RuntimeError())
    for _ in range(100):
        assert not waiting.wait(0.05)
        clock.now += ASK_EVERY_S / 25
    assert lane.sent[:2] == [[b"hello"], [b"call"]]
    questions = [decode(frames) for frames in lane.sent[3::2]]
    assert [message.type for message in questions] == [MessageType.INQUIRY] * 3
    assert calls_asked_about(questions[0]) == (1, [7])
    assert lane.sent[-1] == ask_about(3, [7])


class TornLane(SilentLane):
    """A lane that cannot send, for a reason that nobody foresaw."""

    def send(self, frames: Any, deadline: float | None) -> None:
        raise MemoryError("no memory is left for a frame")


def test_a_call_that_could_not_be_sent_is_not_under_way() -> None:
    counts, own = CallCounts(), OwnLane(TornLane(), 1, lambda: [b"hello"])  # type: ignore[arg-type]
    call: Any = SimpleNamespace(
        peer=SimpleNamespace(info=SimpleNamespace(name="w1")),
        frames=[b"call"],
        size_bytes=lambda: 4,
    )
    with pytest.raises(MemoryError):
        LaneCall(call, own, counts, lambda own, call: RuntimeError())
    # A shutdown would wait for it.
    assert counts.activity() == (0, 1) and counts.network_data()["w1"].total_errors == 1
