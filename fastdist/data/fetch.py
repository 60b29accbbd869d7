"""Fetching one batch: the same code in the caller's process and in workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from .collate import default_collate
from .dataset import IterableDataset, TensorDataset


class Fetcher:
    """What a DataLoader's batches are made of; travels to workers by pickle.

    Note    collate None: no batches are made, samples come one by one as they are
    """

    def __init__(
        self, dataset: Any, collate: Callable[[Any], Any] | None, batched: bool, drop_last: bool
    ) -> None:
        self.dataset = dataset
        self.collate = collate
        self.batched = batched
        self.drop_last = drop_last
        self._samples: Iterator[Any] | None = None

    def start(self) -> None:
        """Begin an iterable dataset from its first sample."""
        if isinstance(self.dataset, IterableDataset):
            self._samples = iter(self.dataset)

    def fetch(self, index: Any) -> Any:
        """Return the batch (or the sample) that a sampler's index stands for.

        Raises  StopIteration at the end of an iterable dataset
        """
        return self._next(index) if self._samples is not None else self._look_up(index)

    def _next(self, index: Any) -> Any:
        assert self._samples is not None
        if not self.batched:
            return self._collated(next(self._samples))
        samples = list(islice(self._samples, len(index)))
        if not samples or (self.drop_last and len(samples) < len(index)):
            raise StopIteration
        return self._collated(samples)

    def _look_up(self, index: Any) -> Any:
        dataset = self.dataset
        if not self.batched:
            return self._collated(dataset[index])
        if self.collate is default_collate and type(dataset) is TensorDataset:
            return dataset._rows(index)
        if hasattr(dataset, "__getitems__"):
            return self._collated(dataset.__getitems__(index))
        return self._collated([dataset[i] for i in index])

    def _collated(self, samples: Any) -> Any:
        return samples if self.collate is None else self.collate(samples)
