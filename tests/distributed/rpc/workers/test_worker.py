"""Waiting for answers of a worker that leaves."""

from __future__ import annotations

import contextlib
import math
from types import SimpleNamespace
from typing import Any

import pytest

from fastdist.core.errors import WorkerLostError
from fastdist.distributed.rpc.message.types import MessageType
from fastdist.distributed.rpc.workers.session import Event, LivenessTimeouts
from fastdist.distributed.rpc.workers.worker import Worker
from tests.distributed.rpc.workers.by_hand import ME, OTHER, ProgressByHand, SilentLane, kinds_sent


@pytest.fixture
def met() -> Any:
    """Yield a connected peer, its progress thread, the lost workers, and the received messages."""
    progress, told, said = ProgressByHand(), [], []
    owner: Any = SimpleNamespace(
        me=ME,
        context=SimpleNamespace(
            choose=lambda *_, **__: "uv", connect=lambda *_, **__: SilentLane()
        ),
        progress=progress,
        handle_lost=told.append,
    )
    peer = Worker(OTHER, owner, LivenessTimeouts())
    peer.meet()
    peer._take = said.append  # type: ignore[method-assign]
    peer.open()
    peer._step(Event.CONNECTED)
    progress.alarms.clear()
    yield SimpleNamespace(peer=peer, progress=progress, told=told, said=said)
    peer.close(WorkerLostError("the test is over"))


def test_the_answer_on_a_lane_of_its_own_is_waited_for_when_lane_0_of_who_left_ends(
    met: Any,
) -> None:
    own = met.peer.pipe.borrow_lane()
    met.peer.said_goodbye()
    met.peer._step(Event.DISCONNECTED)
    assert met.peer.is_dead and met.peer.pipe.error is None and not met.told
    met.peer.pipe.return_lane(own)  # the answer on the borrowed lane has arrived
    met.progress.run_alarms()
    assert "has left the group" in str(met.peer.pipe.error) and met.told == [met.peer]
    assert not own.lane.is_open


def test_who_leaves_is_told_when_nobody_waits_any_more_for_what_it_sent(met: Any) -> None:
    own = met.peer.pipe.borrow_lane()
    met.peer.said_goodbye()
    met.progress.run_present_alarms()
    assert MessageType.FAREWELL not in kinds_sent(met.peer)
    met.peer.pipe.return_lane(own)
    met.progress.skipped_s = 0.01
    met.progress.run_present_alarms()
    assert kinds_sent(met.peer).count(MessageType.FAREWELL) == 1


def test_who_leaves_is_not_held_up_for_long_by_calls_that_it_will_not_answer(
    met: Any,
) -> None:
    own = met.peer.pipe.borrow_lane()
    met.peer.said_goodbye()
    met.progress.skipped_s = 0.25
    met.progress.run_present_alarms()
    assert MessageType.FAREWELL in kinds_sent(met.peer)
    met.peer.pipe.return_lane(own)


def test_nobody_is_waited_for_when_nobody_waits_for_who_left(met: Any) -> None:
    met.peer.said_goodbye()
    met.peer._step(Event.DISCONNECTED)
    assert "has left the group" in str(met.peer.pipe.error) and met.told == [met.peer]


def test_who_waits_for_a_worker_that_died_hears_it_at_once(met: Any) -> None:
    own = met.peer.pipe.borrow_lane()
    met.peer._step(Event.PROCESS_ENDED)
    assert "was lost" in str(met.peer.pipe.error) and met.told == [met.peer]
    met.peer.pipe.return_lane(own)


def test_who_leaves_itself_meanwhile_is_told_nothing_more(met: Any) -> None:
    own = met.peer.pipe.borrow_lane()
    met.peer.said_goodbye()
    met.peer._step(Event.DISCONNECTED)
    met.peer.close(WorkerLostError("we have left"))
    met.peer.pipe.return_lane(own)
    met.progress.run_alarms()
    assert str(met.peer.pipe.error) == "we have left" and not met.told


def test_answers_on_lane_0_are_read_while_others_of_who_left_are_waited_for(met: Any) -> None:
    own = met.peer.pipe.borrow_lane()
    met.peer.said_goodbye()
    met.peer._step(Event.DISCONNECTED)
    met.peer._shared.lane.came.append([b"an answer"])
    met.peer._read()
    # If the answer stayed unread, its descriptor would keep the progress thread awake.
    assert met.said == [[b"an answer"]] and not met.told
    met.peer.pipe.return_lane(own)


def test_the_process_of_who_leaves_is_not_watched_any_more_when_it_has_ended(met: Any) -> None:
    met.peer.said_goodbye()
    pidfd = met.peer._pidfd
    met.progress.readers[pidfd]()
    assert pidfd not in met.progress.readers and not met.told


def test_who_left_is_over_at_once_when_another_has_its_rank(met: Any) -> None:
    own = met.peer.pipe.borrow_lane()
    met.peer.said_goodbye()
    assert not met.told
    met.peer.was_replaced()
    assert "has left the group" in str(met.peer.pipe.error) and met.told == [met.peer]
    met.peer.pipe.return_lane(own)
    met.progress.run_alarms()
    assert met.told == [met.peer]


def test_who_is_waited_for_yet_is_over_at_once_when_another_has_its_rank(met: Any) -> None:
    own = met.peer.pipe.borrow_lane()
    met.peer.said_goodbye()
    met.peer._step(Event.DISCONNECTED)
    met.peer.was_replaced()
    assert met.told == [met.peer]
    met.peer.pipe.return_lane(own)
    met.progress.run_alarms()
    assert met.told == [met.peer]


def test_what_was_lent_by_a_connection_that_broke_is_looked_after_by_the_next(met: Any) -> None:
    broke: list[bool] = []
    met.peer.lender = SimpleNamespace(connection_broke=lambda: broke.append(True))
    met.peer._step(Event.DISCONNECTED)
    met.peer._step(Event.CONNECTED)
    assert broke == [True]


def test_a_beat_that_fails_is_not_the_last_one(met: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    beats: list[int] = []

    def fail() -> Any:
        beats.append(len(beats))
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(met.peer.pipe, "drain_idle_lanes", fail)
    beat = met.peer._beat
    for _ in range(3):
        with pytest.raises(OSError, match="Too many"):
            beat()  # in a real agent the progress thread logs the error and continues
        ((_, _, beat),) = met.progress.alarms
        met.progress.alarms.clear()
    assert len(beats) == 3


def test_a_peer_whose_silence_could_not_be_told_is_lost_all_the_same(met: Any) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a hook that cannot be run now")

    met.peer._owner.is_silent = fail
    met.peer._looks_at = math.inf  # the fixture has cleared all alarms, so no check is scheduled
    met.peer._step(Event.DISCONNECTED)
    for _ in range(100):
        alarms, met.progress.alarms = sorted(met.progress.alarms), []
        met.progress.skipped_s += 0.5
        for _, _, look in alarms:
            with contextlib.suppress(RuntimeError):  # in an agent, the progress thread logs it
                look()
        if met.told:
            break
    assert met.told == [met.peer]
