"""A prober's reports about a port that accepts no connection."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from fastdist.distributed.rpc.workers import watching
from fastdist.distributed.rpc.workers.session import Event
from fastdist.distributed.rpc.workers.watching import Prober
from fastdist.distributed.sockets import Attempt, free_port, tcp_endpoint
from tests.distributed.rpc.workers.test_worker import ProgressByHand


class Probe:
    """A prober of one port, and its reports."""

    def __init__(self, port: int) -> None:
        self.progress = ProgressByHand()
        self.told: list[tuple[Event, str]] = []
        self.is_needed = True
        progress: Any = self.progress
        self.prober = Prober(
            tcp_endpoint("127.0.0.1", port),
            progress,
            lambda: self.is_needed,
            lambda event, why: self.told.append((event, why)),
        )

    def look(self) -> None:
        self.prober.look_soon()
        self.progress.run_present_alarms()

    def read(self) -> None:
        (reader,) = self.progress.readers.values()
        reader()


def test_that_nobody_listens_is_told_once_each_time_it_is_asked_for() -> None:
    probe = Probe(free_port())
    for times in (1, 2):
        probe.look()
        probe.prober.look_soon()  # no effect: a probe is already under way
        probe.read()
        assert probe.told == [(Event.REFUSED, "")] * times
        assert not probe.progress.readers
        probe.progress.run_alarms()
    assert len(probe.told) == 2


def test_who_does_not_answer_in_time_is_out_of_reach() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        port = server.getsockname()[1]
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", port))
        probe = Probe(port)
        probe.look()
        assert not probe.told
        probe.progress.run_alarms()  # advance the clock past the time limit for an answer
        assert probe.told == [(Event.UNREACHED, "no answer")]
        for one in waiting:
            one.close()


def test_somebody_who_listens_is_nothing_to_tell() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        probe = Probe(server.getsockname()[1])
        probe.look()
        probe.progress.run_alarms()
        assert not probe.told and not probe.progress.readers


def test_nothing_is_tried_once_there_is_a_connection_and_what_was_begun_is_dropped() -> None:
    probe = Probe(free_port())
    probe.is_needed = False
    probe.look()
    assert not probe.progress.readers
    probe.is_needed = True
    probe.look()
    probe.prober.stop()
    assert not probe.progress.readers
    probe.progress.run_alarms()
    assert not probe.told


def test_an_attempt_that_cannot_be_made_is_not_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(address: str) -> Attempt:
        raise RuntimeError("nobody foresaw this")

    probe = Probe(free_port())
    with monkeypatch.context() as patch:
        patch.setattr(watching, "Attempt", fail)
        with pytest.raises(RuntimeError):
            probe.look()
    probe.look()
    probe.read()
    assert probe.told == [(Event.REFUSED, "")]
