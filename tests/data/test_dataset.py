"""Datasets of rows, subsets and concatenations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import fastdist
from fastdist.data import (
    ChainDataset,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from fastdist.random_numbers.generator import Generator


def rows(count: int) -> TensorDataset:
    return TensorDataset(fastdist.arange(count), fastdist.arange(count) * 10)


def firsts(dataset: Dataset[tuple[fastdist.Tensor, ...]], count: int) -> list[int]:
    return [dataset[i][0].item() for i in range(count)]


def test_a_sample_is_a_row_of_each_tensor() -> None:
    dataset = rows(3)
    assert len(dataset) == 3
    assert [part.item() for part in dataset[2]] == [2, 20]


def test_tensors_of_unequal_length_are_refused() -> None:
    with pytest.raises(ValueError, match="Size mismatch between tensors"):
        TensorDataset(fastdist.zeros(2), fastdist.zeros(3))


def test_a_subset_is_in_the_order_of_its_indices() -> None:
    subset = Subset(rows(5), [4, 0])
    assert (len(subset), firsts(subset, 2)) == (2, [4, 0])


def test_joined_datasets_count_on() -> None:
    joined = rows(2) + rows(3)
    assert isinstance(joined, ConcatDataset)
    assert (len(joined), firsts(joined, 5)) == (5, [0, 1, 0, 1, 2])
    assert joined[-1][0].item() == 2
    with pytest.raises(ValueError, match="absolute value of index should not exceed"):
        joined[-6]


def test_random_split_takes_each_sample_once() -> None:
    parts = random_split(rows(10), [7, 3], Generator().manual_seed(0))
    found = [firsts(part, len(part)) for part in parts]
    assert [len(part) for part in found] == [7, 3]
    assert sorted(found[0] + found[1]) == list(range(10))
    assert found[0] != list(range(7))


def test_random_split_is_the_same_for_the_same_seed() -> None:
    first, second = (
        random_split(rows(10), [5, 5], Generator().manual_seed(3))[0].indices for _ in range(2)
    )
    assert first == second


def test_random_split_takes_fractions() -> None:
    assert [len(part) for part in random_split(rows(10), [0.5, 0.25, 0.25])] == [6, 2, 2]


@pytest.mark.parametrize("lengths", [[3, 3], [0.5, 0.4]])
def test_random_split_must_cover_the_dataset(lengths: list[float]) -> None:
    with pytest.raises(ValueError, match="Sum of input lengths does not equal"):
        random_split(rows(10), lengths)


def test_what_a_dataset_lacks_is_named() -> None:
    with pytest.raises(NotImplementedError, match="Dataset does not define __getitem__"):
        Dataset[int]()[0]
    with pytest.raises(NotImplementedError, match="IterableDataset does not define __iter__"):
        iter(IterableDataset[int]())
    with pytest.raises(ValueError, match="datasets should not be an empty iterable"):
        ConcatDataset[int]([])


def test_the_room_is_found_under_pytorch_s_name() -> None:
    from fastdist.utils.data import DataLoader, TensorDataset

    assert DataLoader is fastdist.data.DataLoader and fastdist.utils.data is not fastdist.data
    assert len(TensorDataset(fastdist.ones(3))) == 3


class Two(IterableDataset[int]):
    """Yields 1 and 2."""

    def __iter__(self) -> Iterator[int]:
        return iter((1, 2))

    def __len__(self) -> int:
        return 2


def test_iterable_datasets_come_one_behind_the_other() -> None:
    chained = Two() + Two()
    assert isinstance(chained, ChainDataset)
    assert (list(chained), len(chained)) == ([1, 2, 1, 2], 4)
    with pytest.raises(AssertionError, match=r"^ChainDataset only supports IterableDataset$"):
        list(ChainDataset([rows(2)]))


def test_stacked_datasets_give_tuples_or_dicts() -> None:
    places = range(3)
    assert StackDataset(places, [4, 5, 6])[1] == (1, 5)
    named = StackDataset(x=places, y=Subset([7, 8, 9, 10], [3, 2, 1]))  # type: ignore[arg-type]
    assert named.__getitems__([2, 0]) == [{"x": 2, "y": 8}, {"x": 0, "y": 10}]
    (batch,) = DataLoader(named, batch_size=3)
    assert (batch["x"].tolist(), batch["y"].tolist()) == ([0, 1, 2], [10, 9, 8])


def test_datasets_that_do_not_stack_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^At least one dataset should be passed$"):
        StackDataset()
    with pytest.raises(ValueError, match="but both types are given"):
        StackDataset([1], a=[1])
    with pytest.raises(
        ValueError, match=r"^Size mismatch between datasets: they are \[1, 2\] long"
    ):
        StackDataset([1], [1, 2])


class Doubled(Subset[Any]):
    """Yields twice the values of the dataset."""

    def __getitem__(self, index: Any) -> Any:
        return 2 * super().__getitem__(index)


def test_a_part_that_changes_its_samples_changes_them_in_batches_too() -> None:
    (batch,) = DataLoader(Doubled([1, 2, 3], [2, 0]), batch_size=2)  # type: ignore[arg-type]
    assert batch.tolist() == [6, 2]
