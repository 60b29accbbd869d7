"""Joining: several groups, RPC in the same job, disagreement, forks, and missing members."""

from __future__ import annotations

import dataclasses
import logging
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from fastdist.core.errors import (
    CollectiveError,
    CollectiveLostError,
    RankTakenError,
    StoreTimeoutError,
)
from fastdist.distributed import rpc
from fastdist.distributed.links import between, connect, futex, hub, joining, wire
from fastdist.distributed.links.members import Record
from fastdist.distributed.sockets import NoSecurity, free_port
from fastdist.distributed.store import HashStore, PrefixStore, TCPStore
from tests.distributed.links.members import DEADLINE_S, Member, together
from tests.distributed.links.processes import descriptors
from tests.distributed.workers import run_group


def in_threads(size: int, function: Callable[[int], Any]) -> list[Any]:
    """Run `function(rank)` in one thread per rank; return its results or exceptions."""
    results: list[Any] = [None] * size

    def run(rank: int) -> None:
        try:
            results[rank] = function(rank)
        except Exception as error:
            results[rank] = error

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_groups_of_one_process_share_its_connections_and_do_not_mix() -> None:
    store = HashStore()

    def live(rank: int) -> tuple[int, int, bool]:
        whole = connect(PrefixStore("whole", store), rank, 3, 20.0, machine=str(rank))
        ends = [0, 2]
        found = np.full(2, rank)
        mine = hub.find_hub(rank)
        if rank in ends:
            part = connect(
                PrefixStore("part", store), ends.index(rank), 2, 20.0, ranks=ends, world_size=3
            )
            assert hub.find_hub(rank) is mine
            part.all_reduce(Member(part).call(), found, "sum")
            part.close()
        assert hub.find_hub(rank) is mine
        total = np.full(1, rank)
        whole.all_reduce(Member(whole).call(), total, "sum")
        whole.close()
        return int(found[0]), int(total[0]), hub.find_hub(rank) is None

    assert in_threads(3, live) == [(2, 3, True), (1, 3, True), (2, 3, True)]


def test_those_that_do_not_come_are_named() -> None:
    store = HashStore()
    before = set(threading.enumerate())
    with pytest.raises(StoreTimeoutError) as raised:
        connect(store, 0, 3, 0.05)
    assert raised.value.missing == ("1", "2")
    assert not [one for one in set(threading.enumerate()) - before if "links" in one.name]


def test_members_of_other_versions_or_ranks_are_refused_on_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    encode = Record.encode

    def encode_older(record: Record) -> bytes:
        return encode(dataclasses.replace(record, version="0.1" if record.rank else "0.2"))

    with monkeypatch.context() as patch:
        patch.setattr(Record, "encode", encode_older)
        store = HashStore()
        for error in in_threads(2, lambda rank: connect(store, rank, 2, 5.0)):
            assert isinstance(error, CollectiveError)
            assert "rank 0 has fastdist 0.2, rank 1 0.1" in str(error)
    other = HashStore()
    for error in in_threads(2, lambda rank: connect(other, rank, 2, 5.0, ranks=[0, 1 + rank])):
        assert isinstance(error, CollectiveError | ValueError)


def test_members_that_make_groups_in_another_order_are_named() -> None:
    store = HashStore()

    def live(rank: int) -> None:
        # Ranks 0 and 1 use the same group name as ranks 1 and 2.
        ranks, place = ([0, 1], 0) if rank == 0 else ([1, 2], rank - 1)
        connect(store, place, 2, 5.0, ranks=ranks, world_size=3)

    errors = in_threads(2, live)
    for error in errors:
        assert type(error) is CollectiveError and str(error) == str(errors[0])
    text = str(errors[0])
    assert re.search(r"rank 0 \(pid .*\), whose group has the ranks 0 to 1", text)
    assert re.search(r"rank 1 \(pid .*\), whose group has the ranks 1 to 2", text)
    assert "both claim place 0 of one group" in text and "in the same order" in text


