"""Samplers: the order of indices, the shares of ranks, and batches of indices."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from fastdist.data import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from fastdist.random_numbers.generator import Generator


def seeded(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


def test_sequential_goes_from_first_to_last() -> None:
    assert list(SequentialSampler("abc")) == [0, 1, 2]


def test_random_yields_each_index_once_in_an_order_of_its_seed() -> None:
    orders = [list(RandomSampler(range(20), generator=seeded(1))) for _ in range(2)]
    assert orders[0] == orders[1] != list(range(20))
    assert sorted(orders[0]) == list(range(20))


def test_random_takes_another_order_each_time() -> None:
    sampler = RandomSampler(range(20), generator=seeded())
    assert list(sampler) != list(sampler)


def test_random_may_yield_more_or_fewer_than_there_are() -> None:
    assert len(set(RandomSampler(range(20), num_samples=5, generator=seeded()))) == 5
    counts = Counter(RandomSampler(range(4), num_samples=10, generator=seeded()))
    assert sorted(counts.values()) == [2, 2, 3, 3]
    drawn = list(RandomSampler(range(4), replacement=True, num_samples=100, generator=seeded()))
    assert set(drawn) == {0, 1, 2, 3}


def test_a_subset_is_shuffled() -> None:
    assert sorted(SubsetRandomSampler([5, 7, 9], seeded())) == [5, 7, 9]


def test_weights_decide_how_often_an_index_comes() -> None:
    counts = Counter(WeightedRandomSampler([1.0, 0.0, 3.0], 4000, generator=seeded()))
    assert counts[1] == 0
    assert 2800 < counts[2] < 3200


def test_without_replacement_each_index_comes_once_heavy_ones_early() -> None:
    firsts = Counter(
        next(iter(WeightedRandomSampler([1.0, 0.0, 3.0], 2, replacement=False, generator=g)))
        for g in map(seeded, range(400))
    )
    assert 260 < firsts[2] < 340
    drawn = WeightedRandomSampler([1.0, 0.0, 3.0], 2, replacement=False, generator=seeded())
    assert sorted(drawn) == [0, 2]


@pytest.mark.parametrize(
    ("drop_last", "expected"), [(False, [[0, 1], [2, 3], [4]]), (True, [[0, 1], [2, 3]])]
)
def test_batches_of_indices(drop_last: bool, expected: list[list[int]]) -> None:
    sampler = BatchSampler(SequentialSampler(range(5)), 2, drop_last)
    assert list(sampler) == expected
    assert len(sampler) == len(expected)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BatchSampler([], 0, False), "batch_size should be a positive integer value"),
        (lambda: BatchSampler([], 1, 1), "drop_last should be a boolean value"),
        (lambda: RandomSampler([1], num_samples=0), "num_samples should be a positive integer"),
        (lambda: WeightedRandomSampler([-1.0], 1), "weights should be a 1d sequence"),
        (lambda: WeightedRandomSampler([1.0], 0), "num_samples should be a positive integer"),
        (lambda: WeightedRandomSampler([1.0, 0.0], 2, replacement=False), "only 1 weights are"),
    ],
)
def test_what_makes_no_sense_is_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_samples_with_replacement_are_drawn_as_they_are_asked_for() -> None:
    endless = RandomSampler(range(9), True, 10**10, seeded(3))
    first = [index for index, _ in zip(endless, range(100), strict=False)]
    some = RandomSampler(range(9), True, 100, seeded(3))
    assert first == list(some) and set(first) == {*range(9)}


def shares(count: int, replicas: int, **options: Any) -> list[list[int]]:
    return [
        list(DistributedSampler(range(count), replicas, rank, **options))
        for rank in range(replicas)
    ]


def test_shares_take_turns_and_are_filled_up_from_the_beginning() -> None:
    assert shares(7, 3, shuffle=False) == [[0, 3, 6], [1, 4, 0], [2, 5, 1]]
    assert shares(1, 3, shuffle=False) == [[0], [0], [0]]
    assert shares(8, 3, shuffle=False, drop_last=True) == [[0, 3], [1, 4], [2, 5]]
    sampler = DistributedSampler(range(8), 3, 0, drop_last=True)
    assert (len(sampler), sampler.num_samples, sampler.total_size) == (2, 2, 6)


def test_shares_of_a_shuffled_order_part_it_and_change_with_the_epoch() -> None:
    first, second = shares(20, 2), shares(20, 2, seed=1)
    assert sorted(first[0] + first[1]) == list(range(20)) != first[0] + first[1]
    sampler = DistributedSampler(range(20), 2, 0)
    sampler.set_epoch(1)
    assert list(sampler) == second[0] != first[0]


def test_a_share_is_told_by_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match="num_replicas was not passed, and the job's variable"):
        DistributedSampler(range(4))
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    assert list(DistributedSampler(range(4), shuffle=False)) == [1, 3]
    with pytest.raises(
        ValueError, match=r"^Invalid rank 2, rank should be in the interval \[0, 1\]"
    ):
        DistributedSampler(range(4), rank=2)


def test_names_stand_where_pytorchs_programs_look() -> None:
    from fastdist import data
    from fastdist.utils.data import _utils, distributed

    assert distributed.DistributedSampler is data.DistributedSampler
    assert _utils.collate.default_convert is data.default_convert
    assert _utils.worker.get_worker_info is data.get_worker_info
