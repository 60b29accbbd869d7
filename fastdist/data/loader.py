"""DataLoader: iterates over a dataset in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from typing import Any, Generic, TypeVar

from ..core.generator import Generator, default_generator
from .collate import default_collate
from .dataset import Dataset, IterableDataset
from .fetch import Fetcher
from .passes import PassElsewhere, PassHere
from .sampler import BatchSampler, RandomSampler, SequentialSampler
from .worker_pool import WorkerPool

T_co = TypeVar("T_co", covariant=True)


class DataLoader(Generic[T_co]):
    """Yields the batches of a dataset, made here or by num_workers other processes.

    The order of samples depends on the generator alone; the same generator gives the same batches
    for any num_workers. A worker's random numbers depend on it as well.

    Thread  one at a time
    Raises  ValueError for options that exclude each other or are out of range
    Note    workers are spawned: dataset, collate_fn and worker_init_fn must pickle, and a script
            must begin its work under `if __name__ == "__main__":`; pin_memory changes nothing
    """

    def __init__(
        self,
        dataset: Dataset[T_co],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        generator: Generator | None = None,
    ) -> None:
        _require_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        _require_no_conflict(
            dataset, batch_size, shuffle, sampler, batch_sampler, drop_last=drop_last
        )
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = prefetch_factor
        self.persistent_workers = persistent_workers
        self.pin_memory = pin_memory
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.generator = generator
        self.sampler = sampler if sampler is not None else self._make_sampler(shuffle)
        self.batch_size = batch_size if batch_sampler is None else None
        self.drop_last = drop_last
        if batch_sampler is None and batch_size is not None:
            batch_sampler = BatchSampler(self.sampler, batch_size, drop_last)
        self.batch_sampler = batch_sampler
        if collate_fn is None and batch_sampler is not None:
            collate_fn = default_collate
        self.collate_fn = collate_fn
        self._pool: WorkerPool | None = None

    def _make_sampler(self, shuffle: bool | None) -> Iterable[Any]:
        if isinstance(self.dataset, IterableDataset):
            return repeat(None)  # what is next is the dataset's to say
        if shuffle:
            return RandomSampler(self.dataset, generator=self.generator)  # type: ignore[arg-type]
        return SequentialSampler(self.dataset)  # type: ignore[arg-type]

    @property
    def _indices(self) -> Iterable[Any]:
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    def __len__(self) -> int:
        if isinstance(self.dataset, IterableDataset):
            count = len(self.dataset)  # type: ignore[arg-type]
            if self.batch_size is None:
                return count
            return count // self.batch_size if self.drop_last else -(-count // self.batch_size)
        return len(self._indices)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        # Drawn also without workers, so that num_workers changes nothing that is drawn later.
        seed = int((self.generator or default_generator).integers(0, 1 << 62, ()))
        fetcher = Fetcher(
            self.dataset, self.collate_fn, self.batch_sampler is not None, self.drop_last
        )
        if self.num_workers == 0:
            return PassHere(fetcher, self._indices)
        pool, self._pool = self._pool, None
        if pool is None:
            pool = WorkerPool(fetcher, self.num_workers, self.worker_init_fn)
        return PassElsewhere(
            pool,
            self._take_back,
            self._indices,
            seed=seed,
            ahead=self.prefetch_factor or 2,
            timeout_s=self.timeout,
        )

    def _take_back(self, pool: WorkerPool) -> None:
        if self.persistent_workers and self._pool is None:
            self._pool = pool
        else:
            pool.close()

    def close(self) -> None:
        """End persistent workers; the next epoch starts others."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()

    def __del__(self) -> None:
        if getattr(self, "_pool", None) is not None:
            self.close()


def _require_workers(
    num_workers: int, timeout: float, prefetch_factor: int | None, persistent_workers: bool
) -> None:
    if num_workers < 0:
        raise ValueError(
            "num_workers option should be non-negative; use num_workers=0 to disable "
            f"multiprocessing; got {num_workers}"
        )
    if timeout < 0:
        raise ValueError(f"timeout option should be non-negative; got {timeout}")
    if num_workers == 0 and prefetch_factor is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing. let num_workers > "
            "0 to enable multiprocessing, otherwise set prefetch_factor to None."
        )
    if prefetch_factor is not None and prefetch_factor < 1:
        raise ValueError(f"prefetch_factor option should be positive; got {prefetch_factor}")
    if persistent_workers and num_workers == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")


def _require_no_conflict(
    dataset: Any,
    batch_size: int | None,
    shuffle: bool | None,
    sampler: Any,
    batch_sampler: Any,
    *,
    drop_last: bool,
) -> None:
    if isinstance(dataset, IterableDataset):
        given = {"shuffle": shuffle or None, "sampler": sampler, "batch_sampler": batch_sampler}
        for name, value in given.items():
            if value is not None:
                raise ValueError(
                    f"DataLoader with IterableDataset: expected unspecified {name} option, but "
                    f"got {name}={value}"
                )
    if sampler is not None and shuffle:
        raise ValueError("sampler option is mutually exclusive with shuffle")
    if batch_sampler is not None and (
        batch_size != 1 or shuffle or sampler is not None or drop_last
    ):
        raise ValueError(
            "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and "
            "drop_last"
        )
    if batch_size is None and drop_last:
        raise ValueError(
            "batch_size=None option disables auto-batching and is mutually exclusive with drop_last"
        )
