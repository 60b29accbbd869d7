"""Several devices of one process, by PyTorch's names; of several processes only the name is there.

`comm` moves tensors between devices, `scatter_gather` takes arguments apart and joins results,
`replicate` copies a module, `parallel_apply` runs modules at once, DataParallel does all of it.
"""

from __future__ import annotations

from ...core.missing import explain_missing
from . import comm, distributed
from .data_parallel import DataParallel, data_parallel
from .distributed import DistributedDataParallel
from .parallel_apply import parallel_apply
from .replicate import replicate
from .scatter_gather import gather, scatter

__all__ = [
    "DataParallel",
    "DistributedDataParallel",
    "comm",
    "data_parallel",
    "distributed",
    "gather",
    "parallel_apply",
    "replicate",
    "scatter",
]

explain_missing(__name__)
