"""DataLoader without workers: batches, order and errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import fastdist
from fastdist.data import DataLoader, Dataset, IterableDataset, TensorDataset, get_worker_info
from fastdist.random_numbers.generator import Generator


class Squares(Dataset[int]):
    """Squares of 0 ... count-1."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __getitem__(self, index: int) -> int:
        return index * index

    def __len__(self) -> int:
        return self.count


class Countdown(IterableDataset[int]):
    """Numbers from `start` down to 1."""

    def __init__(self, start: int) -> None:
        self.start = start

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.start, 0, -1))


def lists(loader: DataLoader[Any]) -> list[Any]:
    return [batch.tolist() for batch in loader]


def test_batches_come_in_order() -> None:
    loader = DataLoader(Squares(5), batch_size=2)
    assert lists(loader) == [[0, 1], [4, 9], [16]]
    assert len(loader) == 3


def test_the_last_short_batch_may_be_dropped() -> None:
    loader = DataLoader(Squares(5), batch_size=2, drop_last=True)
    assert lists(loader) == [[0, 1], [4, 9]]
    assert len(loader) == 2


def test_rows_of_tensors_are_batched() -> None:
    x, y = fastdist.arange(6).reshape(3, 2), fastdist.arange(3)
    first, second = DataLoader(TensorDataset(x, y), batch_size=2)
    assert [part.tolist() for part in first] == [[[0, 1], [2, 3]], [0, 1]]
    assert [part.tolist() for part in second] == [[[4, 5]], [2]]


def test_rows_cut_out_at_once_are_those_cut_out_one_by_one() -> None:
    class Plain(TensorDataset):
        """A subclass of TensorDataset, so DataLoader does not slice its tensors directly."""

    tensors = fastdist.arange(20).reshape(10, 2), fastdist.arange(10) / 3
    loaders = [
        DataLoader(made(*tensors), 3, shuffle=True, generator=Generator().manual_seed(5))
        for made in (TensorDataset, Plain)
    ]
    first, second = ([[x.tolist() for x in batch] for batch in loader] for loader in loaders)
    assert first == second


def test_shuffling_follows_the_generator() -> None:
    def order(seed: int) -> list[Any]:
        generator = Generator().manual_seed(seed)
        return lists(DataLoader(Squares(8), 4, shuffle=True, generator=generator))

    assert order(1) == order(1) != order(2)
    assert sorted(n for batch in order(1) for n in batch) == [n * n for n in range(8)]


def test_each_epoch_is_shuffled_anew() -> None:
    loader = DataLoader(Squares(20), 20, shuffle=True)
    assert lists(loader) != lists(loader)


def test_manual_seed_rules_loaders_without_a_generator() -> None:
    fastdist.manual_seed(4)
    first = lists(DataLoader(Squares(20), 20, shuffle=True))
    fastdist.manual_seed(4)
    assert lists(DataLoader(Squares(20), 20, shuffle=True)) == first


def test_samplers_decide_what_is_read() -> None:
    assert lists(DataLoader(Squares(5), 2, sampler=[4, 0, 1])) == [[16, 0], [1]]
    assert lists(DataLoader(Squares(5), batch_sampler=[[4], [1, 2]])) == [[16], [1, 4]]


def test_without_batch_size_samples_come_as_they_are() -> None:
    assert list(DataLoader(Squares(3), batch_size=None)) == [0, 1, 4]
    assert list(DataLoader(Squares(3), batch_size=None, collate_fn=str)) == ["0", "1", "4"]


def test_a_function_of_ones_own_makes_the_batch() -> None:
    assert list(DataLoader(Squares(4), 2, collate_fn=sum)) == [1, 13]


def test_iterable_datasets_are_read_to_their_end() -> None:
    assert lists(DataLoader(Countdown(5), 2)) == [[5, 4], [3, 2], [1]]
    assert lists(DataLoader(Countdown(5), 2, drop_last=True)) == [[5, 4], [3, 2]]
    assert list(DataLoader(Countdown(3), batch_size=None)) == [3, 2, 1]


def test_two_iterations_do_not_meet() -> None:
    loader = DataLoader(Countdown(4), 2)
    first, second = iter(loader), iter(loader)
    assert [next(first).tolist(), next(second).tolist()] == [[4, 3], [4, 3]]


def test_this_process_is_no_worker() -> None:
    assert get_worker_info() is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_workers": -1}, "num_workers option should be non-negative"),
        ({"timeout": -1}, "timeout option should be non-negative"),
        ({"prefetch_factor": 2}, "prefetch_factor option could only be specified"),
        ({"persistent_workers": True}, "persistent_workers option needs num_workers > 0"),
        ({"shuffle": True, "sampler": [1]}, "sampler option is mutually exclusive with shuffle"),
        ({"batch_size": 2, "batch_sampler": [[1]]}, "batch_sampler option is mutually exclusive"),
        ({"batch_size": None, "drop_last": True}, "batch_size=None option disables auto-batching"),
        ({"batch_size": 0}, "batch_size should be a positive integer value"),
    ],
)
def test_options_that_exclude_each_other_are_refused(options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DataLoader(Squares(3), **options)


@pytest.mark.parametrize("options", [{"shuffle": True}, {"sampler": [1]}, {"batch_sampler": [[1]]}])
def test_an_iterable_dataset_has_an_order_of_its_own(options: Any) -> None:
    with pytest.raises(ValueError, match="DataLoader with IterableDataset: expected unspecified"):
        DataLoader(Countdown(3), **options)


class Holed(Dataset[int]):
    """The numbers 0 to 5, except that the item at index 2 raises an error."""

    def __init__(self, error: type[Exception]) -> None:
        self.error = error

    def __getitem__(self, index: int) -> int:
        if index == 2:
            raise self.error
        return index

    def __len__(self) -> int:
        return 6


@pytest.mark.parametrize("error", [ValueError, StopIteration])
def test_the_batch_behind_a_sample_that_raised_comes_next(error: type[Exception]) -> None:
    batches = iter(DataLoader(Holed(error), 2))
    assert next(batches).tolist() == [0, 1]
    with pytest.raises(error):
        next(batches)
    assert [batch.tolist() for batch in batches] == [[4, 5]]


def test_the_batch_behind_one_that_could_not_be_collated_comes_next() -> None:
    def collate(samples: list[int]) -> list[int]:
        if 2 in samples:
            raise KeyError(2)
        return samples

    batches = iter(DataLoader(range(6), 2, collate_fn=collate))  # type: ignore[arg-type]
    assert len(batches) == 3 and next(batches) == [0, 1]  # type: ignore[arg-type]
    with pytest.raises(KeyError):
        next(batches)
    assert list(batches) == [[4, 5]]


def test_what_iterating_depends_on_is_not_set_later() -> None:
    loader = DataLoader(TensorDataset(fastdist.arange(4)))
    with pytest.raises(ValueError, match=r"^batch_size attribute should not be set after DataLoad"):
        loader.batch_size = 2


def test_without_batches_arrays_become_tensors_and_tuples_lists() -> None:
    samples = [(np.ones(2), "a", 3), (np.float32(1), b"b", [np.int64(2)])]
    first, second = DataLoader(samples, batch_size=None)  # type: ignore[arg-type]
    assert isinstance(first, list) and first[0].tolist() == [1.0, 1.0] and first[1:] == ["a", 3]
    assert second[0].dtype is fastdist.float32 and second[1] == b"b"
    assert second[2][0].item() == 2
