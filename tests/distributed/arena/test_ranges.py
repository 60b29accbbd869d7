"""The allocator takes the lowest free range, and merges ranges that are returned."""

from __future__ import annotations

import itertools
import random

from fastdist.distributed.arena.ranges import Ranges


def test_the_lowest_room_that_is_large_enough_is_taken() -> None:
    ranges = Ranges(10, 100)
    assert [ranges.take(20), ranges.take(30), ranges.take(20)] == [10, 30, 60]
    ranges.give_back(10, 30)
    assert ranges.take(25) is None
    assert [ranges.take(15), ranges.take(5), ranges.take(20)] == [10, 25, 80]
    assert ranges.all() == []


def test_a_piece_is_taken_only_where_it_is_free_as_a_whole() -> None:
    ranges = Ranges(0, 100)
    assert ranges.take_exactly(40, 60)
    assert not ranges.take_exactly(50, 70)
    assert not ranges.take_exactly(30, 50)
    assert ranges.take_exactly(60, 100) and ranges.take_exactly(0, 40)
    assert ranges.all() == []


def test_what_is_free_is_what_was_not_taken_whatever_the_order() -> None:
    rng = random.Random(4)
    ranges, taken = Ranges(0, 1000), dict[int, int]()
    for _ in range(5000):
        if taken and rng.random() < 0.5:
            start = rng.choice(list(taken))
            ranges.give_back(start, taken.pop(start))
        else:
            length = rng.randint(1, 60)
            start_or_none = ranges.take(length)
            if start_or_none is not None:
                taken[start_or_none] = start_or_none + length
        edges = sorted([*taken.items(), *ranges.all()])
        assert [low for low, _ in edges] == [0, *(high for _, high in edges[:-1])]
        assert edges[-1][1] == 1000
        free = ranges.all()
        assert all(high < low for (_, high), (low, _) in itertools.pairwise(free))