def test_a_rank_that_two_processes_have_is_reported_as_before() -> None:
    store = HashStore()
    errors = in_threads(2, lambda _: connect(store, 0, 2, 5.0))
    assert {type(error) for error in errors} == {RankTakenError}
    assert all("rank 0 of 2 joined twice" in str(error) for error in errors)


def test_long_lists_of_ranks_are_compared_by_a_digest() -> None:
    even = joining._joined(range(0, 4000, 2))
    assert len(even) < 500 and even.startswith("0, 2, 4") and "2000 ranks, digest" in even
    assert even != joining._joined([*range(0, 3998, 2), 3999])
    assert joining._joined([3, 5]) == "3, 5" and joining._joined(range(7, 9000)) == "7 to 8999"


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b'{"rank": 1}', b"\xff", b'{"rank": true}', b"null"],
    ids=repr,
)
def test_what_is_no_record_is_refused(data: bytes) -> None:
    with pytest.raises(CollectiveError, match="record"):
        Record.decode(data)


def test_records_survive_the_store_and_forged_ones_do_not() -> None:
    record = Record(1, 2, 3, {"uv": "tcp://h:1"}, "curve", "0 to 1", "encrypted", "aes-256-gcm", "")
    assert Record.decode(record.encode()) == record
    for part in ("rank", "addresses", "host", "pid", "boot_id"):
        forged = dataclasses.replace(record, **{part: 1.5})
        with pytest.raises(CollectiveError, match=part):
            Record.decode(forged.encode())
    forged = dataclasses.replace(record, addresses={"uv": 3})
    with pytest.raises(CollectiveError, match="addresses"):
        Record.decode(forged.encode())


def test_a_machine_whose_memory_cannot_be_mapped_uses_sockets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> object:
        raise joining.SegmentError("no memory here")

    monkeypatch.setattr(joining.segments, "open_other", fail)

    def play(member: Member) -> int:
        array = np.full(100_000, member.rank)
        member.transport.all_reduce(member.call(), array, "sum")
        return member.transport._meeting.machine.count

    assert together("aab", play) == [1, 1, 1]


def test_members_that_share_no_memory_need_no_futexes(monkeypatch: pytest.MonkeyPatch) -> None:
    """On processors other than x86, fastdist does not know the number of the futex system call."""

    def refuse(*_: object) -> None:
        raise AssertionError("there are no futexes")

    monkeypatch.setattr(futex, "wake", refuse)
    monkeypatch.setattr(futex, "wait", refuse)

    def play(member: Member) -> None:
        array = np.full(3, member.rank)
        member.transport.all_reduce(member.call(), array, "sum")
        assert (array == 1).all()
        member.transport.abort(CollectiveError("it ends"))
        with pytest.raises(CollectiveError, match="it ends"):
            member.transport.barrier(member.call())

    together("ab", play)


def test_a_notice_waits_for_no_thread_that_sends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(between, "_NOTICE_S", 0.01)

    def play(member: Member) -> None:
        transport = member.transport
        if member.rank == 0:
            peer = transport._hub._peers[transport._members.records[1].incarnation]
            with peer.lock:
                assert not transport._post.notify(1, wire.BYE_SEEN)
            assert transport._post.notify(1, wire.BYE_SEEN)
        transport.barrier(member.call())

    together("ab", play)


def test_transports_without_shared_memory_are_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    def play(member: Member) -> int:
        member.transport.barrier(member.call())
        return member.transport._meeting.machine.count

    assert together("aa", play) == [2, 2]
    for name, value in (("FASTDIST_TRANSPORTS", "uv"), ("FASTDIST_CHANNELS", "basic")):
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            assert together("aa", play) == [1, 1]


def test_a_forked_child_refuses_and_leaves_its_parent_alone() -> None:
    def play(member: Member) -> None:
        if member.rank == 0:
            read, write = os.pipe()
            child = os.fork()
            if child == 0:
                try:
                    member.transport.barrier(member.call())
                    text = "no error"
                except CollectiveError as error:
                    text = str(error)
                member.transport.close()
                os.write(write, text.encode())
                os._exit(0)
            os.close(write)
            with open(read, "rb") as pipe:
                text = pipe.read().decode()
            assert os.waitpid(child, 0)[1] == 0
            assert (
                f"this group belongs to process {os.getpid()}, which forked process {child}" in text
            )
        member.transport.barrier(member.call())

    together("aa", play)


