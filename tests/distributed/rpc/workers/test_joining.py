"""A group is static or dynamic for all its members, whoever joins first."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

import fastdist
from fastdist.core.errors import RankTakenError, RpcError, StoreError, StoreTimeoutError
from fastdist.distributed import rpc
from fastdist.distributed.rpc.workers.directory import StoreDirectory
from fastdist.distributed.rpc.workers.group import Group
from fastdist.distributed.rpc.workers.joining import be_in_again, is_over, join_dynamic, join_static
from fastdist.distributed.rpc.workers.record import Record
from fastdist.distributed.sockets import attempt
from fastdist.distributed.store import HashStore
from fastdist.distributed.store.requests import Op
from tests.distributed.rpc.workers.by_hand import present
from tests.distributed.workers import run_group

MIXED = (
    "RPC group mixes statically and dynamically initialized members which is not supported. The "
    "group is {group}, this worker would be {worker}: pass the same world_size to all of them, "
    "or to none"
)


def member(rank: int, world_size: int) -> Record:
    return Record(f"w{rank}", rank, world_size, 100 + rank, {"uv": "somewhere"}, {}, "none")


@pytest.mark.seed("T27")
def test_who_comes_without_a_world_size_is_refused_by_a_group_that_has_one() -> None:
    store = HashStore()
    join_static(store, member(0, 1), 5.0)
    with pytest.raises(RpcError) as refused:
        join_dynamic(store, member(1, 0))
    assert str(refused.value) == MIXED.format(group="static", worker="dynamic")


@pytest.mark.seed("T27")
def test_who_comes_with_a_world_size_is_refused_by_a_group_that_has_none() -> None:
    store = HashStore()
    join_dynamic(store, member(0, 0))
    with pytest.raises(RpcError) as refused:
        join_static(store, member(1, 2), 5.0)
    assert str(refused.value) == MIXED.format(group="dynamic", worker="static")


@pytest.mark.seed("T27")
def test_who_was_refused_for_its_kind_is_no_member() -> None:
    store = HashStore()
    group = join_dynamic(store, member(0, 0))
    with pytest.raises(RpcError):
        join_static(store, member(1, 2), 5.0)
    assert [record.name for record in group.read_members()] == ["w0"]


class NotedStore(HashStore):
    """A store that keeps a list of its requests."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Op] = []

    def _ask(self, op: Op, *more: Any) -> list[bytes]:
        self.asked.append(op)
        return super()._ask(op, *more)


@pytest.mark.parametrize("rank", [0, 1])
def test_only_the_host_of_the_store_waits_until_all_know_that_sizes_differ(rank: int) -> None:
    store = NotedStore()
    with pytest.raises(StoreTimeoutError):
        join_static(store, member(1 - rank, 3 - rank), 0.0)
    store.asked.clear()
    with pytest.raises(StoreError, match="start all with the same world size"):
        join_static(store, member(rank, 2 + rank), 5.0)
    assert (Op.WAIT in store.asked) == (rank == 0)


def init_with_a_world_size_at_rank_0_alone() -> str:
    rank = int(os.environ["RANK"])
    if rank == 1:
        del os.environ["WORLD_SIZE"]
    meeting = f"tcp://127.0.0.1:{os.environ['MASTER_PORT']}"
    options = rpc.TensorPipeRpcBackendOptions(init_method=meeting, init_timeout=5.0)
    size = {} if rank else {"world_size": 2}
    try:
        rpc.init_rpc(f"w{rank}", rank=rank, rpc_backend_options=options, **size)
    except (RpcError, StoreTimeoutError) as refused:
        return str(refused)
    rpc.shutdown(graceful=False)
    return "joined"


@pytest.mark.seed("T27")
def test_of_two_processes_of_both_kinds_the_later_is_refused() -> None:
    """The earlier process waits in vain for a static member, or forms a dynamic group alone."""
    told = run_group(init_with_a_world_size_at_rank_0_alone, 2)
    refused = [text.startswith(MIXED.partition(" The group")[0]) for text in told]
    assert sorted(refused) == [False, True], told


# ---- how often a worker was started again -------------------------------------------------------


def over(record: Record) -> Record:
    """Return a record of an ended process: the process that has the pid started at another time."""
    return replace(record, process_start=1)


def test_who_follows_lost_lives_counts_them_in_a_static_group() -> None:
    store = HashStore()
    first = over(replace(member(0, 1), restarts=True))
    counts = [join_static(store, first, 5.0, frozen_s=1.0).me.restart_count]
    for life in (7, 8):
        again = over(replace(first, incarnation=life))
        group = join_static(store, replace(again, pid=again.pid + life), 5.0, frozen_s=1.0)
        counts.append(group.me.restart_count)
        assert group.came_back
        assert present(store) == [group.me]
    assert counts == [0, 1, 2]


