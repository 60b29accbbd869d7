"""A fake agent that records messages instead of sending them, and fails on request."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

import fastdist.distributed.autograd as da
from fastdist.concurrency.future import Future
from fastdist.core.device import Device
from fastdist.core.errors import RpcError
from fastdist.distributed.autograd import container as containers
from fastdist.distributed.rpc import WorkerInfo
from fastdist.distributed.rpc import agent as agents
from fastdist.distributed.rpc.notices import NoticeSender
from fastdist.distributed.rpc.workers.record import in_words
from tests.distributed.lives import ME, Life, begin_anew, life


class FakeAgent:
    """A stand-in for the process's agent; every message is answered immediately with None."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, int, Mapping[str, Any], int]] = []
        self.tensors: list[Sequence[Any]] = []
        self.raises_for: set[int] = set()
        self.fails_for: set[int] = set()
        self.unanswered = False
        self.device_maps: dict[int, dict[Device, Device]] = {}
        self.futures: list[Future[Any]] = []
        self.workers = self  # the fake implements the methods of Workers too
        # This notice sender has no thread: tests decide when its notices are sent.
        self.notice_sender = NoticeSender(self.send)
        self.when_sent: Callable[[int], None] = lambda worker_id: None

    def send(
        self,
        to: Life,
        message_type: int,
        tensors: Sequence[Any] = (),
        metadata: Mapping[str, Any] | None = None,
        timeout_s: float = 0.0,
        retries: int = 0,
    ) -> Future[Any]:
        worker_id = to.id
        self.when_sent(worker_id)
        if worker_id in self.raises_for:
            raise RpcError(f"worker {worker_id} cannot be reached")
        self.sent.append((worker_id, message_type, metadata or {}, retries))
        self.tensors.append(tensors)
        future: Future[Any] = Future()
        self.futures.append(future)
        if worker_id in self.fails_for:
            future.set_exception(RpcError(f"worker {worker_id} did not answer"))
        elif not self.unanswered:
            future.set_result(None)
        return future

    def send_direct(self, *request: Any) -> None:
        """Do nothing, as if no lane were free."""

    def device_map_to(self, worker: Life) -> dict[Device, Device]:
        return self.device_maps.get(worker.id, {})

    def get_worker_info(self, to: int = ME) -> WorkerInfo:
        return life(to).info

    def worker(self, to: int = ME) -> Life:
        return life(to)

    def find(self, rank: int) -> Life | None:
        return life(rank)

    def in_words(self, rank: int) -> str:
        return in_words(life(rank))

    def find_life(self, rank: int, incarnation: object) -> Life | None:
        return life(rank) if life(rank).record.incarnation == incarnation else None

    def get_rpc_timeout(self) -> float:
        return 0.0

    def submit_uncounted(self, function: Callable[..., object], *arguments: object) -> bool:
        return False


@contextmanager
def fake_agent() -> Iterator[FakeAgent]:
    """Run this process with a fake agent."""
    begin_anew()
    fake = FakeAgent()
    agents.set_current_agent(fake)  # type: ignore[arg-type]
    try:
        yield fake
    finally:
        agents.set_current_agent(None)


@pytest.fixture
def agent() -> Iterator[FakeAgent]:
    """Make this process worker 3 of a group, with a fake agent."""
    da._init(3)
    with fake_agent() as fake:
        yield fake
    containers.clear_current_context_id()
    da._stop()
