"""Samplers: orders, shares, batches."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from fastdist.core.generator import Generator
from fastdist.data import (
    BatchSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)


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
