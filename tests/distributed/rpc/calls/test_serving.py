"""The reader of requests handles invalid messages, and messages of unknown senders."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from fastdist.core.errors import StaleIncarnationError, StoreError
from fastdist.distributed.pipe.batch import join
from fastdist.distributed.pipe.frames import Buffer
from fastdist.distributed.pipe.listener import Received
from fastdist.distributed.rpc.calls import serving
from fastdist.distributed.rpc.calls.serving import Server
from fastdist.distributed.rpc.message.message import Message, decode
from fastdist.distributed.rpc.message.types import MessageType
from fastdist.distributed.rpc.metrics import CallCounts
from fastdist.distributed.rpc.workers.callers import Callers
from fastdist.distributed.rpc.workers.reconciliation import MOST_OPEN, Acknowledged, acknowledge
from fastdist.distributed.rpc.workers.record import Record
from tests.distributed.rpc.workers.by_hand import caller_of

ME = Record("w0", 0, 3, 100, {}, {}, "certs")
CALLER = caller_of(Record("w1", 1, 3, 101, {}, {}, "certs"))


class FakeListener:
    """A listener that delivers messages given by the test."""

    def __init__(self, *received: Received) -> None:
        self.addresses: dict[str, str] = {}
        self.coming = deque(received)
        self.replies: list[tuple[bytes, Message]] = []
        self.gone: set[bytes] = set()
        self.is_lost = False

    def receive(self, deadline: float | None = None) -> Received | None:
        return self.coming.popleft() if self.coming else None

    def try_receive(self) -> Received | None:
        return self.receive()

    def reply(self, route: bytes, frames: Sequence[Buffer]) -> bool:
        self.replies.append((route, decode(frames)))
        return True

    def knows(self, route: bytes) -> bool:
        return route not in self.gone

    def wake(self) -> None: ...

    def fileno(self) -> int:
        return -1

    def close(self, linger_s: float = 0.0) -> None: ...


def ignore(*_: int) -> None: ...


def serve(listener: FakeListener, admit: object = lambda *_: CALLER) -> Server:
    callers = Callers(listener, ME)  # type: ignore[arg-type]
    return Server(listener, callers, CallCounts(), admit, ignore)  # type: ignore[arg-type]


def hello(route: bytes, rank: int | None, source: int = 1) -> Received:
    return Received(route, Message(MessageType.HELLO, source=source).encode(), rank)


def call(route: bytes, rank: int | None) -> Received:
    return Received(route, Message(MessageType.PYTHON_CALL, 5).encode(), rank)


def test_a_request_of_a_greeted_caller_is_work() -> None:
    listener = FakeListener(hello(b"r", 1), call(b"r", 1))
    work = serve(listener).take()
    assert work is not None and work.argument.caller is CALLER  # type: ignore[attr-defined]


def test_a_header_that_claims_another_rank_than_the_key_is_refused() -> None:
    listener = FakeListener(hello(b"r", 2, source=1), call(b"r", 2))
    assert serve(listener).take() is None
    (_, refusal), (_, unknown) = listener.replies
    assert refusal.type == MessageType.EXCEPTION
    assert "proved to be rank 2, but says that it is rank 1" in str(refusal.metadata)
    assert unknown.type == MessageType.GREET_FIRST


def test_who_takes_the_route_of_a_greeted_caller_is_not_that_caller() -> None:
    server = serve(FakeListener(hello(b"r", 1), call(b"r", 2)))
    assert server.take() is None
    assert server.num_rubbish == 1


def test_a_message_that_cannot_be_read_is_dropped_and_the_next_one_served(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rubbish = [Received(b"r", [frame], 1) for frame in (b"", b"\xb1", b"x" * 100, b"\1" * 64)]
    server = serve(FakeListener(*rubbish, hello(b"r", 1), *rubbish, call(b"r", 1)))
    with caplog.at_level(logging.WARNING):
        assert server.take() is not None
    assert server.num_rubbish == 8
    assert len(caplog.records) == 1


def test_a_mistake_of_ours_does_not_end_the_reader(caplog: pytest.LogCaptureFixture) -> None:
    def admit(*_: object) -> Record:
        raise RuntimeError("a mistake of ours")

    listener = FakeListener(hello(b"r", 1))
    assert serve(listener, admit).take() is None
    assert "a mistake of ours" in caplog.text


def test_a_caller_that_cannot_be_looked_up_is_told_so() -> None:
    def admit(*_: object) -> Record:
        raise StoreError("the store is closed")

    listener = FakeListener(hello(b"r", 1))
    assert serve(listener, admit).take() is None
    ((_, refusal),) = listener.replies
    assert "the store is closed" in str(refusal.metadata)


def test_a_caller_that_is_lost_while_it_greets_is_not_heard() -> None:
    def admit(*_: object) -> Record:
        if listener.is_lost:
            raise StaleIncarnationError("declared lost")
        # The caller is lost right after this check, so nothing would remove the caller later.
        listener.is_lost = True
        server._callers.forget(CALLER)
        return CALLER

    listener = FakeListener(hello(b"r", 1), call(b"r", 1))
    server = serve(listener, admit)
    assert server.take() is None
    (_, refusal), (_, unknown) = listener.replies
    assert "declared lost" in str(refusal.metadata)
    assert unknown.type == MessageType.GREET_FIRST


def test_callers_whose_connection_has_ended_are_forgotten_at_the_next_greeting() -> None:
    listener = FakeListener(hello(b"old", 1), hello(b"new", 1), call(b"old", 1), call(b"new", 1))
    listener.gone.add(b"old")
    work = serve(listener).take()
    assert work is not None and work.argument.lane.route == b"new"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("metadata", "lane", "why"),
    [
        ({"greeting": "soon"}, 0, "a greeting whose count is 'soon'"),
        ({"greeting": None}, 0, "a greeting whose count is None"),
        ({"greeting": 1}, 9, "greets by lane 9; a member has 9 connections"),
    ],
)
def test_a_greeting_that_makes_no_sense_is_refused_without_a_line_in_the_log(
    metadata: dict[str, object], lane: int, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    greeting = Message(MessageType.HELLO, source=1, lane=lane, metadata=metadata)  # type: ignore[arg-type]
    listener = FakeListener(Received(b"r", greeting.encode(), 1), call(b"r", 1))
    assert serve(listener).take() is None
    (_, refusal), (_, unknown) = listener.replies
    assert why in str(refusal.metadata)
    assert unknown.type == MessageType.GREET_FIRST
    assert not caplog.records


def test_an_answer_of_who_loses_the_lead_meanwhile_does_not_wait_for_the_next_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    request = Message(MessageType.PYTHON_CALL, 5).encode()
    other = Message(MessageType.PYTHON_CALL, 6).encode()
    listener = FakeListener(hello(b"r", 1), Received(b"r", list(join([request, other])), 1))
    server = serve(listener)
    assert server.take() is not None

    def lead_until_nothing_comes() -> None:
        assert server.take() is not None
        assert server.take() is None

    def lose_the_lead(frames: Sequence[Buffer]) -> bool:
        next_leader = threading.Thread(target=lead_until_nothing_comes)
        next_leader.start()
        next_leader.join(5)
        return True

    # This thread loses the lead right after it has found that it leads.
    monkeypatch.setattr(serving, "can_join", lose_the_lead)
    assert server.reply(b"r", Message(MessageType.PYTHON_RET, 5).encode())
    assert [message.message_id for _, message in listener.replies] == [5]


def credit(told: object) -> Received:
    message = Message(MessageType.CREDIT, metadata={"bytes": told})  # type: ignore[dict-item]
    return Received(b"r", message.encode(), 1)


def let_read(server: Server, listener: FakeListener) -> None:
    listener.coming.append(credit(300 << 20))


def let_greet_again(server: Server, listener: FakeListener) -> None:
    listener.coming.append(hello(b"new", 1))


def let_die(server: Server, listener: FakeListener) -> None:
    server._callers.forget(CALLER)


@pytest.mark.parametrize("let_go", [let_read, let_greet_again, let_die])
def test_a_call_waits_until_answers_are_read_or_will_not_be(
    let_go: Callable[[Server, FakeListener], None],
) -> None:
    listener = FakeListener(hello(b"r", 1), call(b"r", 1))
    server = serve(listener)
    work = server.take()
    assert work is not None
    work.argument.lane.answered(4, (), 300 << 20)
    work.function(work.argument)
    assert (server._callers.num_held(), listener.replies, server.take()) == (1, [], None)
    let_go(server, listener)
    again = server.take()
    assert again is not None and again.argument is work.argument and again.counted
    again.function(again.argument)
    assert server._callers.num_held() == 0
    assert [message.message_id for _, message in listener.replies] == [5]


@pytest.mark.parametrize("told", [-1, "much", None])
def test_who_tells_rubbish_of_what_it_has_read_is_not_heard(told: object) -> None:
    server = serve(FakeListener(hello(b"r", 1), credit(told)))
    assert server.take() is None
    assert server.num_rubbish == 1


def test_a_listener_that_fails_once_is_read_again(caplog: pytest.LogCaptureFixture) -> None:
    class Failing(FakeListener):
        has_failed = False

        def receive(self, deadline: float | None = None) -> Received | None:
            if not self.has_failed:
                self.has_failed = True
                raise OSError(24, "Too many open files")
            return super().receive(deadline)

    server = serve(Failing(hello(b"r", 1), call(b"r", 1)))
    assert server.take() is None  # the pool's thread passes the lead on, and takes it again
    assert server.take() is not None
    assert "Too many open files" in caplog.text


def test_an_acknowledgement_frees_the_answers_that_its_caller_has_read() -> None:
    listener = FakeListener(hello(b"r", 1))
    server = serve(listener)
    assert server.take() is None
    lane = server._callers.by_route[b"r"]
    for call_id in range(4):
        lane.accept_request(call_id, None)  # type: ignore[arg-type]
        lane.answered(call_id, (bytes(1000),), 1000)
    read = acknowledge(Acknowledged(2000, 4, (2,)))
    for _ in range(2):  # the second one is a replay
        listener.coming.append(Received(b"r", read, 1))
        assert server.take() is None
        assert [*lane._answers] == [2]


@pytest.mark.parametrize(
    "words",
    [
        {"bytes": -1, "floor": 4, "open": ()},
        {"bytes": 1, "floor": "4", "open": ()},
        {"bytes": 1, "floor": 4, "open": ("2",)},
        {"bytes": 1, "floor": 4, "open": tuple(range(MOST_OPEN + 1))},
        {"floor": 4},
    ],
)
def test_an_acknowledgement_that_makes_no_sense_is_dropped(words: Any) -> None:
    frames = Message(MessageType.CREDIT, metadata=words).encode()
    server = serve(FakeListener(hello(b"r", 1), Received(b"r", frames, 1)))
    assert server.take() is None and server.num_rubbish == 1
