"""Names of fastdist.data that PyTorch has in its file dataloader.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ... import data as _data
from ...core.missing import explain_missing
from ...data import *  # noqa: F403 (the room says its names)
from ...data.loader_iterators import SingleProcessIterator as _SingleProcessDataLoaderIter
from ...data.loader_iterators import WorkersIterator as _MultiProcessingDataLoaderIter
from ...data.passes import Pass as _BaseDataLoaderIter
from . import _utils
from ._utils.fetch import _DatasetKind

__all__ = [*_data.__all__]  # noqa: PLE0604 (names of the room, all strings)
__all__ += ["_BaseDataLoaderIter", "_DatasetKind", "_MultiProcessingDataLoaderIter"]
__all__ += ["_SingleProcessDataLoaderIter", "_utils"]

# Types of the DataLoader's arguments, for annotations.
_worker_init_fn_t = Callable[[int], None]
_collate_fn_t = Callable[[list[Any]], Any]


class _InfiniteConstantSampler(_data.Sampler[None]):
    """Yields None forever: a sampler for iterable datasets, which are read without indices."""

    def __iter__(self) -> Iterator[None]:
        while True:
            yield None


explain_missing(__name__)
