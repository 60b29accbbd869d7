"""A hub detects that another process is lost, and notifies the groups concerned."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from fastdist.core.errors import CollectiveError, CollectiveLostError
from fastdist.distributed.links import hub as hubs
from fastdist.distributed.links.hub import Hub, _Peer
from fastdist.distributed.links.members import Record
from fastdist.distributed.pipe.host import process_start
from fastdist.distributed.sockets import monitor
from fastdist.distributed.sockets.pulse import Beat
from fastdist.distributed.sockets.security import NoSecurity


class Group:
    """A replacement for a group: records the members that it lost."""

    def __init__(self) -> None:
        self.lost: list[tuple[int, str]] = []
        self.left: list[int] = []
        self.arrived = threading.Event()

    def receive(self, head: Any, body: Any, rank: int | None) -> None:
        raise AssertionError("nothing is sent")

    def peer_lost(self, peer: Record, why: str) -> None:
        self.lost.append((peer.rank, why))
        self.arrived.set()

    def peer_left(self, peer: Record) -> None:
        self.left.append(peer.rank)
        self.arrived.set()

    def close(self) -> None:
        pass


class Lane:
    """A stand-in for a connection whose events and pulse the test sets."""

    def __init__(self, *events: str, beat: Beat | None = None) -> None:
        self.events = list(events)
        self.pulse = None if beat is None else self
        self._beat = beat

    def next_connection_event(self) -> str | None:
        return self.events.pop(0) if self.events else None

    def beat(self) -> Beat | None:
        return self._beat

    def connection_fileno(self) -> int:
        return -1

    def close(self, linger_s: float) -> None:
        pass


@pytest.fixture
def hub() -> Iterator[Hub]:
    made = Hub(0, "127.0.0.1", NoSecurity(), 3.0)
    live = set(hubs._live)
    yield made
    hubs._live.intersection_update(live)
    with made._lock:
        made._receivers.clear()
    assert made.close_if_unused()


def record_of(hub: Hub, rank: int = 1, **changes: Any) -> Record:
    made = Record(rank, 1000 + rank, 7, hub.addresses, "none", "0 to 1", "", "", "")
    return dataclasses.replace(made, **changes)


def watched(hub: Hub, *groups: int, **changes: Any) -> tuple[_Peer, list[Group]]:
    """Return a peer, and the groups that watch it."""
    record, found = record_of(hub, **changes), []
    # Pretend that the peer is an open hub of this process.
    hubs._live.add(record.incarnation)
    for number in groups:
        found.append(Group())
        hub.attach(number, found[-1])
        hub.watch(number, record, by_connection=False)
    return hub._peers[record.incarnation], found


CONNECTED = monitor.HANDSHAKE_SUCCEEDED


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ([CONNECTED, monitor.DISCONNECTED], "its connection has ended"),
        # The peer was not listening yet, and libzmq tries again.
        ([monitor.DISCONNECTED], ""),
        ([monitor.DISCONNECTED, CONNECTED], ""),
        ([CONNECTED, monitor.CONNECTED, monitor.CONNECT_RETRIED, monitor.ACCEPTED], ""),
        ([monitor.REFUSED], "it refuses connections of this process"),
        ([CONNECTED, monitor.REFUSED, monitor.DISCONNECTED], "it refuses connections of this"),
        ([monitor.CONNECT_RETRIED, monitor.HANDSHAKE_FAILED], ""),
    ],
)
def test_which_events_of_a_connection_end_a_peer(hub: Hub, events: list[str], why: str) -> None:
    peer, (group,) = watched(hub, 1)
    peer.lane = Lane(*events)  # type: ignore[assignment]
    hub._read_events(peer)
    assert peer.why_lost.startswith(why) and bool(peer.why_lost) == bool(why)
    assert peer.was_connected == (CONNECTED in events)
    if why:
        assert group.arrived.wait(5.0)
        assert group.lost == [(1, peer.why_lost)]


def test_a_peer_without_a_connection_has_no_events_and_no_pulse(hub: Hub) -> None:
    peer, _ = watched(hub, 1)
    hub._read_events(peer)
    hub._beat(peer)
    peer.lane = Lane()  # type: ignore[assignment]
    hub._beat(peer)
    assert not peer.why_lost


@pytest.mark.parametrize("beat", list(Beat))
def test_only_a_frozen_peer_is_lost_by_its_pulse(hub: Hub, beat: Beat) -> None:
    peer, (group,) = watched(hub, 1)
    peer.lane = Lane(beat=beat)  # type: ignore[assignment]
    hub._beat(peer)
    assert peer.why_lost == ("it gave no sign of life for 3 s" if beat is Beat.FROZEN else "")
    if beat is Beat.FROZEN:
        assert group.arrived.wait(5.0)


@pytest.mark.parametrize(("frozen_s", "beats"), [(0.1, 1), (1.0, 1), (2.6, 3), (60.0, 60)])
def test_how_many_beats_a_peer_may_miss(frozen_s: float, beats: int) -> None:
    made = Hub(0, "127.0.0.1", NoSecurity(), frozen_s)
    assert made._frozen_beats == beats
    assert made.close_if_unused() and not made.close_if_unused()


def test_the_first_reason_stays_and_all_groups_of_a_peer_learn_it_soon(hub: Hub) -> None:
    peer, groups = watched(hub, 1, 2)
    _, (other,) = watched(hub, 3, rank=2, incarnation=5)
    began = time.monotonic()
    hub._declare_lost(peer, "the first")
    hub._declare_lost(peer, "the second")
    for group in groups:
        assert group.arrived.wait(5.0)
    # The loss is reported with a delay, so that earlier messages of the peer are read first.
    assert time.monotonic() - began >= hubs._READ_ON_S
    assert [group.lost for group in groups] == [[(1, "the first")]] * 2
    assert other.lost == [] and peer.closed.wait(time.monotonic())
    # A group that begins to watch the peer later is notified immediately.
    late = Group()
    hub.attach(4, late)
    hub.watch(4, peer.record, by_connection=False)
    assert late.arrived.wait(5.0)
    assert late.lost == [(1, "the first")]
    with pytest.raises(CollectiveLostError, match="the first"):
        hub.send(peer.record, (b"", b""), time.monotonic() + 5)


def test_a_group_that_has_left_learns_nothing_and_its_peers_are_forgotten(hub: Hub) -> None:
    peer, (stays, leaves) = watched(hub, 1, 2)
    alone, (gone,) = watched(hub, 3, rank=2, incarnation=5)
    hub.detach(2)
    hub.detach(3)
    assert alone.is_released and not peer.is_released
    assert list(hub._peers.values()) == [peer]
    hub._declare_lost(peer, "it ended")
    assert stays.arrived.wait(5.0)
    assert leaves.lost == gone.lost == []
    with pytest.raises(CollectiveLostError, match="the group was closed"):
        hub.send(alone.record, (b"", b""), time.monotonic() + 5)
    with pytest.raises(CollectiveLostError, match="the group was closed"):
        hub._lane_to(alone)


def test_a_group_is_attached_once_and_not_to_a_hub_that_is_closed(hub: Hub) -> None:
    hub.attach(0xAB, Group())
    with pytest.raises(CollectiveError, match="this process has a group 0xab already"):
        hub.attach(0xAB, Group())
    assert not hub.close_if_unused()
    other = Hub(1, "127.0.0.1", NoSecurity(), 3.0)
    assert other.close_if_unused()
    with pytest.raises(CollectiveError, match="the connections of this process were closed"):
        other.attach(1, Group())


def test_a_connection_is_made_when_it_is_needed(hub: Hub) -> None:
    peer, _ = watched(hub, 1)
    assert not hub.has_lane_to(peer.record)
    assert not hub.has_lane_to(record_of(hub, 2))
    hub.watch(1, peer.record, by_connection=True)
    assert hub.has_lane_to(peer.record)


def test_a_process_is_watched_by_its_descriptor_if_its_number_means_the_same_here(
    hub: Hub,
) -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    start = process_start(process.pid)
    with process:
        for number, changes in enumerate(
            ({"boot_id": "another"}, {"pid_namespace": "another"}, {"pid": os.getpid()})
        ):
            given = {"pid": process.pid, "process_start": start, "incarnation": number, **changes}
            peer, _ = watched(hub, 10 + number, **given)
            assert peer.pidfd == -1 and not peer.why_lost
        given = {"pid": process.pid, "process_start": start}
        peer, (group,) = watched(hub, 1, **given)
        descriptor = peer.pidfd
        assert descriptor >= 0 and not peer.why_lost
        hub.watch(1, peer.record, by_connection=False)
        assert peer.pidfd == descriptor
        # The pid belongs to another process now.
        reused, _ = watched(hub, 2, pid=process.pid, process_start=1, incarnation=9)
        assert reused.why_lost == "its process has ended"
    assert group.arrived.wait(5.0)
    assert group.lost == [(1, "its process has ended")]
    gone, _ = watched(hub, 3, pid=process.pid, process_start=start, incarnation=8)
    assert gone.why_lost == "its process has ended" and gone.pidfd == -1


def test_the_reader_wakes_for_the_first_loss_and_hands_out_those_that_are_due(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[float | None] = []
    made: Any = object.__new__(Hub)
    made._lock, made._is_closed, group = threading.RLock(), False, Group()
    made._receivers, made._lost = {1: group}, deque()
    monkeypatch.setattr(hubs, "time", SimpleNamespace(monotonic=lambda: 100.0))

    def receive(due: float | None) -> None:
        asked.append(due)
        made._is_closed = True

    made._listener = SimpleNamespace(receive=receive)
    made._read()
    assert asked == [None] and group.lost == []
    for rank, at in ((1, 100.0), (2, 90.0), (3, 100.5), (4, 80.0)):
        record = SimpleNamespace(rank=rank)
        peer: Any = SimpleNamespace(record=record, groups={1, 2}, has_left=rank == 2)
        made._lost.append((at, peer, f"why {rank}"))
    made._is_closed = False
    made._read()
    assert asked == [None, 100.0]
    # Losses are handed out in order, so a later loss waits for all earlier ones.
    assert group.lost == [(1, "why 1")] and group.left == [2] and len(made._lost) == 2


def test_a_hub_that_closes_is_known_to_the_other_hubs_of_its_process() -> None:
    first, other, third = (
        hubs.get_or_create_hub(rank, "127.0.0.1", NoSecurity(), 3.0) for rank in (71, 72, 73)
    )
    group, stranger = Group(), Group()
    other.attach(1, group)
    third.attach(2, stranger)
    known = record_of(first, 71, incarnation=first.incarnation)
    other.watch(1, known, by_connection=False)
    peer = other._peers[first.incarnation]
    assert not peer.why_lost
    hubs.close_if_unused(first)
    assert group.arrived.wait(5.0) and group.left == [71] and group.lost == []
    assert stranger.left == []
    with pytest.raises(CollectiveLostError, match="it has left all groups"):
        other.send(known, (b"",), time.monotonic() + 5.0)
    # A hub that watches the process later is notified as well.
    third.watch(2, known, by_connection=False)
    assert stranger.arrived.wait(5.0) and stranger.left == [71]
    for hub, number in ((other, 1), (third, 2)):
        hub.detach(number)
        hubs.close_if_unused(hub)


def test_hubs_are_found_by_rank_until_no_group_uses_them() -> None:
    first = hubs.get_or_create_hub(71, "127.0.0.1", NoSecurity(), 3.0)
    assert hubs.get_or_create_hub(71, "127.0.0.1", NoSecurity(), 3.0) is first
    other = hubs.get_or_create_hub(72, "127.0.0.1", NoSecurity(), 3.0)
    assert hubs.find_hub(71) is first and hubs.find_hub(72) is other
    assert hubs.find_hub(73) is None
    first.attach(1, Group())
    hubs.close_if_unused(first)
    assert hubs.find_hub(71) is first
    first.detach(1)
    hubs.close_if_unused(first)
    assert hubs.find_hub(71) is None and hubs.find_hub(72) is other
    hubs.close_if_unused(other)
    assert hubs.find_hub(72) is None


def test_at_the_end_of_a_process_all_hubs_leave_their_groups(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left: list[int] = []

    class Ending:
        def __init__(self, number: int) -> None:
            self.number = number

        def close_all(self) -> None:
            left.append(self.number)
            raise ValueError("one that fails does not keep the others")

    monkeypatch.setattr(hubs, "_hubs", {1: Ending(1), 2: Ending(2)})
    hubs._close_all()
    assert left == [1, 2]
    # A forked child has no hubs, and a new lock for hubs.
    lock = hubs._hubs_lock
    monkeypatch.setattr(hubs, "_hubs_lock", lock)
    hubs._forget_in_child()
    assert hubs._hubs == {} and hubs._hubs_lock is not lock


def test_a_hub_closes_all_of_its_groups(hub: Hub) -> None:
    closed: list[int] = []
    for number in (1, 2):
        group: Any = Group()
        group.close = lambda number=number: closed.append(number)
        hub.attach(number, group)
    hub.close_all()
    assert closed == [1, 2]


def test_the_first_hub_and_the_last_are_known_to_the_end_of_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    did: list[tuple[str, Any]] = []
    noted = SimpleNamespace(
        register=lambda function: did.append(("register", function)),
        unregister=lambda function: did.append(("unregister", function)),
    )
    monkeypatch.setattr(hubs, "atexit", noted)
    monkeypatch.setattr(hubs, "_hubs", {})
    made = [hubs.get_or_create_hub(rank, "127.0.0.1", NoSecurity(), 3.0) for rank in (71, 72, 71)]
    assert did == [("register", hubs._close_all)]
    hubs.close_if_unused(made[0])
    assert len(did) == 1
    hubs.close_if_unused(made[1])
    assert did[1:] == [("unregister", hubs._close_all)]


def test_a_sender_waits_for_others_that_send_until_its_deadline(hub: Hub) -> None:
    peer, _ = watched(hub, 1)
    with peer.lock:
        for deadline in (time.monotonic() + 0.005, time.monotonic() - 1.0):
            with pytest.raises(TimeoutError, match="others are sending to it"):
                hub.send(peer.record, (b"", b""), deadline)
    assert not hub.has_lane_to(peer.record)


@pytest.mark.parametrize(
    ("changes", "same_host", "same_process"),
    [
        ({}, True, True),
        ({"boot_id": "other"}, False, False),
        ({"network_namespace": "other"}, False, False),
        ({"pid": 1}, True, False),
    ],
)
def test_which_way_leads_to_a_peer(
    hub: Hub,
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, Any],
    same_host: bool,
    same_process: bool,
) -> None:
    peer, _ = watched(hub, 1, **changes)
    asked: list[Any] = []
    lane = Lane(beat=Beat.FINE)

    def choose(addresses: Any, **where: bool) -> str:
        asked.append((addresses, where))
        return way

    def connect(*given: Any, **more: Any) -> Lane:
        asked.append((given[:2], given[3], more))
        return lane

    monkeypatch.setattr(hub._context, "choose", choose)
    monkeypatch.setattr(hub._context, "connect", connect)
    for way in ("uv", "shm"):
        peer.record.addresses[way] = f"address of {way}"
        peer.lane = None
        assert hub._lane_to(peer) is lane and hub._lane_to(peer) is lane
        where = {"same_host": same_host, "same_process": same_process}
        watched_ = {"watched": way == "uv"}
        assert asked == [
            (peer.record.addresses, where), ((way, f"address of {way}"), "rank:1", watched_),
        ]  # fmt: skip
        asked.clear()
    assert lane.most_missed_beats == 3  # type: ignore[attr-defined]
    monkeypatch.setattr(hub, "_are_chosen", True)
    peer.lane = None
    hub._lane_to(peer)
    assert asked[0][1]["same_process"] is False
