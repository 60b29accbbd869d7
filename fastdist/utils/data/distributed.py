"""The name of fastdist.data that PyTorch has in its file distributed.py."""

from __future__ import annotations

from ...core.missing import explain_missing
from ...data import DistributedSampler

__all__ = ["DistributedSampler"]

explain_missing(__name__)
