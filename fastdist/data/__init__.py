"""Datasets, and loaders that turn them into batches.

dataset.py says what data is, sampler.py in what order it is read, collate.py how samples become a
batch. loader.py is the DataLoader, passes.py what its iter() returns; with num_workers it has
batches made by other processes: worker_pool.py starts and asks them, worker_process.py is what runs
there. Workers are spawned, never forked: a fork would copy OpenMP's pool without its threads,
sockets, and locks held by other threads.

The order of samples depends on the generator alone, not on num_workers.
"""

from __future__ import annotations

from ..core.missing import explain_missing
from .collate import default_collate
from .dataset import (
    ConcatDataset,
    Dataset,
    IterableDataset,
    Subset,
    TensorDataset,
    random_split,
)
from .loader import DataLoader
from .sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from .worker_process import WorkerInfo, get_worker_info

__all__ = [
    "BatchSampler",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "IterableDataset",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "WorkerInfo",
    "default_collate",
    "get_worker_info",
    "random_split",
]

explain_missing(__name__)
