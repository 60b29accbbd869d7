"""Datasets, and loaders that turn them into batches.

dataset.py defines datasets, sampler.py the order in which they are read, and collate.py makes
batches of samples. loader.py is the DataLoader, and passes.py has its iterators. With num_workers,
worker processes make the batches: worker_pool.py starts the workers and sends requests to them, and
workers run the code of worker_process.py. start_method.py chooses how workers start. This process
forks them if it has no other thread; otherwise a server process forks them. The reason is that a
fork copies held locks, sockets and thread pools, but not the threads to which these belong.

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
