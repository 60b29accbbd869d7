"""Iterators over loaders of other classes."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import fastdist as fd
from fastdist.utils.data import DataLoader
from fastdist.utils.data.dataloader import (
    _DatasetKind,
    _MultiProcessingDataLoaderIter,
    _SingleProcessDataLoaderIter,
)


class Ready:
    """Yields complete batches; it is an iterable, but not an IterableDataset."""

    def __iter__(self) -> Iterator[list[int]]:
        yield from ([0, 1], [2])


def loader(dataset: Any, kind: int, indices: Any, **more: Any) -> Any:
    """Return an object with the attributes of a DataLoader, but of another class."""
    given = {
        "_auto_collation": kind == _DatasetKind.Map,
        "_dataset_kind": kind,
        "_index_sampler": indices,
        "collate_fn": fd.tensor,
        "dataset": dataset,
        "drop_last": False,
        "generator": None,
        "multiprocessing_context": None,
        "num_workers": 0,
        "prefetch_factor": None,
        "timeout": 0,
        "worker_init_fn": None,
    }
    return SimpleNamespace(**{**given, **more})


def test_a_loader_of_another_class_is_iterated_in_this_process() -> None:
    found = _SingleProcessDataLoaderIter(loader([5, 6, 7], _DatasetKind.Map, [[0, 2], [1]]))
    assert [one.tolist() for one in found] == [[5, 7], [6]]
    made = _SingleProcessDataLoaderIter(loader(Ready(), _DatasetKind.Iterable, range(9)))
    assert [one.tolist() for one in made] == [[0, 1], [2]]


def test_a_loader_of_another_class_is_iterated_by_workers() -> None:
    given = loader([5, 6, 7], _DatasetKind.Map, [[0, 2], [1]], num_workers=1)
    assert [one.tolist() for one in _MultiProcessingDataLoaderIter(given)] == [[5, 7], [6]]


@pytest.mark.parametrize("kind", [_SingleProcessDataLoaderIter, _MultiProcessingDataLoaderIter])
def test_a_pass_of_a_data_loader_is_an_instance(kind: Any) -> None:
    workers = int(kind is _MultiProcessingDataLoaderIter)
    for one in (
        iter(DataLoader([1], num_workers=workers)),
        kind(loader([1], 0, [[0]], num_workers=1)),
    ):
        assert isinstance(one, kind)
        one.close()
    assert not isinstance(iter([]), kind)
