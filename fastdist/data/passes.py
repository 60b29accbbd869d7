"""Passes over a DataLoader's data: iterators that go on behind a sample that raised.

Not generators, which are at their end once an exception has left them.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

from .fetch import Fetcher
from .worker_pool import WorkerPool


class PassHere:
    """Batches made in this process.

    Raises  what the sampler, the dataset or collate_fn raised; the next call asks for the next
            batch
    """

    def __init__(self, fetcher: Fetcher, indices: Iterable[Any]) -> None:
        self._fetcher, self._given = fetcher, indices
        self._indices: Iterator[Any] = iter(indices)
        fetcher.start()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        return self._fetcher.fetch(next(self._indices))

    def __len__(self) -> int:
        return len(self._given)  # type: ignore[arg-type]

    def close(self) -> None:
        """End the pass."""
        self._indices = iter(())


class PassElsewhere:
    """Batches made by a pool of workers; give_back gets it when they have made all.

    Raises  what the sampler raised here, or a worker's dataset or collate_fn there; the next call
            asks for the next batch. RuntimeError for a worker that died, again at each call, or
            that took too long, for which the next call waits again
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
    ) -> None:
        self._pool: WorkerPool | None = pool
        self._give_back, self._given = give_back, indices
        self._round = pool.begin(indices, seed, ahead, timeout_s)
        # Not __del__: a pass that an exception's traceback holds dies in a circle, where the pool's
        # connections might be closed, without knowing it, before they are closed here.
        self._end = weakref.finalize(self, pool.close)
        self._end.atexit = False  # multiprocessing ends daemons then

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
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
        """End the pass and its workers, whose answers under way nobody will read."""
        self._pool = None
        self._end()
