"""Ready-made data pipes over iterables."""

from __future__ import annotations

import fastdist as fd
from fastdist.data.ready_pipes import Concater, IterableWrapper, Zipper


def test_pipes_are_chained() -> None:
    numbers = IterableWrapper(range(7))
    evens = numbers.filter(lambda one: one % 2 == 0).map(lambda one: one + 1)
    assert [*evens] == [1, 3, 5, 7]
    batches = numbers.batch(3)
    assert [*batches] == [[0, 1, 2], [3, 4, 5], [6]] and len(batches) == 3
    assert [*numbers.batch(3, drop_last=True)] == [[0, 1, 2], [3, 4, 5]]
    assert [*Concater(evens, numbers)][:5] == [1, 3, 5, 7, 0] and len(numbers.concat(numbers)) == 14
    assert [*Zipper(numbers, evens)][1] == (1, 3) and [*numbers.zip(evens)][3] == (3, 7)
    first = next(iter(numbers.batch(2).collate()))
    assert isinstance(first, fd.Tensor) and first.tolist() == [0, 1]


def test_a_seed_gives_the_order_and_a_buffer_bounds_it() -> None:
    numbers = IterableWrapper(list(range(20)))
    shuffled = numbers.shuffle(buffer_size=4)
    orders = [[*shuffled.set_seed(seed)] for seed in (0, 0, 1)]
    assert orders[0] == orders[1] != orders[2] and sorted(orders[2]) == [*range(20)]
    assert all(place >= one - 4 for one, place in zip(orders[0], range(20), strict=True))
    assert [*shuffled.set_shuffle(False)] == [*range(20)] and len(shuffled) == 20
