"""Knocks at peers: few in a second, however many peers there are; their descriptors are closed."""

from __future__ import annotations

import heapq
import socket
from typing import Any

import pytest

from fastdist.distributed.rpc.workers import watching
from fastdist.distributed.rpc.workers.watching import PulseTaker
from fastdist.distributed.sockets import Pulse, pulse
from tests.distributed.rpc.simulation.simulated_world import Clock
from tests.distributed.rpc.workers.by_hand import ProgressByHand


def test_a_knock_that_is_not_answered_yet_is_closed_with_who_waits_for_it() -> None:
    progress: Any = ProgressByHand()
    progress.num_pulses = 0
    pulse = Pulse()
    taker = PulseTaker(lambda: None, pulse, progress, lambda: None, lambda: True)
    knock: Any = socket.socket()
    pulse.knock = knock
    progress.watch(knock.fileno(), pulse.heard)
    taker.stop()
    # Another file may get the knock's descriptor number, so the descriptor must not stay watched.
    assert knock.fileno() == -1 and not progress.readers


def test_a_peer_to_which_no_way_leads_is_knocked_at_again_and_hung_up_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fastdist.distributed.sockets.pulse.Knock", FailedKnock)
    progress: Any = ProgressByHand()
    progress.num_pulses = 0
    asked: list[bool] = []
    hung_up: list[bool] = []
    pulse = Pulse()
    pulse.most_missed_beats = 3
    pulse.connected(1)
    ways = (lambda: hung_up.append(True)), pulse, progress, (lambda: asked.append(True))
    PulseTaker(*ways, lambda: True)
    for _ in range(3):
        assert not hung_up
        progress.run_present_alarms()
        # A failed knock's descriptor is readable; the reader function closes it.
        knock: Any = pulse.knock
        progress.readers[knock.fileno()]()
        assert knock.fileno() == -1 and not progress.readers
    progress.run_present_alarms()
    assert hung_up and len(asked) == 2 and not progress.readers
    pulse.disconnected()


@pytest.mark.parametrize("num_peers", [8, 64, 512])
def test_a_worker_knocks_eight_times_a_second_however_many_idle_peers_it_has(
    monkeypatch: pytest.MonkeyPatch, num_peers: int
) -> None:
    clock, knocked_at = Clock(), list[float]()

    class AnsweredKnock:
        has_failed = False

        def __init__(self, where: int) -> None:
            knocked_at.append(clock.now)
            self._fd = len(knocked_at)

        def is_answered(self) -> bool:
            return True

        def fileno(self) -> int:
            return self._fd

        def close(self) -> None:
            pass

    for module in (watching, pulse):
        monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(pulse, "Knock", AnsweredKnock)
    progress: Any = ProgressByHand()
    progress.num_pulses = 0
    for _ in range(num_peers):
        peer = Pulse()
        peer.connected(1)
        PulseTaker(lambda: None, peer, progress, lambda: None, lambda: False)
    begun = clock.now
    while clock.now < begun + 200.0:
        clock.now, _, beat = heapq.heappop(progress.alarms)
        beat()
        for answered in [*progress.readers.values()]:
            answered()
    # The first knocks come one after another too.
    for since in range(200):
        assert sum(begun + since < when <= begun + since + 1.0 for when in knocked_at) <= 8
    assert len(knocked_at) > 200 * 7


class FailedKnock:
    """A knock whose connection attempt has failed in the kernel of this host."""

    has_failed = True

    def __init__(self, where: int) -> None:
        self._socket = socket.socket()
        self.fileno, self.close = self._socket.fileno, self._socket.close

    def is_answered(self) -> bool:
        return False
