"""What programs take from PyTorch's private files of the DataLoader: collate.py and worker.py."""

from __future__ import annotations

from ....core.missing import explain_missing
from . import collate, worker

__all__ = ["collate", "worker"]

explain_missing(__name__)