def test_a_warning_names_those_that_are_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    was_named = threading.Event()

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "the main thread of rank 1 (pid " in record.getMessage():
                was_named.set()

    def play(member: Member) -> None:
        if member.rank == 1:
            assert was_named.wait(DEADLINE_S / 2)
        member.transport.all_reduce(member.call("all_reduce"), np.ones(2), "sum")

    listener, logger = Listener(), logging.getLogger("fastdist.distributed.links")
    logger.addHandler(listener)
    try:
        with caplog.at_level(logging.WARNING):
            together("aaa", play, notice_s=0.03)
    finally:
        logger.removeHandler(listener)
    stacks = [one for one in caplog.messages if "the main thread of rank 1 (pid " in one]
    assert "in test_a_warning_names_those_that_are_waited_for" in stacks[0]
    # On a busy machine another member may be late as well.
    warning = r"all_reduce at program[02]\.py:1 has waited \d\S* s for .*rank 1 \(pid "
    assert any(re.match(warning, one) for one in caplog.messages)


@pytest.mark.parametrize(
    ("rank", "size", "ranks"),
    [(-1, 2, None), (2, 2, None), (0, 2, [0]), (0, 2, [0, 1, 2]), (0, 2, [5, 5])],
)
def test_ranks_that_no_group_has_are_refused(rank: int, size: int, ranks: list[int] | None) -> None:
    shown = f"rank {rank} of a group of {size} with ranks "
    with pytest.raises(ValueError, match=shown) as raised:
        connect(HashStore(), rank, size, 0.01, ranks=ranks)
    assert str(raised.value) == shown + str(tuple(ranks or range(size)))


def test_members_publish_their_global_ranks_as_one_text() -> None:
    assert joining._joined([3]) == "3 to 3"
    assert joining._joined([0, 1, 2]) == "0 to 2" and joining._joined([4, 5]) == "4 to 5"
    assert joining._joined([0, 2]) == "0, 2" and joining._joined([2, 1, 0]) == "2, 1, 0"


@pytest.mark.parametrize(
    ("what", "part"),
    [
        ("fastdist", "version"),
        ("security", "security"),
        ("a group of ranks", "ranks"),
        ("bulk connections", "bulk"),
    ],
)
def test_what_members_must_have_alike_is_named(what: str, part: str) -> None:
    first = Record(4, 2, 3, {}, "curve", "0 to 1", "encrypted", "", "", version="1")
    joining._require_agreement([first, first])
    other = dataclasses.replace(first, rank=9, **{part: ""})
    with pytest.raises(CollectiveError) as raised:
        joining._require_agreement([first, first, other])
    mine, theirs = getattr(first, part), "none" if part == "bulk" else ""
    assert str(raised.value) == (
        f"rank 4 has {what} {mine}, rank 9 {theirs}: all members of a group must have the same"
    )


@pytest.mark.parametrize("offer", [b"", b"[1]", b"[1, 2, 3]", b"3", b"[1, 2.0]", b"[true, 1]"])
def test_what_is_no_offer_of_memory_is_refused(offer: bytes) -> None:
    with pytest.raises(CollectiveError, match="not the memory of a member"):
        joining._numbers_of(offer)
    assert joining._numbers_of(b"[3, 77]") == (3, 77)


