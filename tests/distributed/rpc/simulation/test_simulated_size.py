"""The claim: what a worker does to join, greet and leave grows with log n, and nothing with n * n.

Agents are real; their sockets, threads, clock and store connection are not. Each phase is counted
at sizes that double: messages and bytes over the network, requests to the store and the bytes of
these, and Python calls, as operations. A worker alone may do O(n) in all: the one whose process
keeps the store, whose work is counted apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest

from fastdist.distributed.store.state import StoreState
from tests.distributed.rpc.simulation import simulated_network
from tests.distributed.rpc.simulation.simulated_fixtures import group_ends, machine  # noqa: F401
from tests.distributed.rpc.simulation.simulated_group import SharedStore
from tests.distributed.rpc.simulation.simulated_world import worlds

# Twice as many workers may do so many times as much: n log n doubles by 2.2 to 2.3 at these sizes.
MOST_PER_DOUBLING = 2.4
# And one of them: log n grows by a sixth at 64; the steps of the tree come at 33 and 1,057.
MOST_OF_ONE = 2.4


class Counts(NamedTuple):
    """What all workers did in one phase, by worker; None stands for the store's own process."""

    messages: Counter[str | None]
    message_bytes: Counter[str | None]
    requests: Counter[str | None]
    request_bytes: Counter[str | None]
    operations: Counter[str | None]


class Phases:
    """A group whose phases are counted."""

    def __init__(self, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.size, self.counts = size, dict[str, Counts]()
        self._now: Counts | None = None
        self._in_store = False
        self._count_network(monkeypatch)
        self._count_store(monkeypatch)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count what is done in the block."""
        self._now = self.counts[name] = Counts(*(Counter() for _ in Counts._fields))
        try:
            yield
        finally:
            self._now = None

    def who(self) -> str | None:
        """Return the worker whose turn it is."""
        if self._in_store or not worlds or worlds[-1].current is None:
            return None
        return worlds[-1].current.name

    def operation(self, frame: Any, event: str, argument: object) -> None:
        """Count a call of a Python function of ours: a profile function of the thread."""
        if event == "call" and self._now is not None and "fastdist/" in frame.f_code.co_filename:
            self._now.operations[self.who()] += 1

    def _count_network(self, monkeypatch: pytest.MonkeyPatch) -> None:
        link, copies = simulated_network.Link, simulated_network._copies

        def count(of: Any, frames: Any) -> None:
            if self._now is not None and of is not None:
                self._now.messages[of.name] += 1
                self._now.message_bytes[of.name] += sum(map(len, frames))

        send, send_back = link.send, link.send_back

        def counted_send(self_: Any, frames: Any) -> bool:
            if self_.up:
                for end in (self_.client, self_.server):
                    count(end, frames)
            return send(self_, frames)

        def counted_back(self_: Any, number: int, frames: Any) -> None:
            for end in (self_.client, self_.server):
                count(end, frames)
            send_back(self_, number, frames)

        monkeypatch.setattr(link, "send", counted_send)
        monkeypatch.setattr(link, "send_back", counted_back)
        assert copies

    def _count_store(self, monkeypatch: pytest.MonkeyPatch) -> None:
        ask, submit = SharedStore._ask, StoreState.submit

        def counted_ask(store: Any, op: Any, arguments: list[bytes], timeout: Any = None) -> Any:
            who = self.who()
            frames = ask(store, op, arguments, timeout)
            self.note_request(who, [*arguments, *frames])
            return frames

        def in_store(state: Any, *request: Any) -> Any:
            before, self._in_store = self._in_store, True
            try:
                return submit(state, *request)
            finally:
                self._in_store = before

        monkeypatch.setattr(SharedStore, "_ask", counted_ask)
        monkeypatch.setattr(StoreState, "submit", in_store)

    def note_request(self, who: str | None, frames: list[bytes]) -> None:
        """Count a request to the store and its answer, at both ends."""
        if self._now is not None:
            for end in (who, None):
                self._now.requests[end] += 1
                self._now.request_bytes[end] += sum(map(len, frames))
