"""DataLoader: iterates over a dataset in batches."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ..core.caller_warning import warn_caller
from ..core.folded_frames import folds
from ..core.short_repr import short_repr
from ..devices.gpus import device_count
from ..random_numbers.generator import Generator, default_generator
from .collate import default_collate, default_convert
from .dataset import Dataset, IterableDataset
from .fetch import Fetcher
from .passes import Pass, PassElsewhere, PassHere
from .sampler import BatchSampler, RandomSampler, SequentialSampler

if TYPE_CHECKING:
    from multiprocessing.context import BaseContext

    from .worker_pool import WorkerPool

T_co = TypeVar("T_co", covariant=True)
_FIXED = frozenset(
    {"batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"}
)


class DataLoader(Generic[T_co]):
    """Yields the batches of a dataset, made in this process or by num_workers other processes.

    The order of samples depends on the generator alone: the same generator gives the same batches
    for any num_workers. The random numbers that workers draw depend on the generator too.

    Thread  not thread-safe
    Raises  ValueError for options that exclude each other or are out of range
    Note    workers are forked if this process has no other threads. Otherwise, or if
            multiprocessing_context selects "spawn" or "forkserver", dataset, collate_fn and
            worker_init_fn must be picklable, and a script must begin its work under
            `if __name__ == "__main__":`. In a script without that line, or in a notebook, workers
            are forked with a warning

    Args:
        dataset: The samples: a Dataset, a list, or an IterableDataset.
        batch_size: The number of samples per batch; None for single samples.
        shuffle: Whether each pass has a new random order; None: no.
        sampler: The source of the indices of a pass; None: shuffle decides.
        batch_sampler: The source of lists of indices, instead of batch_size, shuffle, sampler and
            drop_last; None: those decide.
        num_workers: The number of worker processes; 0 loads samples in this process.
        collate_fn: A function from a list of samples to a batch; the default stacks tensors.
        pin_memory: Whether to copy batches to page-locked memory, if there is a GPU.
        drop_last: Whether to drop a last batch that is not full.
        timeout: The seconds to wait for a batch from a worker; 0 for no limit.
        worker_init_fn: A function that each worker calls with its number at its start, or None.
        multiprocessing_context: The start method of workers; None chooses the fastest safe one.
        generator: The generator for random orders and for workers' seeds; None for the default one.
        prefetch_factor: The number of batches that each worker loads ahead; 2 if None.
        persistent_workers: Whether workers stay alive after a pass, for the next pass.
        pin_memory_device: Ignored.
        in_order: Whether batches come in the sampler's order; if False, in the order of completion.

    Example:
        >>> data = torch.utils.data.TensorDataset(torch.arange(5))
        >>> loader = torch.utils.data.DataLoader(data, batch_size=2)
        >>> [batch.tolist() for (batch,) in loader]
        [[0, 1], [2, 3], [4]]
    """

    @folds
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
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        _require_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        _require_no_conflict(
            dataset, batch_size, shuffle, sampler, batch_sampler, drop_last=drop_last
        )
        _warn_of_many(num_workers)
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = 2 if prefetch_factor is None and num_workers else prefetch_factor
        self.multiprocessing_context = multiprocessing_context
        self.persistent_workers = persistent_workers
        self.in_order = in_order
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.generator = generator
        self.sampler = sampler if sampler is not None else self._make_sampler(shuffle)
        self.batch_size = batch_size if batch_sampler is None else None
        self.drop_last = drop_last
        if batch_sampler is None and batch_size is not None:
            batch_sampler = BatchSampler(self.sampler, batch_size, drop_last)
        self.batch_sampler = batch_sampler
        if collate_fn is None:
            collate_fn = default_convert if batch_sampler is None else default_collate
        self.collate_fn = collate_fn
        self._pool: WorkerPool | None = None
        self._told_length: int | None = None
        self._is_made = True

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute. Raises ValueError for attributes that must not change after
        construction.
        """
        if name in _FIXED and self.__dict__.get("_is_made"):
            raise ValueError(
                f"{name} attribute should not be set after {type(self).__name__} is initialized: "
                "make another one"
            )
        super().__setattr__(name, value)

    @property
    def multiprocessing_context(self) -> Any:
        """The multiprocessing context that starts the workers; None chooses the fastest start
        method.
        """
        return self._context

    @multiprocessing_context.setter
    def multiprocessing_context(self, given: Any) -> None:
        self._context = _context_of(given, self.num_workers)

    def _make_sampler(self, shuffle: bool | None) -> Iterable[Any]:
        if isinstance(self.dataset, IterableDataset):
            return repeat(None)  # an iterable dataset chooses its own samples
        if shuffle:
            return RandomSampler(self.dataset, generator=self.generator)  # type: ignore[arg-type]
        return SequentialSampler(self.dataset)  # type: ignore[arg-type]

    @property
    def _indices(self) -> Iterable[Any]:
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    @folds
    def __len__(self) -> int:
        if isinstance(self.dataset, IterableDataset):
            count = self._told_length = len(self.dataset)  # type: ignore[arg-type]
            if self.batch_size is None:
                return count
            return count // self.batch_size if self.drop_last else -(-count // self.batch_size)
        return len(self._indices)  # type: ignore[arg-type]

    @folds
    def __iter__(self) -> Iterator[Any]:
        if self.pin_memory_device:
            warn_caller(
                "pin_memory_device is deprecated, the current accelerator will be used as the "
                f"device, ignore pin_memory_device='{self.pin_memory_device}'."
            )
        if self.pin_memory and not device_count():
            warn_caller(
                "'pin_memory' argument is set as true but no accelerator is found, then device "
                "pinned memory won't be used."
            )
        # The seed is drawn even without workers, so that later draws do not depend on num_workers.
        seed = int((self.generator or default_generator).integers(0, 1 << 62, ()))
        fetcher = Fetcher(
            self.dataset, self.collate_fn, self.batch_sampler is not None, self.drop_last
        )
        if self.num_workers == 0:
            return self._counted(PassHere(fetcher, self._indices))
        pool, self._pool = self._pool, None
        if pool is None:
            # Imported only here, because it loads multiprocessing, which takes 1 MB.
            from .worker_pool import WorkerPool

            pool = WorkerPool(fetcher, self.num_workers, self.worker_init_fn, self._context)
        elsewhere = PassElsewhere(
            pool,
            self._take_back,
            self._indices,
            seed=seed,
            ahead=self.prefetch_factor or 2,
            timeout_s=self.timeout,
            in_order=self.in_order,
        )
        return self._counted(elsewhere)

    def _counted(self, batches: Pass) -> Pass:
        batches.expect(self._told_length, self.dataset, self.num_workers)
        batches.is_pinned = self.pin_memory and device_count() > 0
        return batches

    def _take_back(self, pool: WorkerPool) -> None:
        if self.persistent_workers and self._pool is None:
            self._pool = pool
        else:
            pool.close()

    def close(self) -> None:
        """End persistent workers; the next pass starts new ones."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()

    def __del__(self) -> None:
        if getattr(self, "_pool", None) is not None:
            self.close()


def _context_of(given: Any, num_workers: int) -> BaseContext | None:
    if given is None:
        return None
    if num_workers == 0:
        raise ValueError(
            "multiprocessing_context can only be used with multi-process loading (num_workers > "
            f"0), but got num_workers={num_workers}"
        )
    import multiprocessing
    from multiprocessing.context import BaseContext

    if isinstance(given, str):
        methods = multiprocessing.get_all_start_methods()
        if given not in methods:
            raise ValueError(
                "multiprocessing_context option should specify a valid start method in "
                f"{short_repr(methods)}, but got multiprocessing_context={short_repr(given)}"
            )
        return multiprocessing.get_context(given)
    if not isinstance(given, BaseContext):
        raise TypeError(
            "multiprocessing_context option should be a valid context object or a string "
            f"specifying the start method, but got multiprocessing_context={short_repr(given)}"
        )
    return given


def _warn_of_many(num_workers: int) -> None:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    if cores is not None and num_workers > cores:
        warn_caller(
            f"This DataLoader will create {num_workers} worker processes in total. Our suggested "
            f"max number of worker in current system is {cores}, which is smaller than what this "
            "DataLoader is going to create. Please be aware that excessive worker creation might "
            "get DataLoader running slow or even freeze, lower the worker number to avoid "
            "potential slowness/freeze if necessary."
        )


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