@pytest.mark.parametrize(
    ("transports", "channels", "why"),
    [
        ("uv", "", "FASTDIST_TRANSPORTS does not have shm"),
        ("uv,shm", "", ""),
        ("", "basic", "FASTDIST_CHANNELS is basic"),
        ("", "basic,cma", ""),
        ("", "", ""),
    ],
)
def test_why_members_share_no_memory(
    monkeypatch: pytest.MonkeyPatch, transports: str, channels: str, why: str
) -> None:
    for name, value in (("FASTDIST_TRANSPORTS", transports), ("FASTDIST_CHANNELS", channels)):
        monkeypatch.delenv(name, raising=False)
        if value:
            monkeypatch.setenv(name, value)
    monkeypatch.setattr(joining.segments, "why_not_viable", lambda: None)
    assert joining._why_no_memory() == why
    if not why:
        monkeypatch.setattr(joining.segments, "why_not_viable", lambda: "no fence")
        assert joining._why_no_memory() == "no fence"


def beside_rpc() -> tuple[int, int]:
    rank = int(os.environ["RANK"])
    rpc.init_rpc(f"w{rank}")
    port = int(os.environ["MASTER_PORT"])
    with TCPStore(os.environ["MASTER_ADDR"], port) as store:
        group = connect(PrefixStore("group", store), rank, 2, 20.0)
        array = np.full(50_000, rank + 1)
        group.all_reduce(Member(group).call(), array, "sum")
        called = rpc.rpc_sync(f"w{1 - rank}", pow, (2, rank))
        group.all_reduce(Member(group).call(), array, "sum")
        group.close()
    rpc.shutdown()
    return int(array[0]), called


@pytest.mark.parametrize("transports", ["", "uv"])
def test_a_group_and_rpc_in_one_job(transports: str) -> None:
    environment = {"FASTDIST_TRANSPORTS": transports} if transports else {}
    found = run_group(beside_rpc, 2, environment=environment)
    assert found == [(6, 1), (6, 2)]


def test_descriptors_are_listed() -> None:
    assert any("pipe" in one or "socket" in one or "/" in one for one in descriptors())


@pytest.fixture
def alone() -> Iterator[hub.Hub]:
    """Yield the hub of a process that is in one group over two machines."""
    found = hub.Hub(0, "127.0.0.1", NoSecurity(), frozen_s=10.0)
    try:
        yield found
    finally:
        found.detach(1)
        found.close_if_unused()


def far_record(addresses: dict[str, str]) -> Record:
    """Return the record of rank 1, on another machine."""
    return Record(
        rank=1,
        incarnation=77,
        group_id=1,
        addresses=addresses,
        security="none",
        ranks="0 to 1",
        bulk="",
        tags="",
        shares_nothing="",
        boot_id="another machine",
    )


def test_a_member_of_another_machine_that_ended_before_it_was_reached_is_noticed(
    alone: hub.Hub,
) -> None:
    alone.watch(1, far_record({"uv": f"tcp://127.0.0.1:{free_port()}"}), by_connection=True)
    with pytest.raises(CollectiveLostError, match=r"rank 1 .* was lost: nothing listens at its"):
        alone.await_connections(1, time.monotonic() + 20.0)


def test_connections_are_there_before_a_group_is(alone: hub.Hub) -> None:
    other = hub.Hub(1, "127.0.0.1", NoSecurity(), frozen_s=10.0)
    try:
        record = far_record(other.addresses)
        alone.watch(1, record, by_connection=True)
        alone.await_connections(1, time.monotonic() + 20.0)
        assert not alone._peers[77].awaits_connection()
        alone.require_there([1])
    finally:
        other.close_if_unused()


class LeftBy:
    """A group that records which ranks have left."""

    def __init__(self) -> None:
        self.ranks: list[int] = []

    def peer_left(self, peer: Record) -> None:
        self.ranks.append(peer.rank)


def test_a_process_that_has_left_all_groups_has_left_each_that_knows_it(alone: hub.Hub) -> None:
    record, groups = far_record({"uv": f"tcp://127.0.0.1:{free_port()}"}), [LeftBy() for _ in "123"]
    for number, group in enumerate(groups, 1):
        alone.attach(number, group)  # type: ignore[arg-type]
    for number in (1, 2):
        alone.watch(number, record, by_connection=False)
    assert not alone.has_only(1)
    alone.peer_left(record)
    assert [group.ranks for group in groups] == [[1], [1], []]
    alone.detach(2)
    alone.detach(3)
    assert alone.has_only(1)
