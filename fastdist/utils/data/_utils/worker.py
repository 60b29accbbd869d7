"""The names of fastdist.data that PyTorch has in its private file worker.py."""

from __future__ import annotations

from ....core.missing import explain_missing
from ....data import WorkerInfo, get_worker_info

__all__ = ["WorkerInfo", "get_worker_info"]

explain_missing(__name__)
