"""What becomes of those who wait for a worker when it goes."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from fastdist.core.errors import WorkerLostError
from fastdist.distributed.pipe.credit import Credit
from fastdist.distributed.pipe.lane import READABLE
from fastdist.distributed.pipe.message import peek
from fastdist.distributed.rpc import peer as peer_module
from fastdist.distributed.rpc.membership import Record
from fastdist.distributed.rpc.message_types import MessageType
from fastdist.distributed.rpc.peer import Peer
from fastdist.distributed.rpc.peer_state import Event

ME, OTHER = (Record(f"w{rank}", rank, 2, 100, {"uv": "somewhere"}, {}, "none") for rank in range(2))


class ProgressByHand:
    """A progress thread that runs when it is told to."""

    def __init__(self) -> None:
        self.alarms: list[tuple[float, int, Callable[[], None]]] = []
        self.readers: dict[int, Callable[[], None]] = {}

    def now(self) -> float:
        return 0.0

    def post(self, function: Callable[..., None], *arguments: Any) -> None:
        function(*arguments)

    def call_at(self, when: float, function: Callable[[], None]) -> None:
        heapq.heappush(self.alarms, (when, len(self.alarms), function))

    def is_current_thread(self) -> bool:
        return False

    def run_alarms(self) -> None:
        while self.alarms:
            heapq.heappop(self.alarms)[2]()

    def run_present_alarms(self) -> None:
        alarms, self.alarms = self.alarms, []
        for _, _, function in sorted(alarms):
            function()

    def watch(self, fd: int, reader: Callable[[], None]) -> None:
        self.readers[fd] = reader

    def unwatch(self, fd: int) -> None:
        self.readers.pop(fd, None)


class SilentLane:
    """A lane on which everything can be sent, and what is in `came` has come."""

    is_open = True
    pulse = None

    def __init__(self) -> None:
        self.came: list[Any] = []
        self.sent: list[Any] = []

    def try_send(self, frames: Any) -> bool:
        self.sent.append(frames)
        return True

    def try_receive(self) -> Any:
        return self.came.pop(0)

    def events(self) -> int:
        return READABLE if self.came else 0

    def fileno(self) -> int:
        return -1

    connection_fileno = fileno

    def next_connection_event(self) -> None:
        return None

    def close(self, linger_s: float = 0.0) -> None:
        self.is_open = False


@pytest.fixture
def met() -> Any:
    """A peer that is connected, its progress thread, who was told that it is lost, what it said."""
    progress, told, said = ProgressByHand(), [], []
    context = SimpleNamespace(choose=lambda *_, **__: "uv", connect=lambda *_, **__: SilentLane())
    peer = Peer(
        *(OTHER, ME, context, progress, Credit(1, 1)),  # type: ignore[arg-type]
        *(lambda _, frames: said.append(frames), lambda *_: None, told.append),
        *(lambda *_: None, lambda *_: None),
    )
    peer.open()
    peer._step(Event.CONNECTED)
    progress.alarms.clear()
    yield SimpleNamespace(peer=peer, progress=progress, told=told, said=said)
    peer.close(WorkerLostError("the test is over"))


def test_the_answer_on_a_lane_of_its_own_is_waited_for_when_lane_0_of_who_left_ends(
    met: Any,
) -> None:
    own = met.peer.pipe.check_out()
    met.peer.said_goodbye()
    met.peer._step(Event.DISCONNECTED)
    assert met.peer.is_dead and met.peer.pipe.error is None and not met.told
    met.peer.pipe.check_in(own)  # it has come
    met.progress.run_alarms()
    assert "has left the group" in str(met.peer.pipe.error) and met.told == [met.peer]
    assert not own.lane.is_open


def kinds_sent(peer: Any) -> list[int]:
    return [peek(frames)[0] for frames in peer._shared.lane.sent]


def test_who_leaves_is_told_when_nobody_waits_any_more_for_what_it_sent(met: Any) -> None:
    own = met.peer.pipe.check_out()
    met.peer.said_goodbye()
    met.progress.run_present_alarms()
    assert MessageType.FAREWELL not in kinds_sent(met.peer)
    met.peer.pipe.check_in(own)
    met.progress.run_present_alarms()
    assert kinds_sent(met.peer).count(MessageType.FAREWELL) == 1


def test_who_leaves_is_not_held_up_for_long_by_calls_that_it_will_not_answer(
    met: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_module, "_SETTLE_S", 0.0)
    own = met.peer.pipe.check_out()
    met.peer.said_goodbye()
    assert MessageType.FAREWELL in kinds_sent(met.peer)
    met.peer.pipe.check_in(own)


def test_nobody_is_waited_for_when_nobody_waits_for_who_left(met: Any) -> None:
    met.peer.said_goodbye()
    met.peer._step(Event.DISCONNECTED)
    assert "has left the group" in str(met.peer.pipe.error) and met.told == [met.peer]


def test_who_waits_for_a_worker_that_died_hears_it_at_once(met: Any) -> None:
    own = met.peer.pipe.check_out()
    met.peer._step(Event.PROCESS_ENDED)
    assert "was lost" in str(met.peer.pipe.error) and met.told == [met.peer]
    met.peer.pipe.check_in(own)


def test_who_leaves_itself_meanwhile_is_told_nothing_more(met: Any) -> None:
    own = met.peer.pipe.check_out()
    met.peer.said_goodbye()
    met.peer._step(Event.DISCONNECTED)
    met.peer.close(WorkerLostError("we have left"))
    met.peer.pipe.check_in(own)
    met.progress.run_alarms()
    assert str(met.peer.pipe.error) == "we have left" and not met.told


def test_answers_on_lane_0_are_read_while_others_of_who_left_are_waited_for(met: Any) -> None:
    own = met.peer.pipe.check_out()
    met.peer.said_goodbye()
    met.peer._step(Event.DISCONNECTED)
    met.peer._shared.lane.came.append([b"an answer"])
    met.peer._read()
    # Left where it was, its descriptor would keep the progress thread awake until then.
    assert met.said == [[b"an answer"]] and not met.told
    met.peer.pipe.check_in(own)


def test_the_process_of_who_leaves_is_not_watched_any_more_when_it_has_ended(met: Any) -> None:
    met.peer.said_goodbye()
    pidfd = met.peer._pidfd
    met.progress.readers[pidfd]()
    assert pidfd not in met.progress.readers and not met.told


def test_who_left_is_over_at_once_when_another_has_its_rank(met: Any) -> None:
    own = met.peer.pipe.check_out()
    met.peer.said_goodbye()
    assert not met.told
    met.peer.was_replaced()
    assert "has left the group" in str(met.peer.pipe.error) and met.told == [met.peer]
    met.peer.pipe.check_in(own)
    met.progress.run_alarms()
    assert met.told == [met.peer]


def test_who_is_waited_for_yet_is_over_at_once_when_another_has_its_rank(met: Any) -> None:
    own = met.peer.pipe.check_out()
    met.peer.said_goodbye()
    met.peer._step(Event.DISCONNECTED)
    met.peer.was_replaced()
    assert met.told == [met.peer]
    met.peer.pipe.check_in(own)
    met.progress.run_alarms()
    assert met.told == [met.peer]
