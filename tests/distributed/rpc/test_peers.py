"""How other workers are met."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from fastdist.core.errors import FastdistError, RpcError
from fastdist.distributed.rpc.membership import Membership, Record
from fastdist.distributed.rpc.message_types import MessageType
from fastdist.distributed.rpc.peer_state import Event
from fastdist.distributed.rpc.peers import Peers
from fastdist.distributed.store import HashStore
from tests.distributed.rpc.test_peer import ProgressByHand, SilentLane, kinds_sent

ME, OTHER = (Record(f"w{rank}", rank, 2, 100, {"uv": "somewhere"}, {}, "none") for rank in range(2))


class NoDescriptorLeft:
    """A context that cannot make a lane; somebody has found the peer when it finds out."""

    def __init__(self) -> None:
        self.peers: Any = None
        self.found: Any = None

    def choose(self, *_: Any, **__: Any) -> str:
        return "uv"

    def connect(self, *_: Any, **__: Any) -> Any:
        self.found = self.peers.by_id[OTHER.rank]
        raise FastdistError("no descriptor is left for a socket")


def test_a_worker_that_could_not_be_met_is_met_anew_by_the_next_who_wants_it() -> None:
    context: Any = NoDescriptorLeft()
    context.peers = peers = Peers(Membership(HashStore(), ME, [ME, OTHER]), context)
    progress = SimpleNamespace(now=lambda: 0.0, post=lambda *_: None)
    some: Any = SimpleNamespace(
        progress=progress, answer_came=None, late_answer_came=None, lender_to=lambda _: None
    )
    peers.attend(some, some, some, some)
    peers.is_open = True
    for _ in range(2):
        with pytest.raises(FastdistError, match="no descriptor is left"):
            peers.peer(OTHER.rank)
        # It would have taken calls whose answers nobody reads.
        with pytest.raises(FastdistError, match="no descriptor is left"):
            context.found.pipe.add_pending(1, None)
    assert peers.by_id == {}


def test_who_takes_the_rank_of_a_dead_worker_is_not_taken_for_it() -> None:
    me, dead, other = (replace(one, world_size=0) for one in (ME, OTHER, OTHER))
    other = replace(other, incarnation=200)
    peers = Peers(Membership(HashStore(), me, [me, other]), NoDescriptorLeft())
    met: list[int] = []
    progress = SimpleNamespace(
        post=lambda _, rank: met.append(rank), is_current_thread=lambda: False
    )
    peers.attend(*[SimpleNamespace(progress=progress)] * 4)  # type: ignore[arg-type]
    peers.by_id[1] = gone = Mock(record=dead, is_dead=True)
    assert peers.admit(1, 200, f"{me.incarnation:x}").incarnation == 200
    gone.was_replaced.assert_called_once_with()
    # Its first request may run before it is met.
    assert (peers.by_id, met) == ({}, [1])


def peers_that_know(
    me: Record, other: Record, submit: Callable[..., object] = lambda *_: None
) -> Any:
    """Peers of a group of two, who reach each other by lanes on which nothing comes."""
    context: Any = SimpleNamespace(
        choose=lambda *_, **__: "uv", connect=lambda *_, **__: SilentLane()
    )
    peers = Peers(Membership(HashStore(), me, [me, other]), context)
    some: Any = SimpleNamespace(
        progress=ProgressByHand(),
        answer_came=None,
        late_answer_came=None,
        lender_to=lambda _: None,
        forget=lambda *_: None,
        submit_uncounted=submit,
        peer_lost=lambda _: None,
    )
    peers.attend(some, some, some, some)
    peers.is_open = True
    return peers


EARLIER = replace(OTHER, world_size=0)
LATER = replace(EARLIER, incarnation=101)


def test_who_has_the_rank_now_is_met_though_the_end_of_who_had_it_is_not_noticed_yet() -> None:
    peers = peers_that_know(replace(ME, world_size=0), EARLIER)
    before = peers.peer(EARLIER.rank)
    before._step(Event.CONNECTED)
    before.said_goodbye()
    assert not before.is_dead
    peers._members._add(LATER)
    now = peers.peer(EARLIER.rank)
    assert now is not before and now is peers.peer(EARLIER.rank)
    assert now.record.incarnation == LATER.incarnation
    for peer in (before, now):
        peer.close(RpcError("the test is over"))


@pytest.mark.parametrize("is_first_to_call", [False, True])
def test_the_end_of_who_had_a_rank_is_told_before_anything_of_who_has_it_now(
    monkeypatch: pytest.MonkeyPatch, is_first_to_call: bool
) -> None:
    submitted: list[Callable[[], object]] = []

    def submit(function: Callable[..., object], *arguments: object) -> bool:
        submitted.append(lambda: function(*arguments))
        return True

    monkeypatch.setattr("fastdist.distributed.rpc.peers.lost_hooks", [])
    me = replace(ME, world_size=0)
    peers, told = peers_that_know(me, EARLIER, submit), []
    peers.add_lost_callback(told.append)
    peers.add_lost_callback(told.append)
    before = peers.peer(EARLIER.rank)
    before._step(Event.CONNECTED)
    before.said_goodbye()
    peers._members._add(LATER)

    def wait(timeout_s: float) -> bool:
        """Do what the pool does while somebody waits."""
        while submitted:
            submitted.pop(0)()
        return before_told.is_set()

    before_told, before.all_told = before.all_told, Mock(wait=wait, set=before.all_told.set)
    if is_first_to_call:
        assert peers.admit(LATER.rank, LATER.incarnation, f"{me.incarnation:x}") == LATER
    now = peers.peer(LATER.rank)
    assert told == [EARLIER.info] * 2 and before_told.is_set()
    for peer in (before, now):
        peer.close(RpcError("the test is over"))


def test_who_leaves_waits_until_its_peers_have_read_what_it_sent_or_have_gone() -> None:
    peers = peers_that_know(ME, OTHER)
    peer = peers.peer(OTHER.rank)
    with ThreadPoolExecutor(1) as pool:
        parting = pool.submit(peers.part, 30)
        peers.has_parted(OTHER.incarnation - 1)  # an earlier life's
        with pytest.raises(TimeoutError):
            parting.result(0.05)
        peers.has_parted(OTHER.incarnation)
        parting.result(10)
        assert kinds_sent(peer).count(MessageType.BYE) == 1
    peers = peers_that_know(ME, OTHER)
    lost = peers.peer(OTHER.rank)
    with ThreadPoolExecutor(1) as pool:
        parting = pool.submit(peers.part, 30)
        lost._step(Event.PROCESS_ENDED)
        parting.result(10)
    peer.close(RpcError("the test is over"))
