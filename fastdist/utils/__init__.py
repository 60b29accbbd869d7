"""PyTorch's name for the room of datasets: `from fastdist.utils.data import DataLoader`.

Nothing else stands here; what is of use to a subject stands with its subject.
"""

from __future__ import annotations

from ..core.missing import explain_missing
from . import data

__all__ = ["data"]

explain_missing(__name__, data.__name__)
