"""PyTorch's wrappers for several devices: one device passes through, several are refused."""

from __future__ import annotations

from ...core.missing import explain_missing
from . import distributed
from .data_parallel import DataParallel, data_parallel
from .distributed import DistributedDataParallel

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel", "distributed"]

explain_missing(__name__)
