"""Exactly one of several processes that claim a name or rank of a dynamic group gets it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from fastdist.core.errors import RpcError, StoreError, StoreTimeoutError
from fastdist.distributed import rpc
from fastdist.distributed.rpc.workers.directory import StoreDirectory
from fastdist.distributed.rpc.workers.joining import join_dynamic
from fastdist.distributed.rpc.workers.record import Record
from fastdist.distributed.store import (
    FileStore,
    HashStore,
    PrefixStore,
    Store,
    TCPStore,
    host_store,
    membership,
)
from fastdist.distributed.store.requests import Op
from tests.distributed.rpc.workers.by_hand import present
from tests.distributed.workers import run_group

A, B = (
    Record(name, rank, 0, 100 + rank, {"uv": "somewhere"}, {}, "none")
    for rank, name in enumerate("ab", 1)
)


@pytest.fixture
def store() -> Store:
    return HashStore()


def member(name: str, rank: int, incarnation: int) -> Record:
    return replace(A, name=name, rank=rank, incarnation=incarnation)


# ---- what requests mean -------------------------------------------------------------------------


def test_who_finds_name_and_rank_free_enters(store: Store) -> None:
    directory = StoreDirectory(store)
    assert present(store) == []
    assert [directory.claim(record) for record in (B, A)] == [(None, 0), (None, 0)]
    assert present(store) == directory.find([1, "b"]) == [A, B]
    assert directory.find([3, "c"]) == [None, None]


@pytest.mark.parametrize("place", [("c", 1), ("a", 3), ("a", 1)])
def test_who_finds_one_of_them_taken_hears_by_whom_and_claims_nothing(
    store: Store, place: tuple[str, int]
) -> None:
    directory = StoreDirectory(store)
    directory.claim(A)
    assert directory.claim(member(*place, 103)) == (A, 0)
    directory.leave(A)
    assert present(store) == []  # a rejected claim does not take effect later


def test_what_was_left_can_be_taken_again(store: Store) -> None:
    directory = StoreDirectory(store)
    directory.claim(A)
    directory.leave(A)
    directory.leave(A)
    assert directory.claim(member("a", 1, 103)) == (None, 0)


def test_who_follows_takes_the_place_and_learns_how_many_were_lost(store: Store) -> None:
    directory = StoreDirectory(store)
    directory.claim(A)
    assert directory.claim(member("a", 1, 103), A, 1) == (None, 1)
    # Two processes claim the place of one former life; the first of them gets it.
    assert directory.claim(member("a", 1, 104), A, 1) == (member("a", 1, 103), 1)
    directory.declare_lost(replace(member("a", 1, 103), restart_count=1))
    directory.leave(member("a", 1, 103))
    assert directory.was_cut_short(1, "a") and not directory.was_cut_short(1, "b")
    assert directory.claim(member("a", 1, 105)) == (None, 2)


def test_changes_since_a_revision_are_those_alone(store: Store) -> None:
    directory = StoreDirectory(store)
    directory.claim(A)
    whole = directory.changes(0)
    assert whole.is_whole and whole.came == [A]
    assert directory.changes(whole.revision) == (whole.revision, False, [], [])
    directory.claim(B)
    directory.leave(A)
    since = directory.changes(whole.revision)
    assert (since.is_whole, since.came, since.ended) == (False, [B], [A.incarnation])
    again = member("a", 1, 103)
    directory.claim(again)
    later = directory.changes(since.revision)
    assert later.came == [again]
    # After a store was recreated on a new host, its revision may be lower than the reader's. The
    # reader then reads all members.
    assert directory.changes(later.revision + 1).is_whole


def test_a_store_keeps_of_many_that_came_and_went_the_latest_alone(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(membership, "MOST_EMPTY", 20)
    directory = StoreDirectory(store)
    directory.claim(A)
    first = directory.changes(0).revision
    for number in range(200):
        one = member(f"elastic{number}", 2 + number % 8, 1000 + number)
        directory.claim(one)
        directory.leave(one)
    (group,) = store._state._groups.values()  # type: ignore[attr-defined]
    assert len(group._changes) == len(group._changed_at) == 21 and len(group._empty) == 20
    assert directory.changes(first) == (group.revision, True, [A], [])
    recent = directory.changes(group.revision - 4)
    assert recent.ended == [1199, 1198]


@pytest.mark.parametrize("rank", ["-1", "70000", "x", ""])
def test_a_place_that_does_not_exist_is_refused(store: Store, rank: str) -> None:
    arguments = [b"g", rank.encode(), b"0", b"value", b"1", b"a", b"", b"", b"0"]
    with pytest.raises(StoreError):
        store._ask(Op.ENTER, arguments)


# ---- joining ------------------------------------------------------------------------------------


def test_who_was_killed_right_after_its_claim_is_a_member_and_found_by_all(store: Store) -> None:
    StoreDirectory(store).claim(A)
    with pytest.raises(
        RpcError, match="RPC worker name a with rank 2 is not unique: the group has"
    ):
        join_dynamic(store, member("a", 2, 102))
    assert present(store) == [A]


def test_who_leaves_in_order_takes_along_all_that_it_set_and_frees_its_place(store: Store) -> None:
    join_dynamic(store, member("w0", 0, 100))
    before = store.num_keys()
    for incarnation in (101, 102):
        record = member("a", 1, incarnation)
        join_dynamic(store, record).take_out(record)
    assert store.num_keys() == before
    join_dynamic(store, member("a", 2, 103))
    assert [one.name for one in join_dynamic(store, member("b", 1, 104)).read_members()] == [
        "w0",
        "b",
        "a",
    ]


def test_a_join_that_fails_after_the_claim_gives_it_back(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:

        def claim_and_fail(directory: StoreDirectory, me: Record) -> None:
            patch.undo()
            directory.claim(me)
            raise StoreTimeoutError("the answer did not come")

        patch.setattr(StoreDirectory, "claim", claim_and_fail)
        with pytest.raises(StoreTimeoutError):
            join_dynamic(store, member("a", 1, 101))
    assert present(store) == []
    assert join_dynamic(store, member("a", 1, 102)).me.incarnation == 102


def test_a_refused_join_leaves_the_winner_as_it_is(store: Store) -> None:
    winner = join_dynamic(store, member("a", 1, 101))
    before = store.num_keys()
    with pytest.raises(RpcError, match="is not unique"):
        join_dynamic(store, member("a", 1, 102))
    assert store.num_keys() == before and PrefixStore("names", store).get("1") == b"a"
    assert winner.read_members() == [member("a", 1, 101)]


# ---- races --------------------------------------------------------------------------------------


def open_files(folder: Path, count: int, stack: ExitStack) -> list[Store]:
    return [stack.enter_context(FileStore(str(folder / "store"))) for _ in range(count)]


def open_clients(folder: Path, count: int, stack: ExitStack) -> list[Store]:
    host, port = host_store(timeout=60)
    stack.enter_context(host)
    return [stack.enter_context(TCPStore("127.0.0.1", port, timeout=60)) for _ in range(count)]


@pytest.fixture(params=[open_files, open_clients], ids=["file", "tcp"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[Store]]:
    open_all: Callable[[Path, int, ExitStack], list[Store]] = request.param
    with ExitStack() as stack:
        yield open_all(tmp_path, 6, stack)


def race(stores: list[Store], records: list[Record], group: str) -> list[str]:
    start = threading.Barrier(len(records))

    def try_to_join(store: Store, record: Record) -> str:
        start.wait(30)
        try:
            join_dynamic(PrefixStore(group, store), record)
        except RpcError as error:
            return str(error)
        return ""

    with ThreadPoolExecutor(len(records)) as pool:
        return list(pool.map(try_to_join, stores, records))


@pytest.mark.one_in(7, each=True)
def test_of_many_who_want_one_name_and_rank_exactly_one_joins(stores: list[Store]) -> None:
    for number in range(20):
        records = [member("a", 1, 100 + place) for place in range(len(stores))]
        told = race(stores, records, f"group{number}")
        assert told.count("") == 1
        text = "RPC worker name a with rank 1 is not unique: the group has a with rank 1; give each"
        assert sum(one.startswith(text) for one in told) == len(stores) - 1
        (winner,) = present(PrefixStore(f"group{number}", stores[0]))
        assert winner == records[told.index("")]


@pytest.mark.one_in(7, each=True)
def test_names_and_ranks_are_claimed_together(stores: list[Store]) -> None:
    wanted = [("a", 1), ("a", 2), ("b", 1), ("b", 2), ("c", 1), ("a", 3)]
    for number in range(20):
        records = [member(*both, 100 + place) for place, both in enumerate(wanted)]
        told = race(stores, records, f"group{number}")
        there = present(PrefixStore(f"group{number}", stores[0]))
        assert sorted(one.incarnation for one in there) == [
            record.incarnation for record, text in zip(records, told) if not text
        ]
        names, ranks = {one.name for one in there}, {one.rank for one in there}
        assert len(names) == len(ranks) == len(there)
        for record in records:
            assert record.name in names or record.rank in ranks


def join_under_one_name(how: str, folder: str, tries: int) -> list[str]:
    answers = []
    for number in range(tries):
        where = how if how.startswith("tcp") else f"file://{folder}/store{number}"
        # Set the number of the next group, so that all processes enter the same group.
        rpc.init._init_counter = number  # type: ignore[attr-defined]
        options = rpc.TensorPipeRpcBackendOptions(init_method=where)
        with FileStore(f"{folder}/meeting") as meeting:
            meeting.join(f"start{number}", int(os.environ["RANK"]), "", 3, 60)
            try:
                rpc.init_rpc("w", rank=1, rpc_backend_options=options)
                answers.append("joined")
            except (RpcError, StoreError) as error:
                answers.append(str(error))
            meeting.join(f"end{number}", int(os.environ["RANK"]), "", 3, 60)
            if answers[-1] == "joined":
                rpc.shutdown()
    return answers


@pytest.mark.one_in(7, each=True)
@pytest.mark.parametrize("how", ["file", "tcp"])
def test_of_processes_that_want_one_name_and_rank_exactly_one_joins(
    how: str, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        if how == "tcp":
            host, port = host_store(timeout=60)
            stack.enter_context(host)
            how = f"tcp://127.0.0.1:{port}"
        answers = run_group(join_under_one_name, 3, how, str(tmp_path), 6)
    for told in zip(*answers):
        assert sorted(told)[2] == "joined"
        assert all("RPC worker name w with rank 1 is not unique" in one for one in sorted(told)[:2])
