"""The claim: who is in a dynamic group is what its store said last, under present names alone."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from fastdist.distributed.rpc import membership
from fastdist.distributed.rpc.joining import join_dynamic
from fastdist.distributed.rpc.membership import Membership, Record
from fastdist.distributed.store import HashStore, PrefixStore, Store


def member(name: str, rank: int, incarnation: int) -> Record:
    return Record(name, rank, 0, incarnation, {"uv": "somewhere"}, {}, "none")


def come(store: Store, record: Record) -> None:
    PrefixStore("members", store).set(str(record.rank), record.encode())
    store.append("ever_joined", f"{record.rank},")


@pytest.fixture
def store() -> Store:
    return HashStore()


@pytest.fixture
def members(store: Store) -> Membership:
    """Be w0, who has met a, of rank 1."""
    members = join_dynamic(store, member("w0", 0, 100))
    come(store, member("a", 1, 101))
    assert members.get("a").incarnation == 101
    return members


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
    """Let something happen, once, when somebody has read the store and not yet looked at it."""
    read = membership.read_dynamic_members

    def let(happen: Callable[[], None]) -> None:
        waiting = [happen]

        def read_slowly(store: Store) -> list[Record]:
            found = read(store)
            if waiting:
                waiting.pop()()
            return found

        monkeypatch.setattr(membership, "read_dynamic_members", read_slowly)

    return let


def test_the_name_of_one_that_left_does_not_lead_to_who_took_its_rank(
    store: Store, members: Membership
) -> None:
    come(store, member("b", 1, 102))
    assert members.info_of("b").id == 1
    members.forget(1, 101)
    assert members.find("a") is None and members.find(1) is members.find("b")


def test_a_name_that_went_to_another_rank_stays_with_it(store: Store, members: Membership) -> None:
    come(store, member("b", 1, 102))
    come(store, member("a", 2, 103))
    members.all()
    members.forget(1, 101)
    assert [members.info_of(name).id for name in ("a", "b")] == [2, 1]


def test_one_that_leaves_while_the_store_is_read_does_not_come_back(
    store: Store, members: Membership, meanwhile: Callable[[Callable[[], None]], None]
) -> None:
    def leave() -> None:
        PrefixStore("members", store).delete_key("1")
        members.forget(1, 101)

    meanwhile(leave)
    assert members.find("a stranger") is None and members.known(1) is None


def test_what_was_read_early_does_not_replace_what_was_read_later(
    store: Store, members: Membership, meanwhile: Callable[[Callable[[], None]], None]
) -> None:
    other = threading.Thread(target=members.find, args=("a stranger",))

    def come_again() -> None:
        come(store, member("a", 1, 102))
        other.start()
        other.join(0.1)  # it may have to wait until this reader is done

    meanwhile(come_again)
    assert members.find("another stranger") is None
    other.join(10)
    record = members.known(1)
    assert record is not None and record.incarnation == 102
