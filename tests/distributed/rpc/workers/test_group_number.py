"""A process finds its group's number from the groups it was in and from the store."""

from __future__ import annotations

import pytest

from fastdist.core.errors import RpcError
from fastdist.distributed.rpc.workers.directory import StoreDirectory, find_number, keys_of_group
from fastdist.distributed.rpc.workers.record import Record
from fastdist.distributed.store import HashStore, Store
from tests.distributed.rpc.workers.by_hand import strike_out

NEWEST = "rpc_groups/newest"


def enter(store: Store, number: int, rank: int, incarnation: int) -> None:
    """Add a worker to the dynamic group with this number."""
    me = Record(f"w{rank}", rank, 0, incarnation, {}, {}, "none")
    assert StoreDirectory(keys_of_group(store, number)).claim(me) == (None, 0)


@pytest.mark.parametrize(("count", "expected"), [(0, 3), (3, 3), (4, 4)])
def test_the_first_group_of_a_process_is_the_newest_and_later_ones_are_counted(
    count: int, expected: int
) -> None:
    store = HashStore()
    store.set(NEWEST, "3")
    assert find_number(store, count, 1, "w1", is_static=True) == expected
    assert store.get(NEWEST) == b"%d" % expected


def test_who_is_slow_to_come_to_a_group_does_not_lead_others_back_to_it() -> None:
    store = HashStore()
    assert find_number(store, 0, 0, "w0", is_static=True) == 0
    for count in (2, 1):
        assert find_number(store, count, 0, "w0", is_static=True) == count
    assert store.get(NEWEST) == b"2"


@pytest.mark.parametrize(("end", "expected"), [(None, 2), ("was lost", 2), ("has left", 1)])
def test_in_a_dynamic_group_it_is_where_the_former_life_was_and_did_not_leave(
    end: str | None, expected: int
) -> None:
    store = HashStore()
    store.set(NEWEST, "3")
    for number in (1, 2):
        enter(store, number, 1, number)
    enter(store, 3, 2, 9)
    if end is not None:
        strike_out(keys_of_group(store, 2), 2, was_lost=end == "was lost")
    assert find_number(store, 0, 1, "w1", is_static=False) == expected
    # w2 at rank 1, and w1 at rank 2, were in none of the groups.
    assert find_number(store, 0, 1, "w2", is_static=False) == 0
    assert find_number(store, 0, 2, "w1", is_static=False) == 0


@pytest.mark.parametrize("told", ["-1", "many", "\N{SUPERSCRIPT TWO}"])
def test_a_number_that_none_of_ours_wrote_is_named(told: str) -> None:
    store = HashStore()
    store.set(NEWEST, told)
    with pytest.raises(RpcError, match="instead of the number of a group"):
        find_number(store, 0, 1, "w1", is_static=True)
