"""Futures under PyTorch's names: `fastdist.futures.X`."""

from __future__ import annotations

from .concurrency.future import Future, collect_all, wait_all
from .core.missing import show_public

__all__ = ["Future", "collect_all", "wait_all"]

show_public(__name__)
