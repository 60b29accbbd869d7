"""The names of fastdist.data that PyTorch has in its private file collate.py."""

from __future__ import annotations

from ....core.missing import explain_missing
from ....data import default_collate, default_convert

__all__ = ["default_collate", "default_convert"]

explain_missing(__name__)
