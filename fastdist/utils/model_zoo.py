"""PyTorch's older name of its hub, which is not here: it says what to do instead."""

from __future__ import annotations

from ..core.missing import NO_HUB, load_later, refusing

__all__ = ["load_url"]

load_url = refusing(__name__, "load_url", NO_HUB)

load_later(__name__, {"tqdm": ".progress"})
