"""The members of a dynamic group are those in its store, under their current names."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from fastdist.core.device import Device
from fastdist.core.errors import RpcError, StoreTimeoutError
from fastdist.distributed.rpc.workers.directory import StoreDirectory
from fastdist.distributed.rpc.workers.group import Group
from fastdist.distributed.rpc.workers.joining import join_dynamic
from fastdist.distributed.rpc.workers.record import Record, WorkerInfo
from fastdist.distributed.rpc.workers.workers import Workers
from fastdist.distributed.store import HashStore, Store
from tests.distributed.rpc.workers.by_hand import present, strike_out, workers_of


def member(name: str, rank: int, incarnation: int) -> Record:
    return Record(name, rank, 0, incarnation, {"uv": "somewhere"}, {}, "none")


def come(store: Store, record: Record) -> None:
    """Join like another process; a member with the same name or rank leaves first."""
    for other in present(store):
        if other.rank == record.rank or other.name == record.name:
            strike_out(store, other.incarnation)
    join_dynamic(store, record, 1.0)


@pytest.fixture
def store() -> Store:
    return HashStore()


@pytest.fixture
def members(store: Store) -> Workers:
    """Return the workers as seen by w0, which knows the worker `a` at rank 1."""
    members: Workers = workers_of(join_dynamic(store, member("w0", 0, 100), 1.0))
    come(store, member("a", 1, 101))
    assert members.get("a").record.incarnation == 101
    return members


def end(members: Workers, rank: int, incarnation: int) -> None:
    """End one life of a rank, if it is still the current life."""
    worker = members.known(rank)
    if worker is not None and worker.record.incarnation == incarnation:
        worker.said_goodbye()


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
    """Return a function that runs a callback once, between a read of the store and its use."""
    find = StoreDirectory.find

    def let(happen: Callable[[], None]) -> None:
        waiting = [happen]

        def find_slowly(*arguments: Any) -> list[Record | None]:
            found = find(*arguments)
            if waiting:
                waiting.pop()()
            return found

        monkeypatch.setattr(StoreDirectory, "find", find_slowly)

    return let


@pytest.mark.seed("T26")
def test_the_name_of_one_that_left_does_not_lead_to_who_took_its_rank(
    store: Store, members: Workers
) -> None:
    come(store, member("b", 1, 102))
    assert members.info_of("b").id == 1
    end(members, 1, 101)
    assert members.find("a") is None and members.find(1) is members.find("b")


def test_error_for_a_name_says_that_the_store_could_not_be_asked(
    monkeypatch: pytest.MonkeyPatch, members: Workers
) -> None:
    def find_too_late(*_: object) -> list[Record | None]:
        raise StoreTimeoutError("the store is slow")

    monkeypatch.setattr(StoreDirectory, "find", find_too_late)
    told = r"name b; .*; who that is could not be read from the store: the store is slow$"
    with pytest.raises(RpcError, match=told):
        members.get("b")
    assert members.find("b") is None and members.get("a").info.id == 1


@pytest.mark.seed("T26")
def test_a_name_that_went_to_another_rank_stays_with_it(store: Store, members: Workers) -> None:
    come(store, member("b", 1, 102))
    come(store, member("a", 2, 103))
    members.all()
    end(members, 1, 101)
    assert [members.info_of(name).id for name in ("a", "b")] == [2, 1]


@pytest.mark.seed("T24")
def test_one_that_leaves_while_the_store_is_read_does_not_come_back(
    store: Store, members: Workers, meanwhile: Callable[[Callable[[], None]], None]
) -> None:
    def leave() -> None:
        strike_out(store, 101)
        end(members, 1, 101)

    meanwhile(leave)
    assert members.find("a stranger") is None and members.find(1) is None


@pytest.mark.seed("T24")
def test_what_was_read_early_does_not_replace_what_was_read_later(
    store: Store, members: Workers, meanwhile: Callable[[Callable[[], None]], None]
) -> None:
    other = threading.Thread(target=members.all)

    def come_again() -> None:
        come(store, member("a", 1, 102))
        other.start()
        other.join(0.1)  # the other thread may have to wait until this one has read

    meanwhile(come_again)
    assert members.find("another stranger") is None
    other.join(10)
    worker = members.known(1)
    assert worker is not None and worker.record.incarnation == 102


def with_maps(name: str, rank: int, incarnation: int, address: str) -> Record:
    maps = {"w0": {"sim:0": f"sim:{rank}"}}
    return Record(name, rank, 0, incarnation, {"uv": address}, maps, "none")


def told_of(members: Workers, name: str, rank: int) -> list[object]:
    """Look up one member in each way, and return the results; each way reads a different dict."""
    worker = members.find(name)
    return [
        members.info_of(name),
        members.info_of(rank),
        members.known(rank) is worker,
        members.url_of(name),
        worker and worker.record.device_map_to("w0"),
    ]


@pytest.mark.seed("T26")
def test_who_joins_is_found_by_name_and_id_with_its_address_and_device_map(
    store: Store, members: Workers
) -> None:
    come(store, with_maps("b", 2, 102, "here"))
    info = WorkerInfo("b", 2)
    maps = {Device.parse("sim:0"): Device.parse("sim:2")}
    assert told_of(members, "b", 2) == [info, info, True, {"uv": "here"}, maps]


@pytest.mark.seed("T26")
def test_who_joins_under_a_rank_that_is_free_again_brings_all_of_its_own(
    store: Store, members: Workers
) -> None:
    come(store, with_maps("a", 1, 102, "elsewhere"))
    members.all()
    info = WorkerInfo("a", 1)
    maps = {Device.parse("sim:0"): Device.parse("sim:1")}
    assert told_of(members, "a", 1) == [info, info, True, {"uv": "elsewhere"}, maps]


@pytest.mark.seed("T26")
def test_who_leaves_is_found_under_neither_name_nor_id_nor_address(
    store: Store, members: Workers
) -> None:
    strike_out(store, 101)
    end(members, 1, 101)
    for look_up in (
        lambda: members.info_of("a"),
        lambda: members.info_of(1),
        lambda: members.url_of("a"),
        lambda: members.get(WorkerInfo("a", 1)),
    ):
        with pytest.raises(RpcError, match="could not find destination"):
            look_up()
    assert (members.find("a"), members.find(1), members.known(1)) == (None, None, None)


@pytest.mark.seed("T24")
def test_look_ups_agree_while_members_come_and_go(store: Store, members: Workers) -> None:
    """Race a member that joins and leaves against threads that look it up."""
    wrong: list[BaseException | str] = []
    done = threading.Event()

    def look() -> None:
        try:
            while not done.is_set():
                ranks = [worker.id for worker in members.all()]
                if ranks != sorted(set(ranks)) or 0 not in ranks:
                    wrong.append(f"all() told {ranks}")
                for worker in (members.find("b"), members.find(2)):
                    if worker is not None and (worker.name, worker.id) != ("b", 2):
                        wrong.append(f"b of rank 2 led to {worker.record}")
        except BaseException as error:  # the test's own thread reports it
            wrong.append(error)

    threads = [threading.Thread(target=look) for _ in range(3)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for life in range(1000, 1100):
            come(store, member("b", 2, life))
            members.find("b")
            strike_out(store, life)
            end(members, 2, life)
    finally:
        sys.setswitchinterval(interval)
        done.set()
        for thread in threads:
            thread.join()
    assert wrong == []
    assert [worker.name for worker in members.all()] == ["w0", "a"]


def test_workers_of_one_machine_with_networks_of_their_own_are_on_two_hosts() -> None:
    me = Record("a", 0, 2, 1, {}, {}, "none")
    assert me.network_namespace == os.readlink("/proc/self/ns/net")
    assert me.shares_host_with(replace(me, rank=1))
    apart = Record.decode(replace(me, rank=1, network_namespace="net:[1]").encode())
    assert not me.shares_host_with(apart) and not apart.shares_host_with(me)
    # The kernel still reports the end of one worker's process to the other worker.
    assert me.shares_processes_with(apart)


def test_who_leaves_late_does_not_take_away_who_has_its_place(
    store: Store, members: Workers
) -> None:
    late, successor = member("a", 1, 101), member("a", 1, 102)
    come(store, successor)
    Group(store, late).take_out(late)
    members.all()
    assert members.get(1).record == successor
    Group(store, successor).take_out(successor)
    end(members, 1, 102)
    assert members.find(1) is None


class Guarded(dict[Any, Any]):
    """A table of members that records each access or change made without holding the lock."""

    def __init__(self, table: dict[Any, Any], lock: Any, unguarded: list[str]) -> None:
        super().__init__(table)
        self._lock, self._unguarded = lock, unguarded

    def _look(self, what: str) -> None:
        if not self._lock._is_owned():
            self._unguarded.append(what)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._look(f"set {key!r}")
        super().__setitem__(key, value)

    def __delitem__(self, key: Any) -> None:
        self._look(f"delete {key!r}")
        super().__delitem__(key)

    def __iter__(self) -> Iterator[Any]:
        self._look("go through all")
        return super().__iter__()


@pytest.mark.seed("T24")
def test_the_tables_of_members_change_and_are_gone_through_under_their_lock(
    store: Store, members: Workers
) -> None:
    unguarded: list[str] = []
    for name in ("_by_id", "_by_name"):
        setattr(members, name, Guarded(getattr(members, name), members._lock, unguarded))
    come(store, member("b", 2, 102))
    come(store, member("a", 1, 103))  # the next life of rank 1
    assert [worker.name for worker in members.all()] == ["w0", "a", "b"]
    strike_out(store, 102)
    end(members, 2, 102)
    assert members.find("b") is None and len(members.all()) == 2
    assert unguarded == []


@pytest.mark.seed("T24")
def test_a_member_is_met_under_the_lock_of_the_tables_and_once(members: Workers) -> None:
    worker = members.get("a")
    met: list[bool] = []
    meet = worker.meet

    def meet_and_note() -> None:
        met.append(members._lock._is_owned())  # type: ignore[attr-defined]
        # Another caller that waits for the lock must find that `meet` has been called.
        meet()

    worker.meet = meet_and_note  # type: ignore[method-assign]
    assert members.reach(1) is worker and members.reach(worker) is worker
    assert met == [True]
