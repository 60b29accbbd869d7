"""The contract tests that every store passes, with two handles on the same dictionary."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import pytest

from fastdist.core.errors import RankTakenError, StoreError, StoreTimeoutError
from fastdist.distributed.store import (
    Change,
    FileStore,
    HashStore,
    PrefixStore,
    Store,
    TCPStore,
    connection,
    host_store,
    tcp_store,
)
from fastdist.distributed.store.requests import Answer, Op, Request
from fastdist.distributed.store.state import StoreState
from tests.standstill import Standstill


class Handles(NamedTuple):
    """Two handles on one store. A hash store has only one handle, which is used as both."""

    one: Store
    two: Store


def open_hash(folder: Path) -> Handles:
    store = HashStore()
    return Handles(store, store)


def open_file(folder: Path) -> Handles:
    return Handles(FileStore(str(folder / "store"), 2), FileStore(str(folder / "store"), 2))


def open_tcp(folder: Path) -> Handles:
    served, port = host_store()
    return Handles(TCPStore("127.0.0.1", port), served)


def open_prefix(folder: Path) -> Handles:
    served, port = host_store()
    return Handles(
        PrefixStore("inner", PrefixStore("outer", TCPStore("127.0.0.1", port))),
        PrefixStore("outer/inner", served),
    )


@pytest.fixture(params=[open_hash, open_file, open_tcp, open_prefix], ids=lambda f: f.__name__[5:])
def handles(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Handles]:
    # The contract does not say how quickly a call gives up on a store that is stuck.
    monkeypatch.setattr(connection, "_GRACE_S", 10.0)
    monkeypatch.setattr(tcp_store, "_CONNECT_TO_JOIN_S", 10.0)
    opened: Callable[[Path], Handles] = request.param
    pair = opened(tmp_path)
    for store in pair:
        store.set_timeout(10)
    yield pair
    for store in pair:
        store.close()


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool


def test_get_returns_what_another_handle_set(handles: Handles) -> None:
    handles.one.set("key", b"\0bytes\xff")
    assert handles.two.get("key") == b"\0bytes\xff"


def test_set_takes_text_and_replaces_what_was_there(handles: Handles) -> None:
    handles.one.set("key", "first")
    handles.two.set("key", "zweites \N{LATIN SMALL LETTER U WITH DIAERESIS}")
    assert handles.one.get("key").decode() == "zweites \N{LATIN SMALL LETTER U WITH DIAERESIS}"


def test_get_waits_for_a_key_that_comes_later(handles: Handles, pool: ThreadPoolExecutor) -> None:
    found = pool.submit(handles.one.get, "late")
    handles.two.set("late", "here")
    assert found.result(10) == b"here"


def test_get_names_the_key_that_did_not_come(handles: Handles) -> None:
    handles.one.set_timeout(timedelta(milliseconds=30))
    with pytest.raises(StoreTimeoutError, match=r"get: 1 of 1 keys did not appear.*absent"):
        handles.one.get("absent")


def test_wait_names_only_the_keys_that_did_not_come(handles: Handles) -> None:
    handles.one.set("here", "")
    with pytest.raises(
        StoreTimeoutError, match=r"2 of 3 keys did not appear within 0.03 s"
    ) as info:
        handles.two.wait(["gone", "here", "lost"], timedelta(seconds=0.03))
    assert "gone" in str(info.value) and "lost" in str(info.value)
    assert "here" not in str(info.value)


def test_wait_is_as_long_as_asked_and_no_longer(handles: Handles) -> None:
    with Standstill() as stood:
        started = time.monotonic()
        with pytest.raises(TimeoutError):
            handles.one.wait(["absent"], 0.1)
    waited_s = time.monotonic() - started
    assert waited_s >= 0.099 and waited_s - stood.seconds < 2


def test_wait_returns_when_the_last_key_comes(handles: Handles, pool: ThreadPoolExecutor) -> None:
    waiting = pool.submit(handles.one.wait, ["a", "b", "c"])
    for key in "cab":
        handles.two.set(key, "")
    assert waiting.result(10) is None


def test_wait_sees_that_a_key_was_deleted_while_it_waited(
    handles: Handles, pool: ThreadPoolExecutor
) -> None:
    handles.one.set("a", "1")
    waiting = pool.submit(handles.one.multi_get, ["a", "b"])
    handles.two.delete_key("a")
    handles.two.set("b", "2")
    handles.two.set("a", "3")
    assert waiting.result(10)[1] == b"2"


def test_wait_with_no_time_looks_once(handles: Handles) -> None:
    handles.one.set("here", "")
    handles.two.wait(["here"], 0)
    with pytest.raises(StoreTimeoutError):
        handles.two.wait(["absent"], 0)


def test_add_counts_and_begins_at_zero(handles: Handles) -> None:
    assert [handles.one.add("n", 5), handles.two.add("n", -7), handles.one.add("n", 0)] == [
        5,
        -2,
        -2,
    ]
    assert handles.two.get("n") == b"-2"


@pytest.mark.one_in(2)
def test_add_from_many_threads_loses_nothing(handles: Handles, pool: ThreadPoolExecutor) -> None:
    jobs = [pool.submit(handles[i % 2].add, "n", 1) for i in range(100)]
    assert sorted(job.result(10) for job in jobs) == list(range(1, 101))


def test_add_refuses_a_value_that_is_no_number(handles: Handles) -> None:
    handles.one.set("word", "abc")
    with pytest.raises(StoreError, match=r"add: .*word' holds b'abc', not a number"):
        handles.two.add("word", 1)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("held", "expected", "returned", "holds"),
    [
        (None, "", b"new", b"new"),
        (None, "old", b"old", None),
        ("old", "old", b"new", b"new"),
        ("old", "other", b"old", b"old"),
        ("old", "", b"old", b"old"),
    ],
)
def test_compare_set_sets_only_what_was_expected(
    handles: Handles, held: str | None, expected: str, returned: bytes, holds: bytes | None
) -> None:
    if held is not None:
        handles.one.set("key", held)
    assert handles.two.compare_set("key", expected, "new") == returned
    assert handles.one.check(["key"]) == (holds is not None)
    assert holds is None or handles.one.get("key") == holds


def test_compare_set_has_one_winner(handles: Handles, pool: ThreadPoolExecutor) -> None:
    jobs = [pool.submit(handles[i % 2].compare_set, "lead", "", str(i)) for i in range(16)]
    assert len({job.result(10) for job in jobs} - {b""}) == 1


def test_delete_key_tells_whether_it_was_there(handles: Handles) -> None:
    handles.one.set("key", "")
    assert [handles.two.delete_key("key"), handles.one.delete_key("key")] == [True, False]
    assert not handles.two.check(["key"])


def test_num_keys_counts_each_key_once(handles: Handles) -> None:
    handles.one.multi_set(["a", "b"], ["", ""])
    handles.two.set("a", "again")
    assert handles.one.num_keys() == 2


def test_append_makes_and_lengthens(handles: Handles) -> None:
    handles.one.append("log", "ab")
    handles.two.append("log", b"c")
    assert handles.one.get("log") == b"abc"


def test_multi_get_keeps_the_order_and_waits_for_all(
    handles: Handles, pool: ThreadPoolExecutor
) -> None:
    handles.one.multi_set(["a", "b"], ["1", "2"])
    found = pool.submit(handles.two.multi_get, ["c", "b", "a"])
    handles.one.set("c", "3")
    assert found.result(10) == [b"3", b"2", b"1"]


def test_multi_set_refuses_what_does_not_pair(handles: Handles) -> None:
    with pytest.raises(StoreError, match="2 keys and 1 values"):
        handles.one.multi_set(["a", "b"], ["1"])


def test_join_gives_all_values_in_order_to_all(handles: Handles, pool: ThreadPoolExecutor) -> None:
    jobs = [pool.submit(handles[r % 2].join, "init", r, f"value {r}", 5) for r in (4, 2, 0, 1, 3)]
    assert [job.result(10) for job in jobs] == [[b"value %d" % rank for rank in range(5)]] * 5


def test_join_names_the_ranks_that_did_not_come(handles: Handles, pool: ThreadPoolExecutor) -> None:
    jobs = [pool.submit(handles.one.join, "init", rank, "", 4, 0.1) for rank in (0, 2)]
    for job in jobs:
        with pytest.raises(
            StoreTimeoutError,
            match=r"^[23] of 4 ranks did not join.* 3;.*meet at .*, key '.*init'\)$",
        ):
            job.result(10)


def test_join_may_be_repeated_with_the_same_value(handles: Handles) -> None:
    with pytest.raises(StoreTimeoutError):
        handles.one.join("init", 0, "v0", 2, 0)
    assert handles.two.join("init", 1, "v1", 2) == [b"v0", b"v1"]
    assert handles.one.join("init", 0, "v0", 2) == [b"v0", b"v1"]


def test_join_fails_everywhere_when_two_claim_one_rank(
    handles: Handles, pool: ThreadPoolExecutor
) -> None:
    jobs = [pool.submit(handles[i % 2].join, "init", 1, f"worker {i}", 3) for i in range(2)]
    for job in jobs:
        with pytest.raises(StoreError, match="rank 1 of 3 joined twice"):
            job.result(10)
    with pytest.raises(StoreError, match="rank 1 of 3 joined twice"):
        handles.one.join("init", 0, "", 3)


def test_who_claims_a_rank_of_a_group_that_is_complete_errs_alone(handles: Handles) -> None:
    for rank in range(2):
        with suppress(StoreTimeoutError):
            handles.one.join("init", rank, f"v{rank}", 2, 0)
    with pytest.raises(RankTakenError, match="rank 1 of 2 joined twice") as told:
        handles.two.join("init", 1, "another", 2)
    assert told.value.claims == (b"v1", b"another")
    assert handles.two.join("init", 1, "v1", 2) == [b"v0", b"v1"]


def test_join_fails_everywhere_when_the_world_sizes_differ(
    handles: Handles, pool: ThreadPoolExecutor
) -> None:
    jobs = [pool.submit(handles[r].join, "init", r, "", world) for r, world in ((0, 2), (1, 3))]
    for job in jobs:
        with pytest.raises(StoreError, match="start all with the same world size"):
            job.result(10)


def test_who_has_withdrawn_may_come_with_another_value_until_all_have_come(
    handles: Handles, pool: ThreadPoolExecutor
) -> None:
    first = pool.submit(handles.two.join, "init", 0, "v0", 3, 20)
    missing = ["0"]
    while "0" in missing:
        with pytest.raises(StoreTimeoutError) as late:
            handles.one.join("init", 2, "v2", 3, 0.05)
        missing = list(late.value.missing)
    handles.one.withdraw("init", 0, 3)
    with pytest.raises(StoreError, match="rank 0 has withdrawn, and may join again"):
        first.result(20)
    with pytest.raises(StoreTimeoutError):
        handles.one.join("init", 0, "new", 3, 0)
    assert handles.two.join("init", 1, "v1", 3) == [b"new", b"v1", b"v2"]
    handles.one.withdraw("init", 0, 3)
    with pytest.raises(StoreError, match="rank 0 of 3 joined twice"):
        handles.one.join("init", 0, "newer", 3)


def test_a_group_that_is_disbanded_is_forgotten_and_one_that_waits_is_not(
    handles: Handles, pool: ThreadPoolExecutor
) -> None:
    with pytest.raises(StoreTimeoutError):
        handles.one.join("init", 0, "v0", 2, 0)
    handles.two.disband("init")
    assert handles.two.join("init", 1, "v1", 2) == [b"v0", b"v1"]
    handles.two.disband("init")
    first = pool.submit(handles.one.join, "init", 0, "again", 2, 20)
    assert handles.two.join("init", 1, "v1 again", 2) == first.result(20) == [b"again", b"v1 again"]
    handles.one.disband("nobody joined this")


@pytest.mark.parametrize(("rank", "world"), [(2, 2), (-2, 2), (0, 0)])
def test_join_refuses_a_rank_that_does_not_exist(handles: Handles, rank: int, world: int) -> None:
    with pytest.raises(StoreError, match=f"rank {rank} of {world} does not exist"):
        handles.one.join("init", rank, "", world)


def test_a_mistake_in_one_request_is_its_answer_logged_once_and_the_store_goes_on(
    handles: Handles, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def break_down(state: StoreState, request: Request, now: float) -> list[Answer]:
        raise ZeroDivisionError("nobody thought of this")

    with monkeypatch.context() as patch, caplog.at_level(logging.DEBUG, "fastdist"):
        patch.setitem(StoreState._handlers, Op.APPEND, break_down)
        for _ in range(20):
            with pytest.raises(
                StoreError, match=r"append failed .*nobody thought of this.* goes on"
            ):
                handles.one.append("key", "value")
    assert sum("nobody thought of this" in one.getMessage() for one in caplog.records) == 1
    handles.two.append("key", "later")
    assert handles.one.get("key") == b"later"


def test_a_mistake_with_one_that_waits_is_told_to_that_one_alone(
    handles: Handles,
    pool: ThreadPoolExecutor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parked, get, park = threading.Event(), StoreState._get, StoreState._park

    def tell_when_parked(state: StoreState, request: Request, now: float) -> list[Answer]:
        answers = park(state, request, now)
        parked.set()
        return answers

    def break_down(state: StoreState, request: Request, now: float) -> list[Answer]:
        if request.arguments[0].endswith(b"late"):
            raise ZeroDivisionError("nobody thought of this")
        return get(state, request, now)

    monkeypatch.setattr(StoreState, "_park", tell_when_parked)
    waiting = pool.submit(handles.one.get, "late")
    assert parked.wait(10)
    with monkeypatch.context() as patch:
        patch.setitem(StoreState._handlers, Op.GET, break_down)
        handles.two.set("late", "here")
        with pytest.raises(StoreError, match=r"get failed .*nobody thought of this"):
            waiting.result(10)
    assert handles.one.get("late") == b"here"


def test_watch_tells_what_is_there_then_what_changes(handles: Handles) -> None:
    handles.one.multi_set(["addr/0", "other"], ["a", "x"])
    watch = handles.one.watch("addr/")
    handles.two.set("addr/1", "b")
    handles.two.set("other", "y")
    handles.two.append("addr/0", "!")
    handles.two.delete_key("addr/1")
    changes = [watch.next(10) for _ in range(4)]
    assert changes == [
        Change("addr/0", b"a"),
        Change("addr/1", b"b"),
        Change("addr/0", b"a!"),
        Change("addr/1", None),
    ]
    assert watch.next(0) is None
    watch.close()


def test_watch_wakes_who_waits(handles: Handles, pool: ThreadPoolExecutor) -> None:
    watch = handles.one.watch("")
    change = pool.submit(watch.next)
    handles.two.set("key", "value")
    assert change.result(10) == Change("key", b"value")
    watch.close()


def test_close_ends_those_who_wait(handles: Handles, pool: ThreadPoolExecutor) -> None:
    watch = handles.one.watch("")
    started = threading.Barrier(3)

    def start(call: Callable[[], object]) -> object:
        started.wait(10)
        return call()

    waiting = [pool.submit(start, lambda: handles.one.get("never")), pool.submit(start, watch.next)]
    started.wait(10)
    handles.one.close()
    for job in waiting:
        with pytest.raises(StoreError, match=r"closed|lost"):
            job.result(10)


def test_a_closed_store_says_so(handles: Handles) -> None:
    handles.one.close()
    handles.one.close()
    with pytest.raises(StoreError, match="closed"):
        handles.one.set("key", "value")


def test_a_call_that_waits_holds_up_no_other(handles: Handles, pool: ThreadPoolExecutor) -> None:
    waiting = [pool.submit(handles.one.get, f"late {i}") for i in range(7)]
    handles.one.set("key", "value")
    assert handles.one.get("key") == b"value"
    for i, job in enumerate(waiting):
        handles.one.set(f"late {i}", str(i))
        assert job.result(10) == str(i).encode()


@pytest.mark.one_in(2)
def test_a_forked_child_is_told_why_it_cannot_use_the_store(handles: Handles) -> None:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            handles.one.set("key", "of the child")
        except StoreError as error:
            os.write(writer, str(error).encode())
        handles.one.close()
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as told:
        assert b"'spawn'" in told.read()
    os.waitpid(child, 0)
    handles.one.set("key", "of the parent")
    assert handles.two.get("key") == b"of the parent"


def test_empty_and_large_values_come_back_whole(handles: Handles) -> None:
    large = bytes(range(256)) * 8192
    handles.one.multi_set(["empty", "large", ""], ["", large, "no name"])
    assert handles.two.multi_get(["empty", "large", ""]) == [b"", large, b"no name"]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda store: store.set("key", 3), "value is 3; expected text or bytes"),
        (lambda store: store.get(7), "key is 7; expected text"),
        (lambda store: store.wait(["key"], -1), "timeout is -1 s; expected 0 or more"),
        (lambda store: store.set_timeout("1"), "timeout is '1'; expected a timedelta or a number"),
    ],
)
def test_wrong_arguments_are_named(
    handles: Handles, wrong: Callable[[Store], object], says: str
) -> None:
    with pytest.raises(StoreError, match=says):
        wrong(handles.one)


def test_timeout_is_kept(handles: Handles) -> None:
    handles.one.set_timeout(timedelta(seconds=7))
    assert handles.one.timeout == timedelta(seconds=7)
    assert handles.one.has_extended_api()
