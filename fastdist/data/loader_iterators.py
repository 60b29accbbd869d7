"""Iterators for objects that have a DataLoader's attributes but are not DataLoaders."""

from __future__ import annotations

from typing import Any

from ..random_numbers.generator import default_generator
from .fetch import Fetcher
from .passes import Pass, PassElsewhere, PassHere


class _KindOfPass(type(Pass)):  # type: ignore[misc]
    """A metaclass for isinstance(): the iterators of a DataLoader count as instances too."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.__mro__[1])


class SingleProcessIterator(PassHere, metaclass=_KindOfPass):
    """The batches of a loader, made in this process.

    Args:
        loader: An object with the attributes `dataset`, `_dataset_kind`, `_index_sampler`,
            `_auto_collation`, `collate_fn`, `drop_last` and `generator`.
    """

    def __init__(self, loader: Any) -> None:
        _draw_seed(loader)
        super().__init__(_fetcher_of(loader), loader._index_sampler)


class WorkersIterator(PassElsewhere, metaclass=_KindOfPass):
    """The batches of a loader, made by worker processes that end when the iteration ends.

    Args:
        loader: An object with the attributes that SingleProcessIterator needs, and `num_workers`,
            `worker_init_fn`, `multiprocessing_context`, `prefetch_factor` and `timeout`.
    """

    def __init__(self, loader: Any) -> None:
        # Imported only here, because it loads multiprocessing, which takes 1 MB.
        from .worker_pool import WorkerPool

        seed = _draw_seed(loader)
        pool = WorkerPool(
            _fetcher_of(loader),
            loader.num_workers,
            loader.worker_init_fn,
            loader.multiprocessing_context,
        )
        super().__init__(
            pool,
            WorkerPool.close,
            loader._index_sampler,
            seed=seed,
            ahead=loader.prefetch_factor or 2,
            timeout_s=loader.timeout,
            in_order=getattr(loader, "in_order", True),
        )


def _fetcher_of(loader: Any) -> Fetcher:
    made = Fetcher(loader.dataset, loader.collate_fn, loader._auto_collation, loader.drop_last)
    made.is_iterable = bool(loader._dataset_kind)  # 0 means a dataset whose samples have indices
    return made


def _draw_seed(loader: Any) -> int:
    """Draw and return the base of the workers' seeds. SingleProcessIterator calls this too, so that
    later draws do not depend on workers.
    """
    return int((loader.generator or default_generator).integers(0, 1 << 62, ()))
