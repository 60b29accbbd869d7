"""Makes batches from a dataset; the same code runs in the main process and in workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .collate import default_collate, is_by_class
from .dataset import IterableDataset, TensorDataset


class Fetcher:
    """Makes a DataLoader's batches from its dataset. Workers get a pickled copy.

    Note    if `collate` is None, samples are returned without collation
    """

    def __init__(
        self, dataset: Any, collate: Callable[[Any], Any] | None, batched: bool, drop_last: bool
    ) -> None:
        self.dataset = dataset
        self.collate = collate
        self.batched = batched
        self.drop_last = drop_last
        self.is_iterable = isinstance(dataset, IterableDataset)
        self._samples: Iterator[Any] = iter(())
        self._is_ended = False

    def start(self) -> None:
        """Start an iterable dataset from its first sample."""
        if self.is_iterable:
            self._samples = iter(self.dataset)
            self._is_ended = False

    def fetch(self, index: Any) -> Any:
        """Return the batch for a list of indices, or the sample for one index, of the sampler.

        Raises  StopIteration at the end of an iterable dataset
        """
        return self._next(index) if self.is_iterable else self._look_up(index)

    def _next(self, index: Any) -> Any:
        if not self.batched:
            return self._collated(next(self._samples))
        samples: list[Any] = []
        # After an iterator has ended, next() is not called on it again, because it might yield more
        # items. iter() is not called on it either, because an iterator might then start again.
        while not self._is_ended and len(samples) < len(index):
            try:
                samples.append(next(self._samples))
            except StopIteration:
                self._is_ended = True
        if not samples or (self.drop_last and self._is_ended):
            raise StopIteration
        return self._collated(samples)

    def _look_up(self, index: Any) -> Any:
        dataset = self.dataset
        if not self.batched:
            return self._collated(dataset[index])
        if self.collate is default_collate and type(dataset) is TensorDataset and not is_by_class():
            return dataset._rows(index)
        if hasattr(dataset, "__getitems__"):
            return self._collated(dataset.__getitems__(index))
        return self._collated([dataset[i] for i in index])

    def _collated(self, samples: Any) -> Any:
        return samples if self.collate is None else self.collate(samples)
