"""PyTorch's names for what makes a batch of indices, of its private file fetch.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....core.missing import explain_missing
from ....data.fetch import Fetcher

__all__ = ["_BaseDatasetFetcher", "_DatasetKind", "_IterableDatasetFetcher", "_MapDatasetFetcher"]


class _BaseDatasetFetcher:
    """The base class of batch makers: fetch(index) returns a batch."""

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
        """Return the batch of several indices, or the sample of one."""
        raise NotImplementedError


class _MapDatasetFetcher(_BaseDatasetFetcher):
    """Makes batches of a dataset whose samples have indices."""

    def fetch(self, possibly_batched_index: Any) -> Any:
        """Return the batch of several indices, or the sample of one."""
        found = Fetcher(self.dataset, self.collate_fn, self.auto_collation, self.drop_last)
        return found._look_up(possibly_batched_index)


class _IterableDatasetFetcher(_BaseDatasetFetcher):
    """Makes batches of the next samples of an iterable dataset.

    Note    reads the dataset from its first sample on, and raises StopIteration at its end
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
        """Return the batch of as many samples as there are indices, or the next sample."""
        return self._fetcher._next(possibly_batched_index)


class _DatasetKind:
    """Whether the samples of a dataset have indices (Map) or are read in order (Iterable)."""

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
        """Return a fetcher of batches for a dataset of this kind."""
        made = _MapDatasetFetcher if kind == _DatasetKind.Map else _IterableDatasetFetcher
        return made(dataset, auto_collation, collate_fn, drop_last)


explain_missing(__name__)