@pytest.mark.parametrize("struck_out", [False, True])
def test_who_follows_lost_lives_counts_them_in_a_dynamic_group(struck_out: bool) -> None:
    store = HashStore()
    counts = []
    for life in (6, 7, 8):
        mine = over(replace(member(1, 0), incarnation=life, pid=1 << 30 | life))
        group = join_dynamic(store, mine)
        counts.append(group.me.restart_count)
        assert group.came_back == (life > 6)
        assert present(store) == [group.me]
        if struck_out:
            group.take_out(group.me, was_lost=True)
    assert counts == [0, 1, 2]


def test_who_leaves_a_dynamic_group_and_comes_again_was_not_started_again() -> None:
    store = HashStore()
    group = join_dynamic(store, member(1, 0))
    group.take_out(group.me)
    again = join_dynamic(store, replace(member(1, 0), incarnation=7))
    assert again.me.restart_count == 0 and not again.came_back


def test_a_process_that_was_given_up_and_joins_again_was_not_started_again() -> None:
    store = HashStore()
    first = replace(member(0, 1), restarts=True)
    join_static(store, first, 5.0, frozen_s=1.0)
    store.set(f"given_up/{first.incarnation}", "by w1")
    again = replace(first, incarnation=7)
    group = join_static(store, again, 5.0, frozen_s=1.0, answers=lambda earlier: False)
    assert group.me.restart_count == 0 and group.came_back


def test_a_store_with_another_host_learns_how_often_workers_were_started_again() -> None:
    first = over(replace(member(0, 1), restarts=True, restart_count=3))
    group = join_static(HashStore(), first, 5.0, 1.0)
    be_in_again(store := HashStore(), group, [])
    again = replace(member(0, 1), restarts=True, incarnation=7)
    assert join_static(store, again, 5.0, 1.0).me.restart_count == 4

    lost = over(replace(member(1, 0), restart_count=2))
    group = join_dynamic(HashStore(), member(0, 0))
    be_in_again(store := HashStore(), group, [lost])
    assert join_dynamic(store, replace(member(1, 0), incarnation=7)).me.restart_count == 3


def test_who_was_replaced_before_all_had_met_leaves_its_place() -> None:
    store = HashStore()
    first = over(replace(member(1, 2), restarts=True))
    with pytest.raises(StoreTimeoutError):
        join_static(store, first, 0.0, frozen_s=1.0)
    with ThreadPoolExecutor(1) as pool, closing(store.watch("claims/")) as claims:
        assert claims.next(20.0) is not None
        again = replace(member(1, 2), restarts=True, incarnation=7)
        waits = pool.submit(join_static, store, again, 20.0, 1.0)
        assert claims.next(20.0) is not None  # until then the group contains the former life
        other = join_static(store, replace(member(0, 2), restarts=True), 20.0, 1.0)
        assert waits.result(20.0).me.restart_count == 1
    assert [one.restart_count for one in other.members] == [0, 1]


def test_a_second_worker_of_a_rank_is_refused_with_the_variable_that_takes_lost_ones_back() -> None:
    store = HashStore()
    join_static(store, member(0, 1), 5.0)
    with pytest.raises(RankTakenError, match="where FASTDIST_ALLOW_RESTART=worker is set for all"):
        join_static(store, replace(member(0, 1), incarnation=7), 5.0)


# ---- foreign entries in a store ------------------------------------------------------------------


def enter_bytes(store: HashStore, world_size: int, value: bytes) -> None:
    """Register `value`, which is not a record, as the member w0."""
    place = [b"rpc_members", b"0", b"%d" % world_size, value, b"100", b"w0", b"", b"", b"0"]
    store._ask(Op.ENTER, place)


@pytest.mark.parametrize("told", ["", "{", "[5]", "7", '["{}"]', "[" * 100_000])
def test_a_record_that_none_of_ours_wrote_is_named_to_who_comes_back(told: str) -> None:
    store = HashStore()
    join_static(store, replace(member(0, 1), restarts=True), 5.0, frozen_s=1.0)
    enter_bytes(store, 1, told.encode())
    what = "instead of the record of a worker" if told else "which has no rank 0"
    with pytest.raises(RpcError, match=what):
        join_static(store, replace(member(0, 1), incarnation=7, restarts=True), 5.0, frozen_s=1.0)


@pytest.mark.parametrize("other", [{"rank": 2}, {"name": "w7", "rank": 3}])
def test_the_record_of_another_than_was_looked_up_is_refused(other: dict[str, Any]) -> None:
    store = HashStore()
    enter_bytes(store, 0, replace(member(0, 0), **other).encode())
    with pytest.raises(RpcError, match=r"the store holds 'w\d' .* as the record of 0"):
        Group(store, member(1, 0)).find(0)


