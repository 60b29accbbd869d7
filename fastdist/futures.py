"""The public face of Futures: torch.futures' names."""

from __future__ import annotations

from .concurrency.future import Future, collect_all, wait_all

__all__ = ["Future", "collect_all", "wait_all"]
