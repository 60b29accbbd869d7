"""Modules on several devices of one process, or in several processes.

`comm` copies tensors between devices. `scatter_gather` splits arguments and joins results.
`replicate` copies a module to several devices. `parallel_apply` runs modules concurrently.
`DataParallel` combines these steps. `distributed` has DistributedDataParallel, for several
processes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.missing import load_later
from . import comm
from .data_parallel import DataParallel, data_parallel
from .parallel_apply import parallel_apply
from .replicate import replicate
from .scatter_gather import gather, scatter

if TYPE_CHECKING:
    from . import distributed as distributed
    from .distributed import DistributedDataParallel as DistributedDataParallel

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

# Loaded on first use, because most programs train in one process.
load_later(__name__, {"distributed": "", "DistributedDataParallel": "distributed"})
