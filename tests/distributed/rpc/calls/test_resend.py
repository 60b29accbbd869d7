"""A request that may run twice is sent again at PyTorch's intervals: 1 s, then 1.5 times that."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from fastdist.concurrency.future import Future
from fastdist.core.errors import GivenUpError, RpcError, RpcNotRunningError, WorkerLostError
from fastdist.distributed.rpc.calls.client import Client, Resend
from fastdist.distributed.rpc.message.types import MessageType
from tests.distributed.lives import Life

TO = Life(5)
REQUEST = (TO, MessageType.CLEANUP_AUTOGRAD_CONTEXT_REQ)


class Peers:
    """A stand-in for a client: a test decides how requests end, and advances the clock."""

    def __init__(self, *ends: BaseException | str) -> None:
        self.ends = list(ends)
        self.waited_s: list[float] = []
        self.rank = 0
        self.resends: set[Any] = set()
        self.pool = SimpleNamespace(submit_uncounted=self._run)
        self.progress = SimpleNamespace(post=lambda call_at, *alarm: call_at(*alarm))
        self.progress.call_at = self._call_at

    def request(self, *request: Any) -> Future[Any]:
        assert request == REQUEST
        future: Future[Any] = Future()
        end = self.ends.pop(0)
        future.try_complete(*((end, None) if isinstance(end, str) else (None, end)))
        return future

    def _run(self, function: Callable[[], None]) -> bool:
        function()
        return True

    def _call_at(self, when: float, function: Callable[[], None]) -> None:
        self.waited_s.append(when - time.monotonic())
        function()

    def outcome(self, retries: int) -> Future[Any]:
        resend = Resend(self, REQUEST, retries)  # type: ignore[arg-type]
        resend.send()
        return resend.outcome


@pytest.mark.seed("C22")
def test_retries_wait_for_1_s_and_each_half_as_long_again() -> None:
    peers = Peers(*[RpcError("again")] * 5, "done")
    assert peers.outcome(5).value() == "done"
    assert peers.waited_s == pytest.approx([1.0, 1.5, 2.25, 3.375, 5.0625], abs=0.2)


@pytest.mark.seed("C22")
def test_retries_end_with_the_last_error_when_they_are_used_up() -> None:
    peers = Peers(*[RpcError(f"error {i}") for i in range(30)])
    assert str(peers.outcome(20).exception()) == "error 20"
    assert len(peers.waited_s) == 20


@pytest.mark.parametrize(
    "error", [WorkerLostError("gone"), GivenUpError("out"), KeyError("its own")]
)
def test_what_cannot_get_better_is_not_tried_again(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    peers = Peers(error, "never")
    monkeypatch.setattr(TO, "is_dead", True)
    assert peers.outcome(20).exception() is error and peers.waited_s == []


def test_who_waits_for_a_retry_hears_that_rpc_has_ended_meanwhile() -> None:
    peers = Peers(WorkerLostError("gone"))
    peers.pool.submit_uncounted = lambda function: False
    assert str(peers.outcome(20).exception()) == "gone"


def test_a_request_does_not_go_again_to_the_next_life_of_its_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    peers = Peers(RpcError("again"), WorkerLostError("gone"), "never")

    def is_replaced(when: float, function: Callable[[], None]) -> None:
        monkeypatch.setattr(TO, "is_dead", True)
        function()

    peers.progress.call_at = is_replaced
    assert str(peers.outcome(20).exception()) == "gone"
    assert peers.ends == ["never"]


def test_retries_that_wait_when_rpc_ends_are_given_up() -> None:
    peers, over = Peers(RpcError("again")), RpcNotRunningError("it has ended here")
    peers.progress.call_at = lambda when, function: None
    outcome = peers.outcome(20)
    assert not outcome.done()
    Client.end_resends(peers, over)  # type: ignore[arg-type]
    assert outcome.exception() is over
