"""The iterators of a DataLoader, which can continue after a sample that raised an error.

The iterators are not generators, because a generator ends with the first exception that leaves it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Self

from ..core.caller_warning import warn_caller
from ..core.folded_frames import fold
from .fetch import Fetcher
from .pinning import pinned

if TYPE_CHECKING:
    from .worker_pool import WorkerPool


class Pass:
    """One pass over the data. It counts batches, and warns at those beyond the reported length of
    an iterable dataset.
    """

    _count = 0
    _told: int | None = None
    is_pinned = False  # whether to copy batches to pinned memory

    def expect(self, told: int | None, dataset: Any, num_workers: int) -> None:
        """Set the reported length. Each batch beyond this length causes a warning."""
        self._told, self._dataset, self._num_workers = told, dataset, num_workers

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        try:
            batch = self._next()
            self._count += 1
            if self._told is not None and self._count > self._told:
                self._warn_of_length()
            return pinned(batch) if self.is_pinned else batch
        except Exception as error:
            fold(error)
            raise

    def _next(self) -> Any:
        raise NotImplementedError

    def _warn_of_length(self) -> None:
        text = (
            f"Length of IterableDataset {self._dataset} was reported to be {self._told}(when "
            f"accessing len(dataloader)), but {self._count} samples have been fetched. "
        )
        if self._num_workers > 0:
            text += (
                "For multiprocessing data-loading, this could be caused by not properly "
                "configuring the IterableDataset replica at each worker: get_worker_info() gives "
                "its share."
            )
        warn_caller(text)


class PassHere(Pass):
    """Batches made in this process.

    Raises  the errors of the sampler, the dataset or collate_fn; the next call continues with the
            next batch
    """

    def __init__(self, fetcher: Fetcher, indices: Iterable[Any]) -> None:
        self._fetcher, self._given = fetcher, indices
        self._indices: Iterator[Any] = iter(indices)
        fetcher.start()

    def _next(self) -> Any:
        return self._fetcher.fetch(next(self._indices))

    def __len__(self) -> int:
        return len(self._given)  # type: ignore[arg-type]

    def close(self) -> None:
        """End the pass."""
        self._indices = iter(())


class PassElsewhere(Pass):
    """Batches made by a pool of workers. After the last batch, the pool is passed to `give_back`.

    Raises  the errors of the sampler, or of a worker's dataset or collate_fn; the next call
            continues with the next batch. RuntimeError if a worker died; each later call raises it
            again. RuntimeError if a worker exceeded the timeout; the next call waits for this
            worker again
    """

    def __init__(
        self,
        pool: WorkerPool,
        give_back: Callable[[WorkerPool], None],
        indices: Iterable[Any],
        *,
        seed: int,
        ahead: int,
        timeout_s: float,
        in_order: bool,
    ) -> None:
        self._pool: WorkerPool | None = pool
        self._give_back, self._given = give_back, indices
        self._round = pool.begin(indices, seed, ahead, timeout_s, in_order)
        # A finalizer instead of `__del__`, because an exception's traceback can hold a pass in a
        # reference cycle. The garbage collector might then finalize the pool's connections before
        # `__del__` could close them.
        self._end = weakref.finalize(self, pool.close)
        self._end.atexit = False  # at exit, multiprocessing ends daemon processes

    def _next(self) -> Any:
        if self._pool is None:
            raise StopIteration
        try:
            return self._round.take()
        except StopIteration:
            if self._round.is_over:
                pool, self._pool = self._pool, None
                self._end.detach()
                self._give_back(pool)
            raise

    def __len__(self) -> int:
        return len(self._given)  # type: ignore[arg-type]

    def close(self) -> None:
        """End the pass and its workers; batches that workers have not yet sent are lost."""
        self._pool = None
        self._end()
