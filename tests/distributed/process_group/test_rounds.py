"""Rounds of init_process_group: the members that meet after some were restarted or gave up."""

from __future__ import annotations

from datetime import timedelta

import pytest

from fastdist.core.errors import CollectiveLostError, StoreTimeoutError
from fastdist.distributed.process_group.rounds import begin_round
from fastdist.distributed.store import HashStore, PrefixStore


def test_members_that_begin_once_each_meet_in_the_first_round_and_then_in_the_second() -> None:
    store = HashStore()
    assert [begin_round(store, rank).number for rank in (0, 1, 0, 1)] == [0, 0, 1, 1]


def test_a_member_that_begins_again_takes_the_others_with_it() -> None:
    store = HashStore()
    first = begin_round(store, 0)
    assert begin_round(store, 1).number == 0 and not first.is_over()
    # Member 1 was killed in that round and restarted.
    assert begin_round(store, 1).number == 1
    assert first.is_over()
    assert begin_round(store, 0).number == 1


def test_a_member_goes_on_to_the_latest_round_and_counts_on_from_there() -> None:
    store = HashStore()
    begin_round(store, 0)
    assert [begin_round(store, 1).number for _ in range(4)] == [0, 1, 2, 3]
    # Member 0 was in round 0 only; the next round that it begins is the latest one.
    assert [begin_round(store, 0).number for _ in range(2)] == [3, 4]


def test_who_waits_in_a_round_that_is_over_learns_which_member_has_given_it_up() -> None:
    store = HashStore()
    place = PrefixStore("gloo", begin_round(store, 0))
    with pytest.raises(StoreTimeoutError, match=r"1 of 2 ranks did not join within 0\.01 s: 1"):
        place.join("members", 0, b"", 2, timedelta(seconds=0.01))
    for _ in range(2):
        begin_round(store, 1)
    with pytest.raises(CollectiveLostError, match="rank 1 does not come: it has begun to make its"):
        place.join("members", 0, b"", 2, timedelta(seconds=0.01))


def test_something_else_in_the_store_is_an_error_that_shows_it() -> None:
    store = HashStore()
    store.set("process_group.latest", "first")
    with pytest.raises(CollectiveLostError, match=r"process_group\.latest of the store is first"):
        begin_round(store, 0)
