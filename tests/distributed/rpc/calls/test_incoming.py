"""A request runs within its time limit, or not at all."""

from __future__ import annotations

from typing import Any

import pytest

import fastdist
from fastdist.core.errors import RpcTimeoutError
from fastdist.distributed.rpc.calls import serving as incoming
from fastdist.distributed.rpc.calls.serving import Incoming
from fastdist.distributed.rpc.message.body import serialize_call
from fastdist.distributed.rpc.message.message import Message, decode
from fastdist.distributed.rpc.message.types import MessageType
from fastdist.distributed.rpc.metrics import CallCounts
from fastdist.distributed.rpc.workers.callers import CallerLane
from fastdist.distributed.rpc.workers.record import Record
from tests.distributed.rpc.workers.by_hand import caller_of

OTHER = Record("w0", 0, 2, 1, {}, {}, "none")


class Host:
    """A server that records the messages that it sends."""

    def __init__(self) -> None:
        self.me = Record("w1", 1, 2, 1, {}, {}, "none")
        self.counts = CallCounts()
        self.sent: list[Message] = []

    def reply(self, route: bytes, frames: Any) -> bool:
        self.sent.append(decode(frames))
        return True


class Clock:
    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.mark.parametrize(("waited_s", "answers"), [(999.9, [5]), (1000.1, [])])
def test_a_call_that_has_waited_for_a_thread_as_long_as_its_timeout_is_does_not_run(
    monkeypatch: pytest.MonkeyPatch, waited_s: float, answers: list[int]
) -> None:
    clock, host = Clock(), Host()
    monkeypatch.setattr(incoming, "time", clock)
    body, encoding = serialize_call(abs, (-5,), {}, [])
    message = Message(
        MessageType.PYTHON_CALL, 7, body=body, encoding=encoding, timeout_ms=1_000_000
    )
    host.counts.request_came()
    request = Incoming(host, CallerLane(caller_of(OTHER), 0), message, 0)
    clock.now += waited_s
    request.run()
    assert [answer.value() for answer in host.sent] == answers
    assert host.counts.activity()[0] == 0


def test_who_should_make_a_value_hears_of_a_remote_call_that_came_too_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, host = Clock(), Host()
    refused: list[Message] = []
    monkeypatch.setattr(incoming, "time", clock)
    monkeypatch.setattr(incoming, "handler_of", lambda kind: refused.append)
    body, encoding = serialize_call(abs, (-5,), {}, [])
    kind = MessageType.PYTHON_REMOTE_CALL
    message = Message(kind, 7, body=body, encoding=encoding, timeout_ms=1000)
    host.counts.request_came()
    request = Incoming(host, CallerLane(caller_of(OTHER), 0), message, 0)
    clock.now += 2.0
    request.run()
    # Other calls may wait for the value of this call, so its handler learns that it did not run.
    assert refused == [message] and isinstance(message.refusal, RpcTimeoutError)


def test_what_the_tensors_of_an_answer_take_counts_as_not_read_yet() -> None:
    host, caller = Host(), caller_of(OTHER)
    caller.map_back = {}
    lane = CallerLane(caller, 0, max_unread_bytes=1)
    body, encoding = serialize_call(fastdist.ones, (1_000_000,), {}, [])
    for call_id in (7, 8):
        host.counts.request_came()
        message = Message(MessageType.PYTHON_CALL, call_id, body=body, encoding=encoding)
        request = Incoming(host, lane, message, 0)
        assert not lane.over_unread_limit
        request.run()
    assert request.sent_bytes > 4_000_000
    assert lane.over_unread_limit