@pytest.mark.parametrize("address", ["", "somewhere", "tcp://127.0.0.1:99999", "tcp://:x"])
def test_an_address_that_is_none_is_named_to_who_comes_back(address: str) -> None:
    earlier = replace(member(1, 0), addresses={"uv": address}, boot_id="another")
    with pytest.raises(RpcError, match="a worker's address in the store is invalid"):
        is_over(earlier, member(1, 0), 1.0)


def test_a_host_whose_name_is_known_no_more_has_the_time_that_silence_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def knows_nobody(address: str) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(attempt, "Attempt", knows_nobody)
    earlier = replace(member(1, 0), boot_id="another")
    began = time.monotonic()
    assert is_over(earlier, member(1, 0), 0.2)
    assert time.monotonic() - began >= 0.2


# ---- lost workers that may rejoin, or may not ---------------------------------------------------


def join_with_restarts_at_rank_0_alone() -> str:
    rank = int(os.environ["RANK"])
    options = rpc.TensorPipeRpcBackendOptions(restarts=rank == 0, init_timeout=20.0)
    try:
        rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    except RpcError as error:
        return str(error)
    rpc.shutdown()
    return "joined"


@pytest.mark.one_in(8)
def test_workers_of_which_some_take_lives_back_disagree() -> None:
    text = "the workers disagree on restarts: 'w0' has True, 'w1' has False"
    assert run_group(join_with_restarts_at_rank_0_alone, 2) == [text, text]


# ---- two versions of fastdist --------------------------------------------------------------------

REMEDY = "install the same fastdist on all machines of the job"


@pytest.mark.parametrize(
    ("what", "theirs"), [("version", "9.9.0"), ("wire_version", 99)], ids=["version", "wire"]
)
def test_static_group_of_two_versions_is_refused_with_both(what: str, theirs: Any) -> None:
    store = HashStore()
    other = replace(member(1, 2), **{what: theirs})
    mine = getattr(member(0, 2), what)
    with ThreadPoolExecutor(2) as pool:
        found = [pool.submit(join_static, store, one, 5.0) for one in (member(0, 2), other)]
        texts = {str(one.exception()) for one in found}
    assert texts == {
        f"the workers disagree on {what}: 'w0' has {mine!r}, 'w1' has {theirs!r}; {REMEDY}"
    }


def test_record_with_fields_of_another_version_is_refused_with_both() -> None:
    theirs = json.loads(member(1, 2).encode())
    theirs.update(version="9.9.0", colour="red")
    with pytest.raises(RpcError) as refused:
        Record.decode(json.dumps(theirs).encode())
    assert str(refused.value) == (
        f"worker 'w1' has fastdist 9.9.0, this worker has {fastdist.__version__}; {REMEDY}"
    )


@pytest.mark.parametrize("theirs", [b"{}", b'{"version": 7}', b"[1]"])
def test_record_without_a_version_is_refused_as_rubbish(theirs: bytes) -> None:
    with pytest.raises(RpcError, match="instead of the record of a worker"):
        Record.decode(theirs)


def test_newcomer_of_another_version_leaves_a_dynamic_group_as_it_was() -> None:
    store = HashStore()
    group = join_dynamic(store, member(0, 0))
    with pytest.raises(RpcError) as refused:
        join_dynamic(store, replace(member(1, 0), version="9.9.0"))
    mine = member(0, 0)
    assert str(refused.value) == (
        f"the group has fastdist {mine.version}, wire version {mine.wire_version}; worker 'w1' has "
        f"9.9.0, wire version {mine.wire_version}; {REMEDY}"
    )
    assert [one.name for one in present(store)] == ["w0"]
    assert group.me.name == "w0"


# ---- a former life that lives, and does not answer -----------------------------------------------


def come_back(store: HashStore, world_size: int, answers: Callable[[Record], bool]) -> Group:
    """Join as a second w0 while the process of the first one (this process) is alive."""
    first = replace(member(0, world_size), restarts=bool(world_size))
    again = replace(first, incarnation=7)
    if world_size:
        join_static(store, first, 5.0, frozen_s=1.0)
        return join_static(store, again, 5.0, 1.0, answers)
    join_dynamic(store, first)
    return join_dynamic(store, again, 1.0, answers)


@pytest.mark.parametrize("world_size", [1, 0], ids=["static", "dynamic"])
def test_one_that_is_silent_leaves_its_place_when_a_member_has_given_it_up(world_size: int) -> None:
    store = HashStore()
    asked: list[int] = []

    def answers(first: Record) -> bool:
        asked.append(first.incarnation)
        if len(asked) == 2:
            Group(store, member(1, world_size)).tell_given_up(first, "no sign of life")
        return False

    group = come_back(store, world_size, answers)
    assert asked == [100, 100]
    assert [one.incarnation for one in group.read_members()] == [7]


