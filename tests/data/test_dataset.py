"""Datasets: rows, parts, joined ones."""

from __future__ import annotations

import pytest

import fastdist
from fastdist.core.generator import Generator
from fastdist.data import (
    ConcatDataset,
    Dataset,
    IterableDataset,
    Subset,
    TensorDataset,
    random_split,
)


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
