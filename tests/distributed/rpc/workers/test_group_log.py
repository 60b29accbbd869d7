"""The claim: of all who want a name or a rank of a dynamic group at once, exactly one gets it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from fastdist.core.errors import RpcError, StoreError, StoreTimeoutError
from fastdist.distributed import rpc
from fastdist.distributed.rpc.workers import group_log
from fastdist.distributed.rpc.workers.group import read_members
from fastdist.distributed.rpc.workers.group_log import Entry, enter, leave, read_present
from fastdist.distributed.rpc.workers.joining import join_dynamic
from fastdist.distributed.rpc.workers.record import Record
from fastdist.distributed.store import (
    FileStore,
    HashStore,
    PrefixStore,
    Store,
    TCPStore,
    host_store,
)
from tests.distributed.workers import run_group

A, B = Entry(101, 1, "a"), Entry(102, 2, "b")


@pytest.fixture
def store() -> Store:
    return HashStore()


def member(name: str, rank: int, incarnation: int) -> Record:
    return Record(name, rank, 0, incarnation, {"uv": "somewhere"}, {}, "none")


# ---- what lines mean ----------------------------------------------------------------------------


def test_who_finds_name_and_rank_free_enters(store: Store) -> None:
    assert read_present(store) == []
    assert [enter(store, entry) for entry in (B, A)] == [None, None]
    assert read_present(store) == [A, B]


@pytest.mark.parametrize("other", [Entry(103, 1, "c"), Entry(103, 3, "a"), Entry(103, 1, "a")])
def test_who_finds_one_of_them_taken_hears_by_whom_and_claims_nothing(
    store: Store, other: Entry
) -> None:
    enter(store, A)
    assert enter(store, other) == A
    leave(store, A.incarnation, 1.0)
    assert read_present(store) == []  # what was refused once does not come back


def test_what_was_left_can_be_taken_again(store: Store) -> None:
    enter(store, A)
    leave(store, A.incarnation, 1.0)
    leave(store, A.incarnation, 1.0)
    assert enter(store, Entry(103, 1, "a")) is None


def test_who_was_refused_by_one_that_left_meanwhile_enters_after_all(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    enter(store, A)
    read, reads = group_log.read_present, []

    def read_late(store: Store) -> list[Entry]:
        if not reads:
            leave(store, A.incarnation, 1.0)
        reads.append(read(store))
        return reads[-1]

    monkeypatch.setattr(group_log, "read_present", read_late)
    again = Entry(103, 1, "a")
    assert enter(store, again) is None
    assert reads == [[], [again]]


@pytest.mark.parametrize("line", ["", "+ 1 2", "+ 1 x a", "- 1 2", "* 1 2 a", "+ 1 2 a b", "\0"])
def test_a_log_that_none_of_ours_wrote_is_named(store: Store, line: str) -> None:
    PrefixStore("group", store).append("log", line + "\n")
    with pytest.raises(RpcError, match="instead of a log of the group's members"):
        read_present(store)


# ---- joining ------------------------------------------------------------------------------------


def test_who_was_killed_before_its_claim_is_in_nobodys_way(store: Store) -> None:
    record = member("a", 1, 101)
    PrefixStore("members", store).set("101", record.encode())
    assert join_dynamic(store, member("a", 1, 102)).read_members() == [member("a", 1, 102)]


def test_who_was_killed_right_after_its_claim_is_a_member_and_found_by_all(store: Store) -> None:
    record = member("a", 1, 101)
    PrefixStore("members", store).set("101", record.encode())
    enter(store, Entry(101, 1, "a"))
    with pytest.raises(
        RpcError, match="RPC worker name a with rank 2 is not unique: the group has"
    ):
        join_dynamic(store, member("a", 2, 102))
    assert read_members(store) == [record]


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

        def append_and_fail(store: Store, key: str, value: str) -> None:
            patch.undo()
            store.append(key, value)
            raise StoreTimeoutError("the answer did not come")

        patch.setattr(PrefixStore, "append", append_and_fail)
        with pytest.raises(StoreTimeoutError):
            join_dynamic(store, member("a", 1, 101))
    assert read_members(store) == []
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


def test_of_many_who_want_one_name_and_rank_exactly_one_joins(stores: list[Store]) -> None:
    for number in range(20):
        records = [member("a", 1, 100 + place) for place in range(len(stores))]
        told = race(stores, records, f"group{number}")
        assert told.count("") == 1
        text = "RPC worker name a with rank 1 is not unique: the group has a with rank 1; give each"
        assert sum(one.startswith(text) for one in told) == len(stores) - 1
        (present,) = read_members(PrefixStore(f"group{number}", stores[0]))
        assert present == records[told.index("")]


def test_names_and_ranks_are_claimed_together(stores: list[Store]) -> None:
    wanted = [("a", 1), ("a", 2), ("b", 1), ("b", 2), ("c", 1), ("a", 3)]
    for number in range(20):
        records = [member(*both, 100 + place) for place, both in enumerate(wanted)]
        told = race(stores, records, f"group{number}")
        present = read_members(PrefixStore(f"group{number}", stores[0]))
        assert sorted(one.incarnation for one in present) == [
            record.incarnation for record, text in zip(records, told) if not text
        ]
        names, ranks = {one.name for one in present}, {one.rank for one in present}
        assert len(names) == len(ranks) == len(present)
        for record in records:
            assert record.name in names or record.rank in ranks


def join_under_one_name(how: str, folder: str, tries: int) -> list[str]:
    answers = []
    for number in range(tries):
        where = how if how.startswith("tcp") else f"file://{folder}/store{number}"
        # A group in the store has a number: all processes enter the same one.
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