@pytest.mark.parametrize("world_size", [1, 0], ids=["static", "dynamic"])
@pytest.mark.parametrize("was_given_up", [True, False])
def test_one_that_wakes_and_answers_keeps_its_place(world_size: int, was_given_up: bool) -> None:
    store = HashStore()
    asked: list[int] = []

    def answers(first: Record) -> bool:
        asked.append(first.incarnation)
        is_awake = len(asked) == 2 or was_given_up
        if was_given_up:
            Group(store, member(1, world_size)).tell_given_up(first, "it is who was cut off")
        return is_awake

    with pytest.raises((RpcError, RankTakenError), match=r"rank 0 (is taken|is not unique)"):
        come_back(store, world_size, answers)
    assert len(asked) == 2 - was_given_up


@pytest.mark.parametrize("world_size", [1, 0], ids=["static", "dynamic"])
def test_one_that_is_silent_and_given_up_by_nobody_keeps_its_place(world_size: int) -> None:
    store = HashStore()
    store.set_timeout(0.3)
    with pytest.raises((RpcError, RankTakenError), match=r"rank 0 (is taken|is not unique)"):
        come_back(store, world_size, lambda first: False)


# ---- an empty store on another host --------------------------------------------------------------


def alive(rank: int, incarnation: int, world_size: int = 2) -> Record:
    return replace(member(rank, world_size), incarnation=incarnation, restarts=bool(world_size))


def ended(world_size: int) -> Record:
    """Return the record of a worker of rank 0 whose process has ended."""
    return replace(alive(0, 1, world_size), process_start=1)


def incarnations(group: Group) -> list[int]:
    return [one.incarnation for one in group.read_members()]


def test_all_tell_a_store_of_a_static_group_though_one_knew_an_earlier_life_of_another() -> None:
    gone, first, again, other = ended(3), alive(1, 2, 3), alive(1, 3, 3), alive(2, 4, 3)
    store = HashStore()
    knows_the_first = Group(store, other, [gone, first, other], restarts=True)
    for _ in range(2):
        be_in_again(store, knows_the_first, [gone])
    assert incarnations(knows_the_first) == [1, 2, 4]
    knows_itself = Group(store, again, [gone, first, other], restarts=True)
    be_in_again(store, knows_itself, [gone])
    assert incarnations(knows_the_first) == incarnations(knows_itself) == [1, 3, 4]
    # Rank 0 comes back: alone it could only create an empty store.
    back = join_static(store, alive(0, 9, 3), 5.0, 1.0, lambda earlier: True)
    assert incarnations(back) == incarnations(knows_itself) == [9, 3, 4]


def test_who_was_followed_does_not_tell_a_store_that_knows_so() -> None:
    store = HashStore()
    group = Group(store, alive(1, 2), [alive(0, 1), alive(1, 2)], restarts=True)
    be_in_again(store, group, [])
    assert StoreDirectory(store).claim(alive(1, 3), alive(1, 2))[0] is None
    be_in_again(store, group, [])
    assert incarnations(group) == [1, 3]


def test_who_came_back_and_was_followed_does_not_take_its_place_again() -> None:
    store = HashStore()
    group = Group(store, alive(1, 3), [alive(0, 1), alive(1, 2)], restarts=True)
    be_in_again(store, group, [])
    assert incarnations(group) == [1, 3]
    assert StoreDirectory(store).claim(alive(1, 5), alive(1, 3))[0] is None
    be_in_again(store, group, [])
    assert incarnations(group) == [1, 5]


def test_all_tell_a_store_of_a_dynamic_group_and_who_was_lost_is_back_in_it() -> None:
    store = HashStore()
    for incarnation in (2, 4):
        me = alive(incarnation // 2, incarnation, 0)
        for _ in range(2):
            be_in_again(store, Group(store, me), [ended(0)])
    back = join_dynamic(store, alive(0, 9, 0))
    assert back.came_back and incarnations(back) == [9, 2, 4]


def test_who_hosts_a_store_anew_waits_for_nobody_once_it_is_told_of_its_group() -> None:
    store, others = HashStore(), [ended(2), alive(1, 2)]
    group = Group(store, others[1], others, restarts=True)
    with ThreadPoolExecutor(1) as threads:
        back = threads.submit(join_static, store, alive(0, 9), 30.0, 1.0, lambda earlier: True)
        while not store.num_keys():
            pass  # until rank 0 has registered and waits
        be_in_again(store, group, [others[0]])
        assert incarnations(back.result(20.0)) == [9, 2]
    assert incarnations(group) == [9, 2]
