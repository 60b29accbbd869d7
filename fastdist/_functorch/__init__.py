"""PyTorch's private package for vmap and grad: the parts that packages import."""

from __future__ import annotations

from ..core.missing import load_later

load_later(__name__, {"make_functional": "", "vmap": ""})
