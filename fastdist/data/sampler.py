"""Samplers: the order in which a dataset is read."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar

import numpy as np

from ..core.folded_frames import fold_public
from ..core.sequences import as_lists
from ..core.short_repr import short_repr, short_text
from ..random_numbers.generator import Generator, default_generator

T_co = TypeVar("T_co", covariant=True)


class Sampler(Generic[T_co]):
    """Yields indices, or batches of indices."""

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError(f"{type(self).__name__} does not define __iter__")


class SequentialSampler(Sampler[int]):
    """The indices 0, 1, 2 and so on."""

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


_PIECE = 32


class RandomSampler(Sampler[int]):
    """All indices in random order; or num_samples random indices, with replacement.

    Raises  ValueError for a num_samples that is not positive
    """

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        if num_samples is not None and (not isinstance(num_samples, int) or num_samples <= 0):
            raise ValueError(
                f"num_samples should be a positive integer value, but got num_samples={num_samples}"
            )
        if num_samples is None and len(data_source) == 0:
            raise ValueError(
                "num_samples should be a positive integer value, but got num_samples=0: there is "
                "nothing to shuffle in an empty dataset"
            )
        self.data_source = data_source
        self.replacement = replacement
        self.generator = generator
        self._num_samples = num_samples

    @property
    def num_samples(self) -> int:
        """The number of indices in one iteration."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        generator = self.generator or default_generator
        count, left = len(self.data_source), self.num_samples
        if self.replacement:
            # Indices are drawn in chunks: some programs set num_samples to 10**10 and stop early.
            while left > 0:
                yield from generator.integers(0, count, (min(left, _PIECE),)).tolist()
                left -= _PIECE
            return
        while left > 0 and count:
            yield from generator.permutation(count)[:left].tolist()
            left -= count

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """The given indices in random order."""

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for i in (self.generator or default_generator).permutation(len(self.indices)).tolist():
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Draws num_samples indices, with probabilities proportional to the weights.

    Raises  ValueError if no weight is positive, or, without replacement, if fewer weights than
            num_samples are positive
    """

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
    ) -> None:
        self.weights = np.asarray(as_lists(weights), np.float64)
        if self.weights.ndim != 1 or not (self.weights >= 0).all() or not self.weights.sum() > 0:
            raise ValueError(
                "weights should be a 1d sequence of numbers that are not negative, one positive; "
                f"got {short_repr(weights)}"
            )
        if not isinstance(num_samples, int) or num_samples <= 0:
            raise ValueError(
                f"num_samples should be a positive integer value, but got num_samples={num_samples}"
            )
        if not replacement and num_samples > np.count_nonzero(self.weights):
            raise ValueError(
                f"WeightedRandomSampler: {num_samples} samples without replacement, but only "
                f"{np.count_nonzero(self.weights)} weights are positive"
            )
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        generator = self.generator or default_generator
        double: np.dtype[Any] = np.dtype(np.float64)
        if self.replacement:
            bounds = np.cumsum(self.weights)
            drawn = generator.uniform((self.num_samples,), double) * bounds[-1]
            picked = np.searchsorted(bounds, drawn, side="right")
        else:
            # Draw exponential arrival times with the weights as rates; the indices with the
            # earliest arrivals are the sample.
            waits = -np.log1p(-generator.uniform(self.weights.shape, double))
            arrivals = np.full(waits.shape, np.inf)
            np.divide(waits, self.weights, out=arrivals, where=self.weights > 0)
            picked = np.argsort(arrivals, kind="stable")[: self.num_samples]
        yield from picked.tolist()

    def __len__(self) -> int:
        return self.num_samples


class DistributedSampler(Sampler[T_co]):
    """The indices of one process. All processes compute the same order, and each takes the elements
    at `rank`, `rank + num_replicas` and so on.

    With `shuffle`, the order depends on `seed` and the epoch: call `set_epoch` before each epoch.
    To give all processes equally many indices, the first indices are repeated at the end of the
    order; with `drop_last`, the last indices are left out instead.

    Raises  RuntimeError if rank or num_replicas is neither given nor set by the launcher (RANK,
            WORLD_SIZE, from `fastdist run` or torchrun); ValueError for an invalid rank
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        num_replicas = _of_job("num_replicas", "WORLD_SIZE", num_replicas)
        rank = _of_job("rank", "RANK", rank)
        if not 0 <= rank < num_replicas:
            raise ValueError(
                f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]"
            )
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        self.shuffle = shuffle
        self.seed = seed
        count = len(dataset)
        self.num_samples = count // num_replicas if drop_last else -(-count // num_replicas)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self) -> Iterator[T_co]:
        order: list[Any] = list(range(len(self.dataset)))
        if self.shuffle:
            # `randperm` returns the same order for this seed. So processes that use randperm and
            # processes that use this sampler agree.
            generator = Generator().manual_seed(self.seed + self.epoch)
            order = generator.permutation(len(order)).tolist()
        padded = itertools.islice(itertools.cycle(order), self.total_size)
        return itertools.islice(padded, self.rank, None, self.num_replicas)

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the next epoch; with `shuffle`, the order depends on it."""
        self.epoch = epoch


def _of_job(name: str, variable: str, given: int | None) -> int:
    if given is not None:
        return given
    told = os.environ.get(variable)
    if told is None:
        raise RuntimeError(
            f"DistributedSampler: {name} was not passed, and the job's variable {variable} is "
            "not set: start the program with `fastdist run`, or pass num_replicas= and rank="
        )
    if not told.isdigit():
        raise ValueError(
            f"DistributedSampler: {variable} should be a number, but is {short_repr(told)}"
        )
    return int(told)


class BatchSampler(Sampler[list[Any]]):
    """Lists of batch_size indices of a sampler. With drop_last, a shorter last list is left out.

    Raises  ValueError for a batch_size that is not positive
    """

    def __init__(self, sampler: Iterable[Any], batch_size: int, drop_last: bool) -> None:
        if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size <= 0:
            raise ValueError(
                f"batch_size should be a positive integer value, but got batch_size="
                f"{short_text(batch_size)}"
            )
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[Any]]:
        batch: list[Any] = []
        for index in self.sampler:
            batch.append(index)
            if len(batch) == self.batch_size:
                yield batch
                batch = []
        if batch and not self.drop_last:
            yield batch

    def __len__(self) -> int:
        count = len(self.sampler)  # type: ignore[arg-type]
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)


fold_public(__name__)
