"""A request whose sender waits for the answer itself, in one wait or in short steps."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import fastdist
from fastdist.core.errors import WorkerLostError
from fastdist.distributed.pipe.lane import LaneClosed, LaneInDoubt, LaneTimeout
from fastdist.distributed.pipe.pipe import OwnLane
from fastdist.distributed.rpc.calls import outgoing as lane_call
from fastdist.distributed.rpc.calls.outgoing import ASK_EVERY_S, LaneCall
from fastdist.distributed.rpc.message.limits import DEFAULT
from fastdist.distributed.rpc.message.message import Message, decode
from fastdist.distributed.rpc.message.types import MessageType
from fastdist.distributed.rpc.metrics import CallCounts
from fastdist.distributed.rpc.workers.reconciliation import (
    Reconciliation,
    acknowledged,
    pack_query,
    pack_result,
    read_query,
)


def lane_call_of(own: OwnLane, counts: CallCounts | None = None, **of_peer: Any) -> LaneCall:
    """Return a call that was sent on a lane."""
    client: Any = SimpleNamespace(counts=counts or CallCounts(), give_up=lambda call: None)
    info = SimpleNamespace(name="w1", id=1)
    of_peer.setdefault("pipe", SimpleNamespace(error=None))
    peer: Any = SimpleNamespace(info=info, id=1, lender=None, **of_peer)
    peer.decode = lambda frames: decode(frames, DEFAULT, peer)
    call = LaneCall(client, Message(MessageType.PYTHON_CALL, 7, peer), 0.0, "a function")
    call.frames = [b"call"]
    call.send(own, 4)
    return call


class SilentLane:
    """A lane on which no answer arrives."""

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
    waiting = lane_call_of(own)
    for _ in range(100):
        assert not waiting.has_come(0.05)
        clock.now += ASK_EVERY_S / 25
    assert lane.sent[:2] == [[b"hello"], [b"call"]]
    questions = [decode(frames) for frames in lane.sent[3::2]]
    assert [message.type for message in questions] == [MessageType.RECONCILE] * 3
    assert read_query(questions[0].metadata, 0) == (1, (7,))
    assert lane.sent[-1] == pack_query(3, [7])


class ForgetfulLane(SilentLane):
    """A lane whose peer first asks for an introduction (GREET_FIRST), and then answers."""

    num_received = 0

    def receive(self, deadline: float | None) -> Any:
        self.num_received += 1
        kind = MessageType.GREET_FIRST if self.num_received == 1 else MessageType.PYTHON_RET
        return Message(kind, 7).encode()


def test_who_is_told_to_greet_first_does_so_and_asks_what_became_of_the_call() -> None:
    lane = ForgetfulLane()
    own = OwnLane(lane, 1, lambda: [b"hello"])  # type: ignore[arg-type]
    waiting = lane_call_of(own)
    assert waiting.has_come(None)
    assert lane.sent[:3] == [[b"hello"], [b"call"], [b"hello"]]


class ClosedLane(SilentLane):
    """A lane that is closed while its owner waits."""

    def receive(self, deadline: float | None) -> Any:
        raise LaneClosed


def test_who_waits_hears_at_once_that_the_lane_has_ended() -> None:
    own = OwnLane(ClosedLane(), 1, lambda: [b"hello"])  # type: ignore[arg-type]
    pipe = SimpleNamespace(error=None)
    waiting = lane_call_of(own, pipe=pipe)
    pipe.error = WorkerLostError("worker 'w1' was lost")
    assert waiting.has_come(None)


class TornLane(SilentLane):
    """A lane whose send raises an unexpected error."""

    def send(self, frames: Any, deadline: float | None) -> None:
        raise MemoryError("no memory is left for a frame")


def test_a_call_that_could_not_be_sent_is_not_under_way() -> None:
    counts, own = CallCounts(), OwnLane(TornLane(), 1, lambda: [b"hello"])  # type: ignore[arg-type]
    ended: list[bool] = []
    pipe = SimpleNamespace(error=None, return_lane=lambda own, broken: ended.append(broken))
    with pytest.raises(MemoryError):
        lane_call_of(own, counts, pipe=pipe)
    # The call does not count as under way; otherwise a shutdown would wait for it.
    assert counts.activity() == (0, 1) and counts.network_data()["w1"].total_errors == 1
    # The lane is broken: after a part of a message, the peer would read the next one as the rest.
    assert ended == [True]


class LaneWithCopies(SilentLane):
    """A lane that brings each reply to a query twice, and at last the reply to the call."""

    def __init__(self, call_id: int) -> None:
        super().__init__()
        never_came = pack_result(1, Reconciliation([], [call_id], []))
        answer = Message(MessageType.PYTHON_RET, call_id).encode()
        self._comes = [LaneInDoubt(), never_came, never_came, answer]

    def receive(self, deadline: float | None) -> Any:
        comes = self._comes.pop(0)
        if isinstance(comes, LaneInDoubt):
            raise comes
        return comes


def test_a_copy_of_word_that_a_call_never_came_does_not_end_it_when_it_has_gone_again() -> None:
    lane = LaneWithCopies(7)
    own = OwnLane(lane, 1, lambda: [b"hello"])  # type: ignore[arg-type]
    waiting: Any = lane_call_of(own)
    # When the copy of the reply arrives, the call's lent memory was taken, so the call cannot be
    # sent again.
    renews = [True]
    waiting.message.lent_bytes = 1
    waiting.peer.lender = SimpleNamespace(renew_if_untaken=lambda _: bool(renews) and renews.pop())
    answer, _ = waiting._receive_answer(None)
    assert answer.type == MessageType.PYTHON_RET and lane.sent[-1] == [b"call"]


class AnsweringLane(SilentLane):
    """A lane that receives an answer of the given size and number of frames."""

    def __init__(self, size: int, num_frames: int = 1) -> None:
        super().__init__()
        self._size, self._num_frames = size, num_frames

    def receive(self, deadline: float | None) -> Any:
        message = Message(MessageType.PYTHON_RET, 7)
        message.pack(bytes(self._size))
        frames: list[Any] = [*message.encode()]
        if self._num_frames == 2:
            message = Message(MessageType.PYTHON_RET, 7)
            message.tensors = [fastdist.zeros(self._size)]
            message.pack(None)
            frames = [*message.encode()]
        assert len(frames) == self._num_frames
        return frames


class FullLane(AnsweringLane):
    """A lane that cannot send at the moment."""

    def try_send(self, frames: Any) -> bool:
        return False


class BrokenLane(AnsweringLane):
    """A lane that fails after the answer has arrived."""

    def try_send(self, frames: Any) -> bool:
        raise OSError("no descriptor is left")


def test_a_call_that_a_shutdown_overtook_is_not_sent() -> None:
    own, ended = OwnLane(lane := SilentLane(), 1, lambda: [b"hello"]), list[bool]()  # type: ignore[arg-type]
    error = WorkerLostError("worker 'w1' was lost")
    pipe = SimpleNamespace(error=error, return_lane=lambda own, broken: ended.append(broken))
    with pytest.raises(WorkerLostError, match="was lost"):
        lane_call_of(own, pipe=pipe).wait()
    assert (lane.sent, ended) == ([], [True])


@pytest.mark.parametrize(
    ("lane", "is_acknowledged", "is_broken"),
    [
        pytest.param(AnsweringLane(100), False, False, id="small"),
        pytest.param(AnsweringLane(100_000), True, False, id="large"),
        pytest.param(AnsweringLane(100_000, 2), False, False, id="not kept by its callee"),
        pytest.param(FullLane(100_000), False, False, id="no room"),
        pytest.param(BrokenLane(100_000), False, True, id="broken"),
    ],
)
def test_a_large_answer_is_acknowledged_and_the_lane_given_back(
    lane: AnsweringLane, is_acknowledged: bool, is_broken: bool
) -> None:
    own = OwnLane(lane, 1, lambda: [b"hello"])  # type: ignore[arg-type]
    given_back: list[bool] = []
    pipe = SimpleNamespace(error=None, return_lane=lambda own, broken: given_back.append(broken))
    waiting = lane_call_of(own, pipe=pipe)
    waiting.wait()
    words = [decode(frames) for frames in lane.sent[2:]]
    assert [word.type for word in words] == [MessageType.CREDIT] * is_acknowledged
    assert [acknowledged(word.metadata, 1).floor for word in words] == [8] * is_acknowledged
    assert given_back == [is_broken]
