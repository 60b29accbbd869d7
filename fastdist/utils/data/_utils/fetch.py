"""Fetchers, which make batches from indices: PyTorch has them in its private file fetch.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....core.missing import explain_missing
from ....data.fetch import Fetcher

__all__ = ["_BaseDatasetFetcher", "_DatasetKind", "_IterableDatasetFetcher", "_MapDatasetFetcher"]


class _BaseDatasetFetcher:
    """Base class of fetchers: fetch(index) returns a batch."""

    _of_iterable = False

    def __init__(
        self,
        dataset: Any,
        auto_collation: bool,
        collate_fn: Callable[[Any], Any],
        drop_last: bool,
    ) -> None:
        self.dataset = dataset
        self.auto_collation = auto_collation
        self.collate_fn = collate_fn
        self.drop_last = drop_last

    def fetch(self, possibly_batched_index: Any) -> Any:
        """Return a batch for several indices, or a sample for one index."""
        raise NotImplementedError


class _MapDatasetFetcher(_BaseDatasetFetcher):
    """Makes batches from a dataset whose samples have indices."""

    def fetch(self, possibly_batched_index: Any) -> Any:
        """Return a batch for several indices, or a sample for one index."""
        found = Fetcher(self.dataset, self.collate_fn, self.auto_collation, self.drop_last)
        return found._look_up(possibly_batched_index)


class _IterableDatasetFetcher(_BaseDatasetFetcher):
    """Makes batches from the next samples of an iterable dataset.

    Note    iterates over the dataset once, and raises StopIteration at its end
    """

    def __init__(
        self,
        dataset: Any,
        auto_collation: bool,
        collate_fn: Callable[[Any], Any],
        drop_last: bool,
    ) -> None:
        super().__init__(dataset, auto_collation, collate_fn, drop_last)
        self._fetcher = Fetcher(dataset, collate_fn, auto_collation, drop_last)
        self._fetcher.start()

    def fetch(self, possibly_batched_index: Any) -> Any:
        """Return a batch of the next samples, one for each index, or a sample for one index."""
        return self._fetcher._next(possibly_batched_index)


class _DatasetKind:
    """The kinds of datasets: `Map` is read by index, and `Iterable` in order."""

    Map = 0
    Iterable = 1

    @staticmethod
    def create_fetcher(
        kind: int,
        dataset: Any,
        auto_collation: bool,
        collate_fn: Callable[[Any], Any],
        drop_last: bool,
    ) -> _BaseDatasetFetcher:
        """Return a fetcher for a dataset of the given kind."""
        made = _MapDatasetFetcher if kind == _DatasetKind.Map else _IterableDatasetFetcher
        return made(dataset, auto_collation, collate_fn, drop_last)


explain_missing(__name__)
