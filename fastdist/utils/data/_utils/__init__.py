"""Names that programs import from private files of PyTorch's DataLoader: collate.py, worker.py."""

from __future__ import annotations

from ....core.missing import explain_missing
from . import collate, worker

__all__ = ["collate", "worker"]

explain_missing(__name__)
