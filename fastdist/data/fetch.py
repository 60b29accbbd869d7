"""Fetches a batch: the same code runs in the main process and in workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .collate import default_collate, is_by_class
from .dataset import IterableDataset, TensorDataset


class Fetcher:
    """The source of a DataLoader's batches; it is sent to workers by pickle.

    Note    with collate None, samples are returned one by one and unchanged
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
        """Return the batch (or the sample) for an index of the sampler.

        Raises  StopIteration at the end of an iterable dataset
        """
        return self._next(index) if self.is_iterable else self._look_up(index)

    def _next(self, index: Any) -> Any:
        if not self.batched:
            return self._collated(next(self._samples))
        samples: list[Any] = []
        # After its end an iterator is not called again, because it might yield more items. iter()
        # is not called on it either: an object that is its own iterator may start again.
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
