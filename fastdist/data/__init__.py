"""Datasets, and loaders that turn them into batches.

dataset.py defines datasets, sampler.py the order in which they are read, collate.py how samples
become a batch. loader.py is the DataLoader, passes.py the result of its iter(); with num_workers
other processes make its batches: worker_pool.py starts them and sends requests, worker_process.py
is the code that runs there. start_method.py chooses how they start: forked where this process has
no other thread, otherwise by a server that forks them, since a fork copies held locks, sockets and
pools without the threads that they belong to.

The order of samples depends on the generator alone, not on num_workers.
"""

from __future__ import annotations

from ..core.missing import explain_missing, instead
from .collate import default_collate, default_convert
from .dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from .loader import DataLoader
from .sampler import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from .worker_process import WorkerInfo, get_worker_info

__all__ = [
    "BatchSampler",
    "ChainDataset",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "DistributedSampler",
    "IterableDataset",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "StackDataset",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "WorkerInfo",
    "default_collate",
    "default_convert",
    "get_worker_info",
    "random_split",
]

instead(
    {
        f"{room}.{name}": "data pipes are not supported: write an IterableDataset or a Dataset"
        for room in (__name__, "fastdist.utils.data")
        for name in ("IterDataPipe", "MapDataPipe", "DFIterDataPipe", "functional_datapipe")
    }
)
explain_missing(__name__)
